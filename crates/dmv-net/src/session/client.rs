//! The side that connected.

use super::link::Link;
use super::{AGENT, NetError, Summary, transfer};
use crate::sync::Goal;
use crate::wire::{Access, Hello, MAX_REFS, MAX_REFS_IN_MESSAGE, Message, Outcome, Update};
use dmv_core::chunker::CHUNKER;
use dmv_core::hash::ObjectId;
use dmv_core::history::is_ancestor;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::reach::{Filter, Root};
use dmv_core::refs::check_ref_name;
use dmv_core::repo::{Offered, RefMoved, RefUpdate, Refusal, Repo};

/// How far back a fetch goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// To what is here already.
    #[default]
    New,
    /// To the beginning.
    All,
    /// So many commits along the shortest line from a ref, at least one.
    Depth(u32),
    /// To the first commit of each line that was made before this time, in seconds since 1970.
    Since(i64),
}

/// A connection to another repository.
pub struct Client<'r> {
    repo: &'r Repo,
    job: &'r Job,
    link: Link,
    /// What the server allows.
    access: Access,
    /// What the server offered when the connection was made.
    pub offered: Offered,
}

impl<'r> Client<'r> {
    /// Greets the server and reads its refs: one round trip.
    pub fn connect(repo: &'r Repo, mut link: Link, job: &'r Job) -> Result<Client<'r>, NetError> {
        link.say(&hello(repo, Access::Read))?;
        link.traffic.round_trips += 1;
        let Message::Hello(server) = link.hear(job)? else {
            return Err(NetError::Protocol("a greeting was expected"));
        };
        if server.chunker != CHUNKER {
            return Err(NetError::Version(format!(
                "its cutter is {}",
                server.chunker
            )));
        }
        let offered = read_refs(&mut link, job)?;
        Ok(Client {
            repo,
            job,
            link,
            access: server.access,
            offered,
        })
    }

    /// Brings what `tips` need, as far as this repository's slice calls for it. When it returns, all
    /// of that is here, and nothing names it yet.
    pub fn fetch(&mut self, tips: &[ObjectId]) -> Result<(), NetError> {
        self.fetch_history(tips, History::New)
    }

    /// [`fetch`](Self::fetch), as far back as `history` says. Further than what is here, the whole
    /// walk is made anew, and what is here is not sent again.
    pub fn fetch_history(&mut self, tips: &[ObjectId], history: History) -> Result<(), NetError> {
        let mut filter = self.repo.wanted()?;
        let mut complete = self.repo.complete_commits()?;
        match history {
            History::New => {}
            History::All => (complete, filter.since) = (Vec::new(), None),
            History::Depth(depth) => {
                (complete, filter.since, filter.depth) = (Vec::new(), None, depth);
            }
            History::Since(time) => (complete, filter.since) = (Vec::new(), Some(time)),
        }
        let mut wanted = Vec::new();
        for tip in tips {
            let known = history == History::New && self.is_complete(tip, &complete, &filter)?;
            if !wanted.contains(tip) && !known {
                wanted.push(*tip);
            }
        }
        // A message names a bounded number of commits.
        for tips in wanted.chunks(crate::wire::MAX_IDS) {
            let goal = Goal {
                tips: tips.to_vec(),
                complete: complete.clone(),
                empty: self.repo.store().table_stats().1 == 0,
                filter: filter.clone(),
            };
            transfer::receive(self.repo, &mut self.link, goal, self.job)?;
        }
        Ok(())
    }

    /// Brings what is under `roots`, as far as the server has it. Returns objects that it does not
    /// have; nothing is said of what lies under those.
    pub fn pick(&mut self, roots: Vec<Root>) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
        transfer::pick(self.repo, &mut self.link, roots, self.job)
    }

    fn is_complete(
        &self,
        tip: &ObjectId,
        complete: &[ObjectId],
        filter: &Filter,
    ) -> Result<bool, NetError> {
        let objects = self.repo.objects();
        if complete.contains(tip) {
            return Ok(true);
        }
        // What lies behind a boundary may be here as what a cut transfer left.
        if !filter.shallow.is_empty() || !objects.holds(ObjectType::Commit, tip)? {
            return Ok(false);
        }
        for commit in complete.iter().take(MAX_LOOKS) {
            if is_ancestor(objects, tip, commit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Asks the server to move refs, after sending what they need. Returns what became of each.
    pub fn push(&mut self, updates: &[RefUpdate]) -> Result<Vec<RefMoved>, NetError> {
        let mut moved = Vec::new();
        for updates in updates.chunks(MAX_REFS_IN_MESSAGE) {
            self.push_some(updates, &mut moved)?;
        }
        Ok(moved)
    }

    fn push_some(
        &mut self,
        updates: &[RefUpdate],
        moved: &mut Vec<RefMoved>,
    ) -> Result<(), NetError> {
        let wire = |update: &RefUpdate| Update {
            key: update.key.clone(),
            old: update.old.map(|id| *id.as_bytes()),
            new: Some(*update.new.as_bytes()),
            force: update.force,
        };
        self.link
            .say(&Message::Push(updates.iter().map(wire).collect()))?;
        self.link.traffic.round_trips += 1;
        let mut answer = self.link.hear(self.job)?;
        if matches!(answer, Message::Want(_)) {
            let offered = updates.iter().map(|update| update.new);
            transfer::send(self.repo, &mut self.link, answer, offered, self.job)?;
            answer = self.link.hear(self.job)?;
        }
        let Message::Pushed(outcomes) = answer else {
            return Err(NetError::Protocol("an answer to a push was expected"));
        };
        if outcomes.len() != updates.len() {
            return Err(NetError::Protocol("an answer for each ref was expected"));
        }
        for (update, outcome) in updates.iter().zip(outcomes) {
            moved.push(RefMoved {
                key: update.key.clone(),
                old: update.old,
                new: update.new,
                refused: match outcome {
                    Outcome::Done => None,
                    Outcome::Moved => Some(Refusal::Moved),
                    Outcome::NotForward => Some(Refusal::NotForward),
                    Outcome::BadName | Outcome::Refused => Some(Refusal::BadName),
                },
            });
        }
        Ok(())
    }

    /// Whether the server takes pushes.
    pub fn may_push(&self) -> bool {
        self.access == Access::Write
    }

    /// Ends the connection.
    pub fn finish(mut self, refs: Vec<RefMoved>) -> Summary {
        // A server that has gone knows that we are done.
        let _ = self.link.say(&Message::Bye);
        let traffic = self.link.traffic;
        self.link.close();
        Summary { traffic, refs }
    }
}

/// Local commits whose ancestors are looked through for what the server offers.
const MAX_LOOKS: usize = 32;

/// This side's greeting.
pub fn hello(repo: &Repo, access: Access) -> Message {
    Message::Hello(Hello {
        agent: AGENT.to_owned(),
        repository: repo.id().0,
        chunker: CHUNKER.to_owned(),
        access,
        extensions: Vec::new(),
    })
}

fn read_refs(link: &mut Link, job: &Job) -> Result<Offered, NetError> {
    let mut offered = Offered::default();
    loop {
        let Message::Refs(page) = link.hear(job)? else {
            return Err(NetError::Protocol("refs were expected"));
        };
        if page.more && page.refs.is_empty() {
            return Err(NetError::Protocol("refs that do not end"));
        }
        if offered.refs.len() + page.refs.len() > MAX_REFS {
            return Err(NetError::Protocol("too many refs"));
        }
        for (key, id) in page.refs {
            let name = key.strip_prefix("branch/").or(key.strip_prefix("tag/"));
            if name.is_none_or(|name| check_ref_name(name).is_err()) {
                return Err(NetError::Protocol("a ref with a name that no ref can have"));
            }
            offered.refs.push((key, ObjectId::from_bytes(id)));
        }
        if let Some(head) = page.head {
            if check_ref_name(&head).is_err() {
                return Err(NetError::Protocol(
                    "a branch with a name that none can have",
                ));
            }
            offered.head = Some(head);
        }
        if !page.more {
            break;
        }
    }
    offered.refs.sort();
    offered.refs.dedup_by(|a, b| a.0 == b.0);
    Ok(offered)
}

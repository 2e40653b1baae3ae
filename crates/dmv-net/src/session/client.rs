//! The client's side of a session: the repository that opened the connection.
//!
//! [`Client`] fetches, pushes, picks objects by id, and asks a server to keep files. The program
//! calls it, once per connection.

use super::absence::Absence;
use super::held::has_purged;
use super::link::Link;
use super::{AGENT, NetError, PeerSlice, Summary, transfer};
use crate::sync::{Goal, SyncError};
use crate::wire::{
    Access, Extension, Hello, MAX_EXPIRED, MAX_IDS, MAX_KEEPS, MAX_REFS, MAX_REFS_IN_MESSAGE,
    Message, Outcome, ReadOnly, Update, from_wire_objects, to_wire_objects,
};
use dmv_core::chunker::CHUNKER;
use dmv_core::hash::ObjectId;
use dmv_core::history::is_ancestor;
use dmv_core::job::Job;
use dmv_core::limits::MAX_TOLD_PLACE_BYTES;
use dmv_core::object::root::Root;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::refs::check_ref_name;
use dmv_core::repo::{
    ClaimsThere, Expiry, KeepingLock, KnownPurge, OfferedRefs, RefChange, RefUpdate, Refusal, Repo,
    RepoError,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How far back a fetch goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// To the commits that are complete here.
    #[default]
    New,
    /// To the beginning.
    All,
    /// This many commits along the shortest line from a ref, at least one.
    Depth(u32),
    /// To the first commit of each line that is older than this time, in seconds since 1970.
    Since(i64),
}

/// A connection to another repository.
pub struct Client<'r> {
    pub(super) repo: &'r Repo,
    pub(super) job: &'r Job,
    pub(super) link: Link,
    /// The server's greeting: what it can do, and what it allows.
    pub(super) server: Hello,
    /// Whether the server keeps only what its refs lead to, as a bucket does, and nothing for this client.
    pub keeps_by_refs: bool,
    /// Keeps this repository's objects from being dropped until the fetched commits are published.
    kept: Option<KeepingLock>,
    /// What was fetched, to fetch it again if something was freed before it got a name.
    fetched: Vec<(Vec<ObjectId>, History)>,
    /// Content that has expired at the server.
    expired: Absence<BTreeMap<ObjectId, Arc<Expiry>>>,
    /// Content that the server has purged.
    pub(super) purged: Absence<Vec<KnownPurge>>,
    /// What the server is called in notes.
    pub(super) place: String,
    /// What the server stores, if it says so.
    pub held: Option<PeerSlice>,
    /// The refs that the server offered when the connection was made.
    pub offered: OfferedRefs,
    /// What the server has told of claims, if it was asked.
    pub claims_there: Option<ClaimsThere>,
}

impl<'r> Client<'r> {
    /// Exchanges Hello messages and reads the server's refs. Takes one round trip.
    ///
    /// Fails if the server uses another cutter.
    pub fn connect(repo: &'r Repo, mut link: Link, job: &'r Job) -> Result<Client<'r>, NetError> {
        let mut greeting = hello(repo, Access::Read, &link);
        let device = repo.own_device();
        let device = Extension::claims(device.map_or(Vec::new(), Vec::from));
        greeting.extensions.push(device);
        link.say(&Message::Hello(greeting))?;
        link.traffic.round_trips += 1;
        let Message::Hello(server) = link.hear(job)? else {
            return Err(NetError::Protocol("a greeting was expected"));
        };
        link.greeted(&server);
        if server.chunker != CHUNKER {
            return Err(NetError::Version(format!(
                "it cuts files with {}",
                server.chunker
            )));
        }
        let offered = read_refs(&mut link, job)?;
        Ok(Client {
            repo,
            job,
            link,
            keeps_by_refs: false,
            expired: Absence::greeted(server.expires().then_some(true)),
            purged: Absence::greeted(server.purges()),
            place: "a remote".to_owned(),
            held: PeerSlice::read(&server),
            server,
            kept: None,
            fetched: Vec::new(),
            offered,
            claims_there: None,
        })
    }

    /// Fetches what `tips` need, as far as this repository's slice calls for it.
    ///
    /// When it returns, all of these objects are stored, and no ref names them yet.
    pub fn fetch(&mut self, tips: &[ObjectId]) -> Result<(), NetError> {
        self.fetch_history(tips, History::New)
    }

    /// Fetches what `tips` need, as far back as `history` says.
    ///
    /// With any history except [`History::New`], no commit counts as complete: the receiver walks
    /// again from the tips. It does not fetch objects that it has.
    pub fn fetch_history(&mut self, tips: &[ObjectId], history: History) -> Result<(), NetError> {
        if self.kept.is_none() {
            // The transfer relies on objects that are stored already. They must stay until refs
            // name them.
            self.kept = Some(self.repo.keep_all()?);
        }
        self.fetched.push((tips.to_vec(), history));
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
        self.receive_all(&wanted, &complete, filter)
    }

    /// Receives what the commits `wanted` need and what neither `filter` leaves out nor the commits
    /// `complete` have.
    fn receive_all(
        &mut self,
        wanted: &[ObjectId],
        complete: &[ObjectId],
        mut filter: Filter,
    ) -> Result<(), NetError> {
        self.purges_there()?;
        if wanted.is_empty() {
            return Ok(());
        }
        self.ask_expired()?;
        filter.dropped.extend(self.absent_there());
        let is_first = self.repo.store().is_empty();
        if is_first {
            // The checkout of a clone begins before everything has arrived.
            self.note_purges(None)?;
        }
        let mut all_left_out = BTreeSet::new();
        // One message names at most `MAX_IDS` commits.
        for tips in wanted.chunks(MAX_IDS) {
            let goal = Goal {
                tips: tips.to_vec(),
                complete: complete.to_vec(),
                empty: self.repo.store().is_empty(),
                filter: filter.clone(),
            };
            let left_out = self.receive(goal)?;
            // Before any ref names the commits.
            all_left_out.extend(&left_out);
            if is_first && !self.purges().is_empty() {
                // What no commit needs is of no interest.
                self.purged.noted = self.repo.keep_told(&all_left_out)?;
            }
            self.note_purges(Some(&left_out))?;
            self.note_expired(left_out)?;
        }
        Ok(())
    }

    /// Returns the files that the server is known to lack for a reason.
    fn absent_there(&self) -> impl Iterator<Item = ObjectId> {
        let expired = self.expired.known().into_iter().flat_map(BTreeMap::keys);
        let purged = self.purges().iter().flat_map(|purge| &purge.files);
        expired.chain(purged).copied()
    }

    /// Receives what one goal asks for, and returns what was left out. If the other side holds only a
    /// part, the error for absent objects says which.
    fn receive(&mut self, goal: Goal) -> Result<BTreeSet<ObjectId>, NetError> {
        let held = self.held.clone();
        let Some(held) = held.filter(|held| !held.is_everything()) else {
            return transfer::receive(self.repo, &mut self.link, goal, self.job);
        };
        let lacking = |held, absent| NetError::Partial {
            held: Box::new(held),
            absent,
        };
        if goal.empty && held.cannot_give(&goal.filter) {
            return Err(lacking(held, None));
        }
        match transfer::receive(self.repo, &mut self.link, goal, self.job) {
            Err(NetError::Sync(e @ SyncError::Absent { .. })) => {
                Err(lacking(held, Some(Box::new(e))))
            }
            received => received,
        }
    }

    /// Fetches commits and what is below them, without chunks, wherever no ref of the server leads to
    /// them. No ref will name them here.
    pub fn fetch_metadata(&mut self, tips: &[ObjectId]) -> Result<(), NetError> {
        let purged = self.purges_there()?.iter().flat_map(|purge| &purge.files);
        let purged: BTreeSet<ObjectId> = purged.copied().collect();
        let mut filter = self.repo.wanted()?;
        filter.metadata_only = true;
        filter.dropped.extend(purged);
        for tips in tips.chunks(MAX_IDS) {
            let goal = Goal {
                tips: tips.to_vec(),
                complete: self.repo.complete_commits()?,
                empty: false,
                filter: filter.clone(),
            };
            transfer::receive(self.repo, &mut self.link, goal, self.job)?;
        }
        Ok(())
    }

    /// Says what the server is called in notes about content that it has purged.
    pub fn name_place(&mut self, place: &str) {
        let mut place: String = place.chars().filter(|c| !c.is_control()).collect();
        place.truncate(place.floor_char_boundary(MAX_TOLD_PLACE_BYTES));
        if !place.is_empty() {
            self.place = place;
        }
    }

    /// Asks once which content of the server has expired. It need not be received.
    fn ask_expired(&mut self) -> Result<(), NetError> {
        if !self.expired.begin_to_ask() {
            return Ok(());
        }
        let mut there = BTreeMap::new();
        self.link.say(&Message::AskExpired)?;
        self.link.traffic.round_trips += 1;
        loop {
            let Message::Expired(found, last) = self.link.hear(self.job)? else {
                return Err(NetError::Protocol("expired content was expected"));
            };
            if there.len() + found.files.len() > MAX_EXPIRED {
                return Err(NetError::Protocol("too much expired content"));
            }
            let why = Arc::new(Expiry {
                at: found.at,
                rule: found.rule,
                pattern: found.pattern,
            });
            if found.files.is_empty() && !last || !found.files.is_empty() && !why.is_storable() {
                return Err(NetError::Protocol("content that has expired for no reason"));
            }
            let files = found.files.into_iter().map(ObjectId::from_bytes);
            there.extend(files.map(|id| (id, why.clone())));
            if last {
                self.expired.answered(there);
                return Ok(());
            }
        }
    }

    /// Notes what was left out because it has expired at the server.
    fn note_expired(&mut self, left_out: BTreeSet<ObjectId>) -> Result<(), NetError> {
        let mut expired = self.expired.known().cloned().unwrap_or_default();
        expired.retain(|id, _| left_out.contains(id));
        self.expired.noted += self.repo.note_expired(&expired)?;
        Ok(())
    }

    /// Calls `give`, which gives names to what was fetched.
    ///
    /// The fetch sent nothing that was here. If another process has freed some of that meanwhile, no
    /// name is given. Then this fetches again what is missing, over the same connection, and calls
    /// `give` again.
    pub fn name<T>(
        &mut self,
        mut give: impl FnMut() -> Result<T, RepoError>,
    ) -> Result<T, NetError> {
        for _ in 1..TRIES {
            match give() {
                Err(e) if e.may_be_gone() => self.fetch_again()?,
                done => return Ok(done?),
            }
        }
        Ok(give()?)
    }

    fn fetch_again(&mut self) -> Result<(), NetError> {
        // What is found from now on counts. The lock itself is never given up in between.
        self.kept = Some(self.repo.keep_all()?);
        for (tips, history) in std::mem::take(&mut self.fetched) {
            self.fetch_history(&tips, history)?;
        }
        Ok(())
    }

    /// Fetches what is under `roots`, as far as the server has it.
    ///
    /// Returns the objects that the server lacks. Objects below those are not listed.
    pub fn pick(&mut self, roots: Vec<Root>) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
        let objects = self.repo.objects();
        transfer::pick(self.repo, objects, &mut self.link, roots, self.job)
    }

    /// Fetches the objects `wanted` that `sound` lacks, without the objects that they name. So
    /// objects that are damaged here are fetched, too.
    ///
    /// Returns the objects that the server lacks.
    pub fn bring_again(
        &mut self,
        wanted: Vec<(ObjectType, ObjectId)>,
        sound: &dyn ObjectRead,
    ) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
        let roots = wanted.into_iter().map(|(ty, id)| Root::Object(ty, id));
        let roots = roots.collect();
        transfer::pick(self.repo, sound, &mut self.link, roots, self.job)
    }

    /// Asks whether the server has the content of all of these files and keeps it while this
    /// connection lasts. Returns the files for which it does not.
    ///
    /// The answer is no proof. A user who drops files trusts the remotes that dmv asks.
    pub fn unkept(
        &mut self,
        files: &[(ObjectType, ObjectId)],
    ) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
        if !self.server.keeps() {
            return Err(NetError::Version("it cannot confirm its copies".to_owned()));
        }
        let mut unkept = Vec::new();
        // An empty list is sent, too: the answer shows that the connection still stands.
        for files in files
            .chunks(MAX_KEEPS)
            .chain(files.is_empty().then_some(files))
        {
            let mut pages = files.chunks(MAX_IDS).peekable();
            loop {
                let page = to_wire_objects(pages.next().unwrap_or_default());
                let last = pages.peek().is_none();
                self.link.say(&Message::Keep(page, last))?;
                if last {
                    break;
                }
            }
            self.link.traffic.round_trips += 1;
            loop {
                let Message::Unkept(page, last) = self.link.hear(self.job)? else {
                    return Err(NetError::Protocol("an answer about copies was expected"));
                };
                let page = from_wire_objects(&page)?;
                if unkept.len() + page.len() > files.len() {
                    return Err(NetError::Protocol("an answer about more than was asked"));
                }
                unkept.extend(page);
                if last {
                    break;
                }
            }
        }
        if self.keeps_by_refs {
            unkept.extend(self.not_led_to(files, &unkept)?);
        }
        Ok(unkept)
    }

    /// Returns those of `files` that no offered ref leads to, as far as this repository knows, and that
    /// are not in `but`.
    fn not_led_to(
        &self,
        files: &[(ObjectType, ObjectId)],
        but: &[(ObjectType, ObjectId)],
    ) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
        let but: HashSet<ObjectId> = but.iter().map(|(_, id)| *id).collect();
        let wanted = files.iter().filter(|(_, id)| !but.contains(id));
        let mut wanted: HashMap<ObjectId, ObjectType> = wanted.map(|(ty, id)| (*id, *ty)).collect();
        let (objects, mut tips) = (self.repo.objects(), Vec::new());
        for (_, id) in &self.offered.refs {
            // Ids prove what is below them, so nothing of it has to be read there.
            if objects.holds(ObjectType::Commit, id)? {
                tips.push(*id);
            }
        }
        let mut reach = Reach::new(tips, [], Detail::All).skipping_chunks();
        while !wanted.is_empty()
            && let Some(found) = reach.next(objects)?
        {
            wanted.remove(&found.id);
            self.job.check()?;
        }
        Ok(wanted.into_iter().map(|(id, ty)| (ty, id)).collect())
    }

    /// Returns the id of the server's repository.
    pub fn repository(&self) -> [u8; 16] {
        self.server.repository
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
        // With a boundary, a stored tip may be left from a transfer that was cut, without its
        // parents.
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

    /// Sends what `updates` need and requests that the server moves or deletes their refs.
    ///
    /// Returns the result of each update. Fails if a ref is to be deleted and the server cannot do
    /// it.
    pub fn push(&mut self, updates: &[RefUpdate]) -> Result<Vec<RefChange>, NetError> {
        if !self.server.deletes() && updates.iter().any(|update| update.new.is_none()) {
            return Err(NetError::Version("it cannot delete branches".to_owned()));
        }
        let tips: Vec<ObjectId> = updates.iter().filter_map(|update| update.new).collect();
        self.check_push(&tips)?;
        let mut moved = Vec::new();
        for updates in updates.chunks(MAX_REFS_IN_MESSAGE) {
            self.push_some(updates, &mut moved)?;
        }
        Ok(moved)
    }

    fn push_some(
        &mut self,
        updates: &[RefUpdate],
        moved: &mut Vec<RefChange>,
    ) -> Result<(), NetError> {
        let wire = |update: &RefUpdate| Update {
            key: update.key.clone(),
            old: update.old.map(|id| *id.as_bytes()),
            new: update.new.map(|id| *id.as_bytes()),
            force: update.force,
        };
        self.link
            .say(&Message::Push(updates.iter().map(wire).collect()))?;
        self.link.traffic.round_trips += 1;
        let mut answer = self.link.hear(self.job)?;
        // More than once if the server has freed meanwhile what it had when it asked first.
        while matches!(answer, Message::Want(_)) {
            let offered = updates.iter().filter_map(|update| update.new);
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
            moved.push(RefChange {
                key: update.key.clone(),
                old: update.old,
                new: update.new,
                refused: match outcome {
                    Outcome::Done => None,
                    Outcome::Moved => Some(Refusal::Moved),
                    Outcome::NotForward => Some(Refusal::NotForward),
                    Outcome::BadName | Outcome::Refused => Some(Refusal::BadName),
                    Outcome::InUse => Some(Refusal::InUse),
                    Outcome::Held => Some(Refusal::Held),
                },
            });
        }
        Ok(())
    }

    /// Returns why the server accepts no pushes, if it accepts none and says why.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.server.read_only()
    }

    /// Returns whether the server accepts pushes.
    pub fn may_push(&self) -> bool {
        self.server.access == Access::Write
    }

    /// Ends the connection. `refs` become part of the summary.
    pub fn finish(mut self, refs: Vec<RefChange>) -> Summary {
        // If this fails, the server is gone and needs no Bye.
        let _ = self.link.say(&Message::Bye);
        let (traffic, expired, purged) = (self.link.traffic, self.expired.noted, self.purged.noted);
        // What cannot be read is no reason to fail after everything was done.
        let unpurged = self.unpurged().unwrap_or_default();
        self.link.close();
        Summary {
            traffic,
            refs,
            expired,
            purged,
            unpurged,
            place: self.place,
        }
    }
}

/// How often a fetch or push receives again because another process frees objects meanwhile.
pub const TRIES: usize = 5;

/// The number of complete commits whose ancestors are searched for an offered commit.
const MAX_LOOKS: usize = 32;

/// Makes this side's Hello.
pub fn hello(repo: &Repo, access: Access, link: &Link) -> Hello {
    let mut extensions = vec![
        Extension::keeps(),
        Extension::hears_totals(),
        Extension::deletes(),
        Extension::takes_little(),
        Extension::purges(has_purged(repo)),
        Extension::bases(repo.store().may_have_bases()),
    ];
    extensions.extend(link.patience_millis().map(Extension::works));
    Hello {
        agent: AGENT.to_owned(),
        repository: *repo.id().as_bytes(),
        chunker: CHUNKER.to_owned(),
        access,
        extensions,
    }
}

fn read_refs(link: &mut Link, job: &Job) -> Result<OfferedRefs, NetError> {
    let mut offered = OfferedRefs::default();
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

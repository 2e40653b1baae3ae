//! Brings content that a command needs and that is not here, from whichever remotes have it.
//!
//! The library finds out what is lacking before it changes anything, and says so; it is brought in
//! one go here, and the command runs again.

use crate::context::{Context, quoted};
use crate::error::{EXIT_ABSENT, Failure};
use crate::partial::words;
use crate::peers::{Remote, cheapest_first, dial};
use dmv_core::object::ObjectType;
use dmv_core::object::name::escape;
use dmv_core::object::root::{Lack, Root};
use dmv_core::repo::{Repo, RepoError};
use dmv_net::session::{Client, NetError};
use dmv_net::transport::Connection;

/// Paths that a message names.
const MAX_PATHS_NAMED: usize = 3;

/// Runs `work`, after bringing what it turns out to lack. `doing`: for whoever watches.
pub fn supplied<T>(
    context: &Context,
    repo: &Repo,
    doing: &'static str,
    mut work: impl FnMut() -> Result<T, RepoError>,
) -> Result<T, Failure> {
    let mut supplier = None;
    loop {
        let watch = context.watch(doing);
        let done = work();
        drop(watch);
        let lacks = match done {
            Err(RepoError::Lacking(lacks)) => lacks,
            // History comes by fetch: one commit after the other would take a round trip each.
            Err(RepoError::Absent { id, ty }) if ty != ObjectType::Commit => vec![Lack {
                path: Vec::new(),
                root: Root::Object(ty, id),
            }],
            done => {
                supplier.into_iter().for_each(Supplier::finish);
                return Ok(done?);
            }
        };
        let supplier = match &mut supplier {
            Some(supplier) => supplier,
            none => none.insert(Supplier::new(context, repo)?),
        };
        let left = supplier.bring(lacks)?;
        if !left.is_empty() {
            return Err(supplier.failure(&left));
        }
        context.job.begin_part();
    }
}

/// The remotes, and what is known of them.
pub struct Supplier<'a> {
    context: &'a Context,
    repo: &'a Repo,
    offline: bool,
    peers: Vec<Peer<'a>>,
}

/// A remote, and what is known of it.
pub struct Peer<'a> {
    /// Which.
    pub remote: Remote,
    state: State<'a>,
}

enum State<'a> {
    Unasked,
    /// It answers. What it was asked for and did not have was left.
    /// The client comes first, to go first: what keeps the connection up waits until it has.
    Open(Box<(Client<'a>, Connection)>),
    /// Why it does not.
    Gone(String),
}

impl<'a> Supplier<'a> {
    /// Knows the remotes; connects to none yet.
    pub fn new(context: &'a Context, repo: &'a Repo) -> Result<Supplier<'a>, Failure> {
        Ok(Supplier {
            context,
            repo,
            offline: context.is_offline()?,
            peers: Peer::all(context)?,
        })
    }

    /// Brings what is lacking, from one remote after the other. Returns what none of them has.
    pub fn bring(&mut self, lacks: Vec<Lack>) -> Result<Vec<Lack>, Failure> {
        let mut left = lacks;
        if self.offline {
            return Ok(left);
        }
        let watch = self.context.watch("fetching");
        let wanted: Vec<Root> = left.iter().map(|lack| lack.root).collect();
        for peer in &mut self.peers {
            let roots = left.iter().map(|lack| lack.root).collect();
            // Who fails is passed over; what came before a connection broke counts.
            let _ = peer.ask(self.context, self.repo, |client| client.pick(roots));
            if self.context.job.is_cancelled() {
                return Err(NetError::Cancelled.into());
            }
            let mut still = Vec::new();
            for lack in left {
                if !self.repo.has_root(lack.root)? {
                    still.push(lack);
                }
            }
            left = still;
            if left.is_empty() {
                break;
            }
        }
        drop(watch);
        // What has been dropped and is needed again stays from now on.
        self.repo.have_come(&wanted)?;
        Ok(left)
    }

    /// Says what nobody has, who was asked, and what to do.
    pub fn failure(&self, left: &[Lack]) -> Failure {
        let mut paths: Vec<Vec<u8>> = left.iter().map(|lack| lack.path.clone()).collect();
        paths.retain(|path| !path.is_empty());
        paths.sort();
        paths.dedup();
        let what = match (&paths[..], left) {
            ([], [lack, ..]) => format!("object {}", lack.root.id().short(12)),
            (paths, _) => format!("the content of {}", some_of(paths)),
        };
        let failure = |why: String| {
            let mut failure = Failure::new("absent", EXIT_ABSENT, format!("{what} is {why}"));
            failure.paths.clone_from(&paths);
            failure
        };
        if self.peers.is_empty() {
            let why = "absent from this repository, and no remote is configured";
            return failure(why.to_owned()).hint("dmv remote add NAME URL");
        }
        let again = match paths.first() {
            Some(path) if paths.len() == 1 => {
                format!("dmv get {}", quoted(&String::from_utf8_lossy(path)))
            }
            _ => "dmv get PATH".to_owned(),
        };
        if self.offline {
            let names: Vec<&str> = self.peers.iter().map(|p| &p.remote.name[..]).collect();
            let names = names.join(", ");
            let why = format!("absent from this repository; offline: {names} was not asked");
            return failure(why).hint(match self.context.globals.offline {
                true => again,
                false => format!("DMV_NET_OFFLINE=false {again}"),
            });
        }
        let lacking = self.peers.iter().filter_map(|peer| match &peer.state {
            State::Gone(_) => None,
            State::Unasked => Some(format!("{} does not have it", peer.remote.name)),
            State::Open(open) => {
                let holds = open.0.held.as_ref().and_then(words);
                let holds = holds.map(|words| format!(" (a partial repository: {words})"));
                let holds = holds.unwrap_or_default();
                Some(format!("{} does not have it{holds}", peer.remote.name))
            }
        });
        let gone = self.peers.iter().filter_map(|peer| match &peer.state {
            State::Gone(why) => Some(format!(
                "{} may have it, but did not answer ({why})",
                peer.remote.name
            )),
            _ => None,
        });
        let said: Vec<String> = lacking.chain(gone).collect();
        let why = format!("absent from this repository; {}", said.join("; "));
        let holders = self.believed_to_have_it();
        failure(why).hint(match holders.is_empty() {
            true => "dmv remote add NAME URL".to_owned(),
            // As long as none of them answers, it would fail likewise.
            false => format!("{again}, when {} is reachable", holders.join(" or ")),
        })
    }

    /// Of those that do not answer, the remotes that something was fetched from or pushed to; all of
    /// them if there is none such.
    fn believed_to_have_it(&self) -> Vec<&str> {
        let gone = self.peers.iter();
        let gone = gone.filter(|peer| matches!(peer.state, State::Gone(_)));
        let names = gone.map(|peer| &peer.remote.name[..]);
        let (met, others): (Vec<&str>, Vec<&str>) = names.partition(|name| {
            let noted = self.repo.refs().with_prefix(&format!("remote/{name}/"));
            noted.is_ok_and(|noted| !noted.is_empty())
        });
        match met.is_empty() {
            true => others,
            false => met,
        }
    }

    /// Says goodbye to whom it has asked, and tells who did not answer.
    pub fn finish(self) {
        for peer in self.peers {
            peer.finish_telling(self.context);
        }
    }
}

impl<'a> Peer<'a> {
    /// All remotes, cheapest first; nobody is connected to yet.
    pub fn all(context: &Context) -> Result<Vec<Peer<'a>>, Failure> {
        let peer = |remote| Peer {
            remote,
            state: State::Unasked,
        };
        Ok(cheapest_first(context)?.into_iter().map(peer).collect())
    }

    /// Runs `session` on a connection to this peer, which stays open. A failure is told in words,
    /// and ends it: others may do.
    pub fn ask<T>(
        &mut self,
        context: &'a Context,
        repo: &'a Repo,
        session: impl FnOnce(&mut Client<'a>) -> Result<T, NetError>,
    ) -> Result<T, String> {
        let before = std::mem::replace(&mut self.state, State::Gone(String::new()));
        let opened = match before {
            State::Open(open) => Ok(open),
            State::Unasked => self.open(context, repo),
            State::Gone(why) => Err(why),
        };
        let done = opened.and_then(|mut open| match session(&mut open.0) {
            Ok(done) => Ok((done, open)),
            Err(e) => Err(open.1.explain(e).to_string()),
        });
        match done {
            Ok((done, open)) => {
                self.state = State::Open(open);
                Ok(done)
            }
            Err(why) => {
                self.state = State::Gone(why.clone());
                Err(why)
            }
        }
    }

    /// Forgets that it failed: something else may be asked of it.
    pub fn try_again(&mut self) {
        if let State::Gone(_) = self.state {
            self.state = State::Unasked;
        }
    }

    fn open(
        &self,
        context: &'a Context,
        repo: &'a Repo,
    ) -> Result<Box<(Client<'a>, Connection)>, String> {
        let open = dial(context, repo, &self.remote.url);
        let open = open.map(|(connection, client)| Box::new((client, connection)));
        open.map_err(|failure| failure.message)
    }

    /// Says goodbye, or tells whoever watches why it does not answer.
    pub fn finish_telling(self, context: &Context) {
        if let State::Gone(why) = &self.state {
            let text = format_args!("note: {} was skipped: {why}", self.remote.name);
            context.ui.note(text);
        }
        self.finish();
    }

    /// Says goodbye.
    pub fn finish(self) {
        if let State::Open(open) = self.state {
            let (client, _connection) = *open;
            client.finish(Vec::new());
        }
    }
}

/// The first of several paths, and how many more there are.
pub fn some_of(paths: &[Vec<u8>]) -> String {
    let names = paths.iter().take(MAX_PATHS_NAMED);
    let names: Vec<String> = names.map(|path| format!("'{}'", escape(path))).collect();
    let names = names.join(", ");
    match paths.len().saturating_sub(MAX_PATHS_NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

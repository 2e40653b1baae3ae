//! Fetching content that a command lacks, from the remotes that have it.
//!
//! The library finds out what a command lacks before it changes anything. Then all of it is fetched
//! at once, and the command runs again.

use super::absent::{Absent, Answer, PeerAnswer};
use super::caller::{Caller, Step};
use super::error::OpsError;
use super::peer::{Peer, SilentPeer};
use crate::session::NetError;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::{Lack, Root};
use dmv_core::repo::{AbsentError, Purge, Repo, RepoError};
use std::sync::Arc;

/// How the work of [`supplied`] ended.
#[derive(Debug)]
pub struct SupplyReport<T> {
    /// What the work returned, with everything that it needed.
    pub done: Result<T, RepoError>,
    /// Remotes that did not answer.
    pub skipped: Vec<SilentPeer>,
}

/// Fails with [`AbsentError::Purged`] if some of this was purged here: no remote is asked for that. If the
/// remotes were asked, `told` says that what one of them has purged counts, too.
fn check_purged(repo: &Repo, lacks: &[Lack], told: bool) -> Result<(), RepoError> {
    // An unreadable slice stops what follows, and says why.
    let slice = repo.slice().unwrap_or_default();
    for lack in lacks {
        let id = lack.root.id();
        let here = slice.purged.get(&id).or(slice.pieces.get(&id));
        let there = slice.told.get(&id).filter(|_| told).map(|told| &told.purge);
        if let Some(why) = here.map(Arc::as_ref).or(there) {
            return Err(AbsentError::Purged {
                path: (!lack.path.is_root()).then(|| lack.path.clone()),
                purge: Box::new(Purge::clone(why)),
            }
            .into());
        }
    }
    Ok(())
}

/// Runs `work`. If it lacks content, fetches this from the caller's remotes and runs it again.
///
/// Fails with [`OpsError::Absent`] if no remote gives what the work lacks.
pub fn supplied<T>(
    repo: &Repo,
    caller: &dyn Caller,
    job: &Job,
    mut work: impl FnMut() -> Result<T, RepoError>,
) -> Result<SupplyReport<T>, OpsError> {
    let mut known = None;
    loop {
        caller.began(Step::Work);
        let lacks = match work() {
            Err(RepoError::Absent(AbsentError::Lacking(lacks))) => lacks,
            // Commits are not fetched one by one: each would take a round trip. `fetch` does it.
            Err(RepoError::Absent(AbsentError::Object { id, ty })) if ty != ObjectType::Commit => {
                vec![Lack {
                    path: RepoPath::root(),
                    root: Root::Object(ty, id),
                }]
            }
            done => {
                let skipped = known.map_or_else(Vec::new, Suppliers::finish);
                return Ok(SupplyReport { done, skipped });
            }
        };
        check_purged(repo, &lacks, false)?;
        let mut suppliers = match known.take() {
            Some(suppliers) => suppliers,
            None => Suppliers::new(repo, caller, job)?,
        };
        let left = suppliers.fetch(lacks)?;
        if !left.is_empty() {
            check_purged(repo, &left, true)?;
            return Err(OpsError::Absent(Box::new(suppliers.absent(left))));
        }
        known = Some(suppliers);
        job.begin_part();
    }
}

/// The remotes that content is fetched from.
pub struct Suppliers<'a> {
    repo: &'a Repo,
    caller: &'a dyn Caller,
    job: &'a Job,
    offline: bool,
    peers: Vec<Peer<'a>>,
}

impl<'a> Suppliers<'a> {
    /// Takes the caller's remotes. Connects to none of them yet.
    pub fn new(
        repo: &'a Repo,
        caller: &'a dyn Caller,
        job: &'a Job,
    ) -> Result<Suppliers<'a>, NetError> {
        let remotes = caller.remotes()?;
        Ok(Suppliers {
            repo,
            caller,
            job,
            offline: remotes.offline,
            peers: Peer::all(remotes.list, repo, caller, job),
        })
    }

    /// Fetches what is lacking, from one remote after the other. Returns what none of them has.
    ///
    /// Content that was dropped and is needed again stays from now on.
    pub fn fetch(&mut self, lacks: Vec<Lack>) -> Result<Vec<Lack>, OpsError> {
        let mut left = lacks;
        if self.offline {
            return Ok(left);
        }
        self.caller.began(Step::Supply);
        let wanted: Vec<Root> = left.iter().map(|lack| lack.root).collect();
        for peer in &mut self.peers {
            let roots = left.iter().map(|lack| lack.root).collect();
            // If a peer fails, what it has sent before counts, and the next one is asked.
            let _ = peer.ask(|client| client.pick(roots));
            if self.job.is_cancelled() {
                return Err(NetError::Cancelled.into());
            }
            left = still_lacking(self.repo, left)?;
            if left.is_empty() {
                break;
            }
        }
        self.repo.have_come(&wanted)?;
        Ok(left)
    }

    /// Returns why no remote has given `lacks`. Ends all connections.
    pub fn absent(self, lacks: Vec<Lack>) -> Absent {
        let repo = self.repo;
        let asked = |peer: Peer<'_>| PeerAnswer {
            name: peer.remote.name.clone(),
            is_known: peer.remote.once || is_known(repo, &peer.remote.name),
            answer: answer_of(peer),
        };
        Absent {
            lacks,
            offline: self.offline,
            peers: self.peers.into_iter().map(asked).collect(),
        }
    }

    /// Ends all connections. Returns the remotes that did not answer.
    pub fn finish(self) -> Vec<SilentPeer> {
        self.peers.into_iter().filter_map(Peer::finish).collect()
    }
}

fn still_lacking(repo: &Repo, lacks: Vec<Lack>) -> Result<Vec<Lack>, RepoError> {
    let mut left = Vec::new();
    for lack in lacks {
        if !repo.has_root(lack.root)? {
            left.push(lack);
        }
    }
    Ok(left)
}

/// Returns whether this repository has fetched from the remote or pushed to it.
pub(super) fn is_known(repo: &Repo, remote: &str) -> bool {
    let noted = repo.refs().with_prefix(&format!("remote/{remote}/"));
    noted.is_ok_and(|noted| !noted.is_empty())
}

fn answer_of(peer: Peer<'_>) -> Answer {
    let held = peer.held().cloned().map(Box::new);
    match peer.finish() {
        Some(skipped) => Answer::Missing(skipped.why),
        None => Answer::Lacks(held),
    }
}

//! Fetching content that a command lacks, from the remotes that have it.
//!
//! The library finds out what a command lacks before it changes anything. Then all of it is fetched
//! at once, and the command runs again.

use super::absent::{Absent, Answer, PeerAnswer};
use super::caller::{Caller, Step};
use super::error::OpsError;
use super::peer::{Peer, SilentPeer};
use super::remote::Remote;
use crate::session::NetError;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::{Lack, Root};
use dmv_core::path::PathError;
use dmv_core::refs::RefsError;
use dmv_core::repo::{AbsentError, Purge, PurgesElsewhere, Repo, RepoError};
use dmv_core::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

/// How the work of [`supplied`] ended.
#[derive(Debug)]
pub struct SupplyReport<T> {
    /// What the work returned, with everything that it needed.
    pub done: Result<T, RepoError>,
    /// Remotes that did not answer.
    pub skipped: Vec<SilentPeer>,
}

/// Who has purged what is lacking, by its path.
#[derive(Debug)]
pub struct PurgedLack {
    /// A path of it in a commit; the root if unknown.
    pub path: RepoPath,
    /// Who has purged it, when and why.
    pub purge: Purge,
    /// The remote that has purged it; `None`: this repository.
    pub place: Option<String>,
}

impl From<PurgedLack> for RepoError {
    fn from(lack: PurgedLack) -> RepoError {
        AbsentError::Purged {
            path: (!lack.path.is_root()).then_some(lack.path),
            purge: Box::new(lack.purge),
            place: lack.place,
        }
        .into()
    }
}

/// Returns what was purged here and made a session end.
fn purged_in(e: &NetError) -> Option<PurgedLack> {
    match e {
        NetError::Repo(RepoError::Absent(AbsentError::Purged { path, purge, place })) => {
            Some(PurgedLack {
                path: path.clone().unwrap_or_default(),
                purge: Purge::clone(purge),
                place: place.clone(),
            })
        }
        _ => None,
    }
}

/// Returns the error again if this user may not use a file of `repo` itself.
fn of_own_file(repo: &Repo, e: &NetError) -> Option<RepoError> {
    let NetError::Repo(e) = e else {
        return None;
    };
    match e {
        RepoError::Io(e)
        | RepoError::Store(StoreError::Io(e))
        | RepoError::Refs(RefsError::File(e) | RefsError::Lock(e))
            if is_ours(e.kind()) && e.path.to_path_buf().starts_with(repo.dmv_dir()) =>
        {
            let again = PathError::new(e.op, e.path.clone(), e.kind());
            Some(RepoError::Io(again))
        }
        RepoError::Refs(RefsError::ReadOnly(path)) if path.starts_with(repo.dmv_dir()) => {
            Some(RefsError::ReadOnly(path.clone()).into())
        }
        _ => None,
    }
}

/// Returns whether an error of a file says something about this system, and not about the file.
fn is_ours(kind: ErrorKind) -> bool {
    use ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        kind,
        PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

/// Returns those that were purged here: no remote is asked for them.
fn purged_here(repo: &Repo, lacks: &[Lack]) -> Vec<PurgedLack> {
    // An unreadable slice stops what follows, and says why.
    let slice = repo.slice().unwrap_or_default();
    let purged = |lack: &Lack| {
        let id = lack.root.id();
        let purge = slice.purged.get(&id).or(slice.pieces.get(&id))?;
        Some(PurgedLack {
            path: lack.path.clone(),
            purge: Purge::clone(purge),
            place: None,
        })
    };
    lacks.iter().filter_map(purged).collect()
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
    let (mut known, mut last, mut again) = (None, None, 0);
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
        if let Some(purged) = purged_here(repo, &lacks).into_iter().next() {
            return Err(RepoError::from(purged).into());
        }
        let mut suppliers = match known.take() {
            Some(suppliers) => suppliers,
            None => Suppliers::new(repo, caller, job)?,
        };
        // What it lacks is here, but it does not find it: nobody can help.
        again = if last.as_ref() == Some(&lacks) {
            again + 1
        } else {
            0
        };
        if again >= MAX_AGAIN {
            return Err(OpsError::Absent(Box::new(suppliers.absent(lacks))));
        }
        last = Some(lacks.clone());
        let left = suppliers.fetch(lacks)?;
        if !left.is_empty() {
            if let Some(purged) = suppliers.purged(&left).into_iter().next() {
                return Err(RepoError::from(purged).into());
            }
            return Err(OpsError::Absent(Box::new(suppliers.absent(left))));
        }
        known = Some(suppliers);
        job.begin_part();
    }
}

/// How often a command may lack the same again, after all of it has come.
const MAX_AGAIN: u32 = 8;

/// The remotes that content is fetched from.
pub struct Suppliers<'a> {
    repo: &'a Repo,
    caller: &'a dyn Caller,
    job: &'a Job,
    offline: bool,
    peers: Vec<Peer<'a>>,
    /// The numbers of the peers that keep what was last asked for.
    keepers: Vec<usize>,
    /// What the remotes have purged of what they were asked for, and do not have.
    purged_there: BTreeMap<ObjectId, PurgesElsewhere>,
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
            keepers: Vec::new(),
            purged_there: BTreeMap::new(),
        })
    }

    /// Leaves out a remote: that which lacks the same.
    pub fn without(mut self, remote: &Remote) -> Suppliers<'a> {
        let url = remote.url.to_string();
        self.peers.retain(|peer| peer.remote.url.to_string() != url);
        self
    }

    /// Fetches what is lacking, from one remote after the other. Returns what none of them has.
    ///
    /// Content that was dropped and is needed again stays from now on. No remote is asked for what was purged
    /// here.
    pub fn fetch(&mut self, lacks: Vec<Lack>) -> Result<Vec<Lack>, OpsError> {
        let slice = self.repo.slice()?;
        let is_purged =
            |id: &ObjectId| slice.purged.contains_key(id) || slice.pieces.contains_key(id);
        let (purged, mut left): (Vec<Lack>, Vec<Lack>) = lacks
            .into_iter()
            .partition(|lack| is_purged(&lack.root.id()));
        if !self.offline && !left.is_empty() {
            left = self.fetch_allowed(left)?;
        }
        left.extend(purged);
        Ok(left)
    }

    fn fetch_allowed(&mut self, lacks: Vec<Lack>) -> Result<Vec<Lack>, OpsError> {
        let mut left = lacks;
        self.caller.began(Step::Supply);
        let wanted: Vec<Root> = left.iter().map(|lack| lack.root).collect();
        for peer in &mut self.peers {
            let roots = left.iter().map(|lack| lack.root).collect();
            // If a peer fails, what it has sent before counts, and the next one is asked.
            let _ = peer.ask(|client| client.pick(roots));
            self.job.check().map_err(NetError::from)?;
            // No other remote could be of help.
            if let Some(own) = peer
                .no_answer()
                .and_then(|why| of_own_file(self.repo, why.error()))
            {
                return Err(own.into());
            }
            // No other remote needs less room.
            let error = peer.no_answer().map(|why| why.error());
            if let Some(NetError::Repo(RepoError::OverBudget)) = error {
                return Err(RepoError::OverBudget.into());
            }
            // A directory that arrives may have files that were purged here.
            if let Some(purged) = peer.no_answer().and_then(|why| purged_in(why.error())) {
                return Err(RepoError::from(purged).into());
            }
            left = still_lacking(self.repo, left)?;
            if left.is_empty() {
                break;
            }
            let ids = left.iter().map(|lack| lack.root.id());
            let purges = peer.ask(|client| client.purges_of(ids));
            self.purged_there.extend(purges.unwrap_or_default());
        }
        self.repo.have_come(&wanted)?;
        Ok(left)
    }

    /// Returns which of `lacks` were purged, here or at a remote that was asked.
    pub fn purged(&self, lacks: &[Lack]) -> Vec<PurgedLack> {
        let slice = self.repo.slice().unwrap_or_default();
        let there = |lack: &Lack| {
            let id = lack.root.id();
            let noted = slice.told.get(&id).map(Arc::as_ref);
            let told = self.purged_there.get(&id).or(noted)?;
            Some(PurgedLack {
                path: lack.path.clone(),
                purge: told.purge.clone(),
                place: Some(told.place.clone()),
            })
        };
        let mut purged = purged_here(self.repo, lacks);
        if !self.offline {
            let is_here = |lack: &&Lack| purged.iter().any(|known| known.path == lack.path);
            let others: Vec<&Lack> = lacks.iter().filter(|lack| !is_here(lack)).collect();
            purged.extend(others.into_iter().filter_map(there));
        }
        purged
    }

    /// Asks the remotes whether they keep files with this content, and returns those that one of them keeps.
    pub fn kept(&mut self, blobs: &[Blob]) -> Vec<Blob> {
        self.keepers.clear();
        let ids: BTreeMap<ObjectId, ObjectType> =
            blobs.iter().map(|blob| (blob.id, blob.ty())).collect();
        let mut unkept: Vec<_> = ids.into_iter().map(|(id, ty)| (ty, id)).collect();
        for (n, peer) in self.peers.iter_mut().enumerate() {
            if self.offline || unkept.is_empty() {
                break;
            }
            let Some(left) = peer.ask(|client| client.unkept(&unkept)) else {
                continue;
            };
            if left.len() < unkept.len() {
                self.keepers.push(n);
            }
            unkept = left;
        }
        let unkept: BTreeSet<ObjectId> = unkept.into_iter().map(|(_, id)| id).collect();
        let kept = blobs.iter().filter(|blob| !unkept.contains(&blob.id));
        kept.copied().collect()
    }

    /// Returns whether all remotes that keep what was last asked for still answer.
    pub fn still_keep(&mut self) -> bool {
        let mut keepers = self.keepers.iter();
        keepers.all(|n| self.peers[*n].ask(|client| client.unkept(&[])).is_some())
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
pub fn is_known(repo: &Repo, remote: &str) -> bool {
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

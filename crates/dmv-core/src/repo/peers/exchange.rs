//! What peers exchange, seen from one repository: the commits it offers, the objects it receives
//! and the refs that follow.

use super::claimed_paths::PushedInto;
use super::claims::forget_claims_at;
use super::ref_rules::{RefHolder, judge_update};
use super::signatures::KnownSigners;
use crate::claims::{ClaimBook, DEVICE_BYTES};
use crate::hash::ObjectId;
use crate::refs::{Change, Effect, RefsError, check_ref_name};
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::keys::{LOG_IMPORTED, head_key};
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::{Proof, Transaction};
use crate::repo::base::{arrived, branch, budget, layout, publish, refused, worktree};
use crate::store::IncomingObjects;
use std::collections::HashSet;

/// The refs that a repository shows to its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferedRefs {
    /// The branch that a clone should start on.
    pub head: Option<String>,
    /// The keys of branches and tags, `branch/NAME` or `tag/NAME`, with their commits. In order.
    pub refs: Vec<(String, ObjectId)>,
}

impl OfferedRefs {
    /// Returns the commits of the branches.
    pub fn branches(&self) -> Vec<ObjectId> {
        let branches = self
            .refs
            .iter()
            .filter(|(key, _)| key.starts_with("branch/"));
        branches.map(|(_, id)| *id).collect()
    }
}

/// The changes that accompany the recording of a remote's branches: local branches that a clone
/// creates, and remote branches that are gone.
#[derive(Clone, Debug, Default)]
pub struct OwnBranches {
    /// The names and commits of local branches to create. An existing branch stays as it is.
    pub make: Vec<(String, ObjectId)>,
    /// The new head of the worktree or bare repository.
    pub head: Option<Head>,
    /// Branches that the remote no longer has and that are to be forgotten. See
    /// [`Repo::gone_from`](crate::repo::Repo::gone_from).
    pub forget: Vec<String>,
    /// Whether the local branches and tags follow those of the remote.
    pub mirror: Option<Mirror>,
    /// How many commits an import has brought. An undo takes an import back, and passes over a fetch.
    pub imported: Option<u64>,
}

/// How the branches and tags of a bare repository follow those of a remote, whatever they name now. The
/// operation log has what they named before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// Those that the remote has move.
    Move,
    /// The others are deleted, too, except branches that a worktree is on.
    MoveAndDelete,
}

/// A peer's request to move a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// `branch/NAME` or `tag/NAME`.
    pub key: String,
    /// The commit that the peer believes the ref names, or `None` if it believes that there is no
    /// such ref.
    pub old: Option<ObjectId>,
    /// The commit that the ref is to name, or `None` to delete it.
    pub new: Option<ObjectId>,
    /// Whether to move the ref even if this loses commits that only the old value leads to.
    pub force: bool,
}

/// The reason why a ref stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The ref names another commit than the peer believes.
    Moved,
    /// The new commit does not descend from the old one. For a deletion: no other ref leads to the
    /// old commit.
    NotForward,
    /// The name is not valid for a ref, or a new ref may not have it.
    BadName,
    /// The branch is to be deleted, and a worktree is on it.
    InUse,
    /// The commits change a path that another device holds, and the repository keeps to claims.
    Held,
}

/// A ref that a command moved or tried to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefChange {
    /// The ref's key.
    pub key: String,
    /// The former commit.
    pub old: Option<ObjectId>,
    /// The requested commit, or `None` for a deletion.
    pub new: Option<ObjectId>,
    /// Why the ref stayed, or `None` if it was moved.
    pub refused: Option<Refusal>,
}

impl RefChange {
    fn new(
        key: String,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        refused: Option<Refusal>,
    ) -> RefChange {
        RefChange {
            key,
            old,
            new,
            refused,
        }
    }
}

/// The number of attempts at an update while other commands move refs at the same time.
const TRIES: usize = 5;

impl Repo {
    /// Returns the refs that peers see.
    pub fn offered(&self) -> Result<OfferedRefs, RepoError> {
        let mut refs = Vec::new();
        for prefix in ["branch/", "tag/"] {
            for (key, _) in self.refs.with_prefix(prefix)? {
                refs.extend(worktree::ref_id(self, &key)?.map(|id| (key, id)));
            }
        }
        let value = self.refs.get(&head_key(layout::MAIN))?;
        let head = value.as_deref().and_then(Head::parse);
        let head = head.and_then(|head| head.branch().map(str::to_owned));
        Ok(OfferedRefs { head, refs })
    }

    /// Starts to receive objects.
    ///
    /// First registers the objects that an interrupted job left in the packs, so that they need not
    /// be sent again.
    pub fn incoming(&self) -> Result<IncomingObjects<'_>, RepoError> {
        receive(self, false)
    }

    /// Starts to receive objects from a peer that may send frames with bases: new packs can have them.
    pub fn incoming_with_bases(&self) -> Result<IncomingObjects<'_>, RepoError> {
        receive(self, true)
    }
}

/// Starts to receive objects. Within a budget, everything goes to new packs, which are
/// removed if the budget is too small. With `has_bases`, frames with bases may come: new packs
/// can have them.
fn receive(repo: &Repo, has_bases: bool) -> Result<IncomingObjects<'_>, RepoError> {
    refused::refresh(repo);
    let room = budget::room(repo)?;
    let writer = if room.is_some() {
        arrived::begin(repo)?;
        repo.store.writer_in_new_packs()
    } else {
        let left = repo.store.writer()?;
        publish::keep(repo, publish::noting_failed_sync(repo, left.finish())?)?;
        repo.store.writer()?
    };
    Ok(IncomingObjects::new(
        writer.within(room).with_bases(has_bases),
    ))
}

impl Repo {
    /// Makes the received objects visible to this repository's commands. No ref names them yet.
    pub fn keep_incoming(&self, incoming: IncomingObjects<'_>) -> Result<(), RepoError> {
        let sealed = publish::noting_failed_sync(self, incoming.finish())?;
        publish::keep_arrivals(self, sealed)
    }

    /// Records the branches of a remote, adds its new tags and creates local branches, in one
    /// operation.
    ///
    /// All commits that it names must be complete in this repository. Returns the refs that
    /// changed.
    pub fn note_remote(
        &self,
        remote: &str,
        offered: &OfferedRefs,
        ours: &OwnBranches,
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, RepoError> {
        retrying(self, || {
            let RemoteChanges { changes, refs } = remote_changes(self, remote, offered, ours)?;
            publish_if_any(self, request, changes)?;
            Ok(refs)
        })
    }

    /// Returns the refs that [`note_remote`](Self::note_remote) would change, and those that would have to stay.
    pub fn foresee_remote(
        &self,
        remote: &str,
        offered: &OfferedRefs,
        ours: &OwnBranches,
    ) -> Result<Vec<RefChange>, RepoError> {
        Ok(remote_changes(self, remote, offered, ours)?.refs)
    }
}

/// What the recording of a remote changes.
pub struct RemoteChanges {
    /// The changes of the view. A transfer has shown that what they name is complete.
    pub changes: Vec<Change>,
    /// The refs that change, and those that have to stay.
    pub refs: Vec<RefChange>,
}

/// Returns what [`Repo::note_remote`] changes.
pub fn remote_changes(
    repo: &Repo,
    remote: &str,
    offered: &OfferedRefs,
    ours: &OwnBranches,
) -> Result<RemoteChanges, RepoError> {
    check_ref_name(remote)?;
    let (mut changes, mut moved) = (Vec::new(), Vec::new());
    let mut set = |key: String, id: ObjectId| -> Result<(), RepoError> {
        let old = worktree::ref_id(repo, &key)?;
        if old != Some(id) {
            let value = Some(id.as_bytes().to_vec());
            changes.push(change(&repo.refs, key.clone(), value)?);
            moved.push(RefChange::new(key, old, Some(id), None));
        }
        Ok(())
    };
    let mut new = Vec::new();
    for (key, id) in &offered.refs {
        match key.split_once('/') {
            Some(("branch", branch)) => set(format!("remote/{remote}/{branch}"), *id)?,
            _ => new.push((key.clone(), *id)),
        }
    }
    let ours_new = ours.make.iter();
    new.extend(ours_new.map(|(name, id)| (format!("branch/{name}"), *id)));
    if ours.mirror.is_some() {
        let branches = offered.refs.iter();
        new.extend(
            branches
                .filter(|(key, _)| key.starts_with("branch/"))
                .cloned(),
        );
    }
    let mut refused = Vec::new();
    for (key, id) in new {
        if repo.refs.get(&key)?.is_some() {
            if ours.mirror.is_some() {
                set(key, id)?;
            }
            continue;
        }
        let (_, name) = key.split_once('/').unwrap_or_default();
        if is_new_name(repo, name, Some(remote))? {
            set(key, id)?;
        } else {
            let refusal = Some(Refusal::BadName);
            refused.push(RefChange::new(key, None, Some(id), refusal));
        }
    }
    if ours.mirror == Some(Mirror::MoveAndDelete) {
        for (key, old) in extra_refs(repo, offered, ours.head.as_ref())? {
            changes.push(change(&repo.refs, key.clone(), None)?);
            moved.push(RefChange::new(key, Some(old), None, None));
        }
    }
    for name in &ours.forget {
        let gone = change(&repo.refs, format!("remote/{remote}/{name}"), None)?;
        changes.extend(gone.old.is_some().then_some(gone));
    }
    if let Some(head) = &ours.head {
        let key = head_key(worktree::worktree_name(repo).unwrap_or(layout::MAIN));
        let head = change(&repo.refs, key, Some(head.value()))?;
        changes.extend((head.old != head.new).then_some(head));
    }
    if let Some(commits) = ours.imported.filter(|_| !changes.is_empty()) {
        let value = Some(commits.to_string().into_bytes());
        changes.push(change(&repo.refs, LOG_IMPORTED.to_owned(), value)?);
    }
    moved.extend(refused);
    let refs = moved;
    Ok(RemoteChanges { changes, refs })
}

/// Returns the branches and tags that a mirror of a remote has too much. A remote without any branch has
/// lost them, or is not what it was: then none is too much. `head`: what the repository is about to be on.
fn extra_refs(
    repo: &Repo,
    offered: &OfferedRefs,
    head: Option<&Head>,
) -> Result<Vec<(String, ObjectId)>, RepoError> {
    let there: HashSet<&str> = offered.refs.iter().map(|(key, _)| &key[..]).collect();
    let mut extra = Vec::new();
    if !there.iter().any(|key| key.starts_with("branch/")) {
        return Ok(extra);
    }
    for prefix in ["branch/", "tag/"] {
        for (key, _) in repo.refs.with_prefix(prefix)? {
            let in_use = |name: &str| -> Result<bool, RepoError> {
                let mut on = branch::worktrees_on(repo, name)?;
                on.retain(|worktree| head.is_none() || worktree != layout::MAIN);
                Ok(!on.is_empty() || head.and_then(Head::branch) == Some(name))
            };
            let is_kept = there.contains(&key[..])
                || key.strip_prefix("branch/").map_or(Ok(false), in_use)?;
            if !is_kept && let Some(id) = worktree::ref_id(repo, &key)? {
                extra.push((key, id));
            }
        }
    }
    Ok(extra)
}

/// Returns whether a new branch or tag may have this name, also beside the branches of `remote`.
fn is_new_name(repo: &Repo, name: &str, remote: Option<&str>) -> Result<bool, RepoError> {
    match branch::check_new_name_beside(repo, name, remote) {
        Ok(()) => Ok(true),
        Err(RepoError::Branch(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

impl Repo {
    /// Returns the branches that are recorded for a remote and that the remote no longer has.
    pub fn gone_from(&self, remote: &str, offered: &OfferedRefs) -> Result<Vec<String>, RepoError> {
        let prefix = format!("remote/{remote}/");
        let there = |name: &str| {
            let key = format!("branch/{name}");
            offered.refs.iter().any(|(known, _)| *known == key)
        };
        let noted = self.refs.with_prefix(&prefix)?;
        let names = noted
            .iter()
            .filter_map(|(key, _)| key.strip_prefix(&prefix));
        Ok(names
            .filter(|name| !there(name))
            .map(str::to_owned)
            .collect())
    }

    /// Forgets the recorded branches of a remote.
    pub fn forget_remote(&self, remote: &str, request: &OperationRequest) -> Result<(), RepoError> {
        retrying(self, || {
            let mut changes = Vec::new();
            for (key, _) in self.refs.with_prefix(&format!("remote/{remote}/"))? {
                changes.push(change(&self.refs, key, None)?);
            }
            changes.extend(forget_claims_at(self, remote)?);
            publish_if_any(self, request, changes)
        })
    }

    /// Returns whether commits were imported and nothing names a commit, as after the undo of a first import.
    pub fn has_lost_imports(&self) -> Result<bool, RepoError> {
        if self.refs.get(LOG_IMPORTED)?.is_none() {
            return Ok(false);
        }
        for prefix in ["branch/", "tag/", "remote/"] {
            if !self.refs.with_prefix(prefix)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the commit that a branch, tag or remote branch names. `key` is its key in the view.
    pub fn ref_at(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        worktree::ref_id(self, key)
    }

    /// Moves refs as a peer asks, in one operation. Leaves out those that must be refused.
    ///
    /// Returns one entry for each update, with the reason if it was refused.
    ///
    /// `device` is the one that pushes, if it is known: what others hold may be kept from it.
    pub fn accept_push(
        &self,
        updates: &[RefUpdate],
        device: Option<[u8; DEVICE_BYTES]>,
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, RepoError> {
        retrying(self, || {
            let (mut changes, mut moved) = (Vec::new(), Vec::new());
            let claims = self.claims_here()?;
            let (branches, book) = if claims.rules.keeps_to_claims {
                (self.offered()?.branches(), self.claim_book()?)
            } else {
                (Vec::new(), ClaimBook::default())
            };
            let into = PushedInto {
                book: &book,
                branches: &branches,
                held: &claims.held,
                device,
            };
            for update in updates {
                let mut refused = self.judge(update, updates)?;
                if refused.is_none() && claims.rules.keeps_to_claims {
                    let held = self.claim_against_push(update, &into)?;
                    refused = held.map(|_| Refusal::Held);
                }
                let now = match refused {
                    Some(Refusal::BadName) => None,
                    _ => worktree::ref_id(self, &update.key)?,
                };
                if refused.is_none() && now != update.new {
                    let value = update.new.map(|id| id.as_bytes().to_vec());
                    changes.push(change(&self.refs, update.key.clone(), value)?);
                }
                moved.push(RefChange::new(update.key.clone(), now, update.new, refused));
            }
            if !changes.is_empty() && self.requires_signatures()? {
                self.check_signatures_of(&moved)?;
            }
            publish_if_any(self, request, changes)?;
            Ok(moved)
        })
    }

    /// Fails if accepted updates bring a commit that no device on the allow-list has signed.
    fn check_signatures_of(&self, moved: &[RefChange]) -> Result<(), RepoError> {
        let accepted = moved.iter().filter(|change| change.refused.is_none());
        let new = accepted.filter_map(|change| Some((change.new?, change.key.clone())));
        let there = self.offered()?.refs.into_iter().map(|(_, id)| id).collect();
        self.check_pushed_signatures(new.collect(), there, &KnownSigners::default())
    }

    /// Returns why an update, as one of `all`, must be refused, or `None` if it is acceptable.
    ///
    /// The check is incomplete while the new commit is not stored in this repository.
    pub fn judge(
        &self,
        update: &RefUpdate,
        all: &[RefUpdate],
    ) -> Result<Option<Refusal>, RepoError> {
        judge_update(self, self.objects(), update, all)
    }
}

impl RefHolder for Repo {
    fn commit_of(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        worktree::ref_id(self, key)
    }

    fn refs(&self) -> Result<Vec<(String, ObjectId)>, RepoError> {
        Ok(self.offered()?.refs)
    }

    fn is_free_name(&self, name: &str) -> Result<bool, RepoError> {
        is_new_name(self, name, None)
    }

    fn is_in_use(&self, branch: &str) -> Result<bool, RepoError> {
        Ok(!branch::worktrees_on(self, branch)?.is_empty())
    }
}

/// Publishes changes whose new commits are complete: a transfer has brought what they need.
fn publish_if_any(
    repo: &Repo,
    request: &OperationRequest,
    changes: Vec<Change>,
) -> Result<(), RepoError> {
    if !changes.is_empty() {
        let tx = Transaction::begin(repo, request).proved(Proof::Transfer);
        tx.with(changes).publish(Effect::Kept)?;
    }
    Ok(())
}

/// Repeats `attempt` while other commands move the same refs.
pub fn retrying<T>(
    _repo: &Repo,
    attempt: impl Fn() -> Result<T, RepoError>,
) -> Result<T, RepoError> {
    for _ in 1..TRIES {
        match attempt() {
            Err(RepoError::Refs(RefsError::Moved { .. })) => {}
            other => return other,
        }
    }
    attempt()
}

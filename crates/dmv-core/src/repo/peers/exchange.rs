//! What peers exchange, seen from one repository: which commits it offers, how objects come in, and how
//! refs follow.

use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::object::{ObjectRead, ObjectType};
use crate::reach::{Detail, Reach};
use crate::refs::{Change, Effect, RefsError, check_ref_name};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::head::Head;
use crate::repo::base::keys::head_key;
use crate::repo::base::publish::{Asked, change};
use crate::repo::base::{branch, layout, publish, worktree};
use crate::store::Incoming;
use std::collections::HashSet;

/// What a repository shows to its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The branch that a clone should begin with.
    pub head: Option<String>,
    /// Keys of branches and tags, `branch/NAME` or `tag/NAME`, with their commits. In order.
    pub refs: Vec<(String, ObjectId)>,
}

/// What changes with a note of a remote's branches: branches of our own that are made after them in
/// a clone, and those that are gone.
#[derive(Clone, Debug, Default)]
pub struct OwnBranches {
    /// Names and commits. One that exists stays as it is.
    pub make: Vec<(String, ObjectId)>,
    /// What the worktree, or a bare repository, is to be on.
    pub head: Option<Head>,
    /// Branches that the remote has no more, to be forgotten: see [`Repo::gone_from`].
    pub forget: Vec<String>,
}

/// A ref that a peer wants to have moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// `branch/NAME` or `tag/NAME`.
    pub key: String,
    /// What the peer believes it names; `None`: that there is none.
    pub old: Option<ObjectId>,
    /// What it is to name; `None`: it is to go.
    pub new: Option<ObjectId>,
    /// Also where that loses commits that only the old value names.
    pub force: bool,
}

/// Why a ref stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// It names something else than was believed.
    Moved,
    /// The new commit does not descend from the one it names; where it is to go, no other ref does.
    NotForward,
    /// No ref can have this name.
    BadName,
    /// It is to go, and a worktree is on it.
    InUse,
}

/// A ref that a command moved, or was to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMoved {
    /// Its key.
    pub key: String,
    /// What it named.
    pub old: Option<ObjectId>,
    /// What it was to name; `None`: it was to go.
    pub new: Option<ObjectId>,
    /// Why it stays; `None`: it has been moved.
    pub refused: Option<Refusal>,
}

/// How often an update is tried again because other commands move refs at the same time.
const TRIES: usize = 5;

/// The refs that peers see.
pub(in crate::repo) fn offered(repo: &Handle) -> Result<Offered, RepoError> {
    let mut refs = Vec::new();
    for prefix in ["branch/", "tag/"] {
        for (key, _) in repo.refs.with_prefix(prefix)? {
            refs.extend(worktree::ref_id(repo, &key)?.map(|id| (key, id)));
        }
    }
    let value = repo.refs.get(&head_key(layout::MAIN))?;
    let head = value.as_deref().and_then(Head::parse);
    let head = head.and_then(|head| head.branch().map(str::to_owned));
    Ok(Offered { head, refs })
}

/// Begins to take in objects. What a job that was cut off left in the packs is taken into use
/// first, so that it need not come again.
pub(in crate::repo) fn incoming(repo: &Handle) -> Result<Incoming<'_>, RepoError> {
    let left = repo.store.writer()?;
    publish::keep(repo, publish::seal(repo, left)?)?;
    Ok(Incoming::new(repo.store.writer()?))
}

/// Makes what came in visible to this repository's commands, though nothing names it yet.
pub(in crate::repo) fn keep_incoming(
    repo: &Handle,
    incoming: Incoming<'_>,
) -> Result<(), RepoError> {
    let sealed = publish::noting_failed_sync(repo, incoming.finish())?;
    publish::keep(repo, sealed)
}

/// Notes what a remote's branches name, takes over tags that are new, and makes branches of
/// our own, in one operation. All commits named must be complete here.
pub(in crate::repo) fn note_remote(
    repo: &Handle,
    remote: &str,
    offered: &Offered,
    ours: &OwnBranches,
    asked: &Asked,
) -> Result<Vec<RefMoved>, RepoError> {
    check_ref_name(remote)?;
    retrying(repo, || {
        let (mut changes, mut moved) = (Vec::new(), Vec::new());
        let mut set = |key: String, id: ObjectId| -> Result<(), RepoError> {
            let old = worktree::ref_id(repo, &key)?;
            if old != Some(id) {
                let value = Some(id.as_bytes().to_vec());
                changes.push(change(&repo.refs, key.clone(), value)?);
                moved.push(RefMoved {
                    key,
                    old,
                    new: Some(id),
                    refused: None,
                });
            }
            Ok(())
        };
        for (key, id) in &offered.refs {
            match key.strip_prefix("branch/") {
                Some(branch) => set(format!("remote/{remote}/{branch}"), *id)?,
                None if repo.refs.get(key)?.is_some() => {}
                None => set(key.clone(), *id)?,
            }
        }
        for (name, id) in &ours.make {
            check_ref_name(name)?;
            let key = format!("branch/{name}");
            if repo.refs.get(&key)?.is_none() {
                set(key, *id)?;
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
        publish_if_any(repo, asked, changes)?;
        Ok(moved)
    })
}

/// Branches that a remote had when they were last noted, and has no more.
pub(in crate::repo) fn gone_from(
    repo: &Handle,
    remote: &str,
    offered: &Offered,
) -> Result<Vec<String>, RepoError> {
    let prefix = format!("remote/{remote}/");
    let there = |name: &str| {
        let key = format!("branch/{name}");
        offered.refs.iter().any(|(known, _)| *known == key)
    };
    let noted = repo.refs.with_prefix(&prefix)?;
    let names = noted
        .iter()
        .filter_map(|(key, _)| key.strip_prefix(&prefix));
    Ok(names
        .filter(|name| !there(name))
        .map(str::to_owned)
        .collect())
}

/// Forgets what a remote's branches named.
pub(in crate::repo) fn forget_remote(
    repo: &Handle,
    remote: &str,
    asked: &Asked,
) -> Result<(), RepoError> {
    retrying(repo, || {
        let mut changes = Vec::new();
        for (key, _) in repo.refs.with_prefix(&format!("remote/{remote}/"))? {
            changes.push(change(&repo.refs, key, None)?);
        }
        publish_if_any(repo, asked, changes)
    })
}

/// The commit that a branch, tag or remote branch names, by its key in the view.
pub(in crate::repo) fn ref_at(repo: &Handle, key: &str) -> Result<Option<ObjectId>, RepoError> {
    worktree::ref_id(repo, key)
}

/// Moves refs as a peer asks, those that may be moved, in one operation.
pub(in crate::repo) fn accept_push(
    repo: &Handle,
    updates: &[RefUpdate],
    asked: &Asked,
) -> Result<Vec<RefMoved>, RepoError> {
    retrying(repo, || {
        let (mut changes, mut moved) = (Vec::new(), Vec::new());
        for update in updates {
            let refused = judge(repo, update, updates)?;
            let now = match refused {
                Some(Refusal::BadName) => None,
                _ => worktree::ref_id(repo, &update.key)?,
            };
            if refused.is_none() && now != update.new {
                let value = update.new.map(|id| id.as_bytes().to_vec());
                changes.push(change(&repo.refs, update.key.clone(), value)?);
            }
            moved.push(RefMoved {
                key: update.key.clone(),
                old: now,
                new: update.new,
                refused,
            });
        }
        publish_if_any(repo, asked, changes)?;
        Ok(moved)
    })
}

/// Whether an update has to be refused, as one of `all`. A commit that is not here yet cannot be
/// judged fully.
pub(in crate::repo) fn judge(
    repo: &Handle,
    update: &RefUpdate,
    all: &[RefUpdate],
) -> Result<Option<Refusal>, RepoError> {
    let (kind, name) = update.key.split_once('/').unwrap_or_default();
    if !["branch", "tag"].contains(&kind) || check_ref_name(name).is_err() {
        return Ok(Some(Refusal::BadName));
    }
    let now = worktree::ref_id(repo, &update.key)?;
    if now == update.new {
        return Ok(None);
    }
    if now != update.old {
        return Ok(Some(Refusal::Moved));
    }
    if update.new.is_none() && kind == "branch" && !branch::worktrees_on(repo, name)?.is_empty() {
        return Ok(Some(Refusal::InUse));
    }
    let Some(now) = now.filter(|_| !update.force) else {
        return Ok(None);
    };
    let forward = match update.new {
        None => is_named_besides(repo, now, all)?,
        // A tag stays.
        Some(_) if kind == "tag" => false,
        Some(new) => {
            !repo.store.holds(ObjectType::Commit, &new)? || is_ancestor(repo.objects(), &now, &new)?
        }
    };
    Ok((!forward).then_some(Refusal::NotForward))
}

/// Whether branches and tags that `updates` leave alone lead to a commit.
fn is_named_besides(
    repo: &Handle,
    commit: ObjectId,
    updates: &[RefUpdate],
) -> Result<bool, RepoError> {
    let touched: HashSet<&str> = updates.iter().map(|update| &update.key[..]).collect();
    let mut others = offered(repo)?.refs;
    others.retain(|(key, _)| !touched.contains(&key[..]));
    let others = others.into_iter().map(|(_, id)| id);
    let mut reach = Reach::new([commit], others, Detail::Commits);
    Ok(reach.next(repo.objects())?.is_none())
}

fn publish_if_any(repo: &Handle, asked: &Asked, changes: Vec<Change>) -> Result<(), RepoError> {
    if !changes.is_empty() {
        publish::publish(repo, asked.clone(), None, changes, Effect::Kept)?;
    }
    Ok(())
}

/// Runs `attempt` again while other commands move refs under it.
fn retrying<T>(_repo: &Handle, attempt: impl Fn() -> Result<T, RepoError>) -> Result<T, RepoError> {
    for _ in 1..TRIES {
        match attempt() {
            Err(RepoError::Refs(RefsError::Moved { .. })) => {}
            other => return other,
        }
    }
    attempt()
}

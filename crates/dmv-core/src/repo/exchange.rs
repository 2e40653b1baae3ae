//! What peers exchange, seen from one repository: which commits it offers, how objects come in,
//! and how refs follow.

use super::worktree::{Head, head_key};
use super::{Asked, Repo, RepoError, change, layout};
use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::object::{ObjectRead, ObjectType};
use crate::reach::{Detail, Reach};
use crate::refs::{Change, Effect, RefsError, check_ref_name};
use crate::store::{Incoming, Sealed};
use std::collections::{BTreeSet, HashSet};

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

impl Repo {
    /// The refs that peers see.
    pub fn offered(&self) -> Result<Offered, RepoError> {
        let mut refs = Vec::new();
        for prefix in ["branch/", "tag/"] {
            for (key, _) in self.refs.with_prefix(prefix)? {
                refs.extend(self.ref_id(&key)?.map(|id| (key, id)));
            }
        }
        let value = self.refs.get(&head_key(layout::MAIN))?;
        let head = value.as_deref().and_then(Head::parse);
        let head = head.and_then(|head| head.branch().map(str::to_owned));
        Ok(Offered { head, refs })
    }

    /// The commits that refs and worktrees name: of each, everything that belongs to this
    /// repository is here.
    pub fn complete_commits(&self) -> Result<Vec<ObjectId>, RepoError> {
        let mut out = BTreeSet::new();
        for (key, value) in self.refs.with_prefix("")? {
            let of_ref = ["branch/", "tag/", "remote/"]
                .iter()
                .any(|prefix| key.starts_with(prefix));
            let of_worktree = key.starts_with("worktree/") && key.ends_with("/base");
            if let (true, Ok(bytes)) = (of_ref || of_worktree, <[u8; 32]>::try_from(value)) {
                out.insert(ObjectId::from_bytes(bytes));
            }
        }
        Ok(out.into_iter().collect())
    }

    /// Begins to take in objects. What a job that was cut off left in the packs is taken into use
    /// first, so that it need not come again.
    pub fn incoming(&self) -> Result<Incoming<'_>, RepoError> {
        let left = self.store.writer()?;
        self.keep(self.seal(left)?)?;
        Ok(Incoming::new(self.store.writer()?))
    }

    /// Makes what came in visible to this repository's commands, though nothing names it yet.
    pub fn keep_incoming(&self, incoming: Incoming<'_>) -> Result<(), RepoError> {
        let sealed = self.noting_failed_sync(incoming.finish())?;
        self.keep(sealed)
    }

    pub(super) fn keep(&self, sealed: Sealed) -> Result<(), RepoError> {
        if sealed.segments.is_empty() {
            return Ok(());
        }
        self.refs.add_segments(&sealed.segments, &sealed.relied)?;
        self.store.adopt(&sealed);
        drop(sealed);
        self.merge_tables();
        Ok(())
    }

    /// Notes what a remote's branches name, takes over tags that are new, and makes branches of
    /// our own, in one operation. All commits named must be complete here.
    ///
    /// Returns the refs that changed.
    pub fn note_remote(
        &self,
        remote: &str,
        offered: &Offered,
        ours: &OwnBranches,
        asked: &Asked,
    ) -> Result<Vec<RefMoved>, RepoError> {
        check_ref_name(remote)?;
        self.retrying(|| {
            let (mut changes, mut moved) = (Vec::new(), Vec::new());
            let mut set = |key: String, id: ObjectId| -> Result<(), RepoError> {
                let old = self.ref_id(&key)?;
                if old != Some(id) {
                    let value = Some(id.as_bytes().to_vec());
                    changes.push(change(&self.refs, key.clone(), value)?);
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
                    None if self.refs.get(key)?.is_some() => {}
                    None => set(key.clone(), *id)?,
                }
            }
            for (name, id) in &ours.make {
                check_ref_name(name)?;
                let key = format!("branch/{name}");
                if self.refs.get(&key)?.is_none() {
                    set(key, *id)?;
                }
            }
            for name in &ours.forget {
                let gone = change(&self.refs, format!("remote/{remote}/{name}"), None)?;
                changes.extend(gone.old.is_some().then_some(gone));
            }
            if let Some(head) = &ours.head {
                let key = head_key(self.worktree_name().unwrap_or(layout::MAIN));
                let head = change(&self.refs, key, Some(head.value()))?;
                changes.extend((head.old != head.new).then_some(head));
            }
            self.publish_if_any(asked, changes)?;
            Ok(moved)
        })
    }

    /// Branches that a remote had when they were last noted, and has no more.
    pub fn gone_from(&self, remote: &str, offered: &Offered) -> Result<Vec<String>, RepoError> {
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

    /// Forgets what a remote's branches named.
    pub fn forget_remote(&self, remote: &str, asked: &Asked) -> Result<(), RepoError> {
        self.retrying(|| {
            let mut changes = Vec::new();
            for (key, _) in self.refs.with_prefix(&format!("remote/{remote}/"))? {
                changes.push(change(&self.refs, key, None)?);
            }
            self.publish_if_any(asked, changes)
        })
    }

    /// The commit that a branch, tag or remote branch names, by its key in the view.
    pub fn ref_at(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        self.ref_id(key)
    }

    /// How many commits `ours` has that `theirs` has not, and the reverse, as far as history is
    /// here.
    pub fn distance(&self, ours: ObjectId, theirs: ObjectId) -> Result<(usize, usize), RepoError> {
        let count = |tip, hidden| Ok::<_, RepoError>(self.only_in(tip, hidden)?.len());
        Ok((count(ours, theirs)?, count(theirs, ours)?))
    }

    /// Commits that `tip` has and `hidden` has not, as far as history is here.
    pub(super) fn only_in(
        &self,
        tip: ObjectId,
        hidden: ObjectId,
    ) -> Result<Vec<ObjectId>, RepoError> {
        let mut reach = Reach::new([tip], [hidden], Detail::Commits);
        let mut only = Vec::new();
        while let Some(found) = reach.next(self.objects())? {
            if found.here {
                only.push(found.id);
            }
        }
        Ok(only)
    }

    /// The commits at which a walk over what `new` has and `old` has not ends: they are in `old`.
    pub fn end_of_range(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, RepoError> {
        let only: HashSet<ObjectId> = self.only_in(new, old)?.into_iter().collect();
        let mut end = HashSet::new();
        for id in &only {
            end.extend(self.read_commit(id)?.parents);
        }
        if only.is_empty() {
            end.insert(new);
        }
        end.retain(|id| !only.contains(id));
        Ok(end.into_iter().collect())
    }

    /// Moves refs as a peer asks, those that may be moved, in one operation.
    pub fn accept_push(
        &self,
        updates: &[RefUpdate],
        asked: &Asked,
    ) -> Result<Vec<RefMoved>, RepoError> {
        self.retrying(|| {
            let (mut changes, mut moved) = (Vec::new(), Vec::new());
            for update in updates {
                let refused = self.judge(update, updates)?;
                let now = match refused {
                    Some(Refusal::BadName) => None,
                    _ => self.ref_id(&update.key)?,
                };
                if refused.is_none() && now != update.new {
                    let value = update.new.map(|id| id.as_bytes().to_vec());
                    changes.push(change(&self.refs, update.key.clone(), value)?);
                }
                moved.push(RefMoved {
                    key: update.key.clone(),
                    old: now,
                    new: update.new,
                    refused,
                });
            }
            self.publish_if_any(asked, changes)?;
            Ok(moved)
        })
    }

    /// Whether an update has to be refused, as one of `all`. A commit that is not here yet cannot be
    /// judged fully.
    pub fn judge(
        &self,
        update: &RefUpdate,
        all: &[RefUpdate],
    ) -> Result<Option<Refusal>, RepoError> {
        let (kind, name) = update.key.split_once('/').unwrap_or_default();
        if !["branch", "tag"].contains(&kind) || check_ref_name(name).is_err() {
            return Ok(Some(Refusal::BadName));
        }
        let now = self.ref_id(&update.key)?;
        if now == update.new {
            return Ok(None);
        }
        if now != update.old {
            return Ok(Some(Refusal::Moved));
        }
        if update.new.is_none() && kind == "branch" && !self.worktrees_on(name)?.is_empty() {
            return Ok(Some(Refusal::InUse));
        }
        let Some(now) = now.filter(|_| !update.force) else {
            return Ok(None);
        };
        let forward = match update.new {
            None => self.is_named_besides(now, all)?,
            // A tag stays.
            Some(_) if kind == "tag" => false,
            Some(new) => {
                !self.store.holds(ObjectType::Commit, &new)?
                    || is_ancestor(self.objects(), &now, &new)?
            }
        };
        Ok((!forward).then_some(Refusal::NotForward))
    }

    /// Whether a branch, a tag or a branch of a remote leads to a commit.
    pub fn is_on_a_branch(&self, commit: ObjectId) -> Result<bool, RepoError> {
        let mut tips = Vec::new();
        for prefix in ["branch/", "tag/", "remote/"] {
            for (key, _) in self.refs.with_prefix(prefix)? {
                tips.extend(self.ref_id(&key)?);
            }
        }
        let mut reach = Reach::new([commit], tips, Detail::Commits);
        Ok(reach.next(self.objects())?.is_none())
    }

    /// Whether branches and tags that `updates` leave alone lead to a commit.
    fn is_named_besides(&self, commit: ObjectId, updates: &[RefUpdate]) -> Result<bool, RepoError> {
        let touched: HashSet<&str> = updates.iter().map(|update| &update.key[..]).collect();
        let mut others = self.offered()?.refs;
        others.retain(|(key, _)| !touched.contains(&key[..]));
        let others = others.into_iter().map(|(_, id)| id);
        let mut reach = Reach::new([commit], others, Detail::Commits);
        Ok(reach.next(self.objects())?.is_none())
    }

    fn publish_if_any(&self, asked: &Asked, changes: Vec<Change>) -> Result<(), RepoError> {
        if !changes.is_empty() {
            self.publish(asked.clone(), None, changes, Effect::Kept)?;
        }
        Ok(())
    }

    /// Runs `attempt` again while other commands move refs under it.
    fn retrying<T>(&self, attempt: impl Fn() -> Result<T, RepoError>) -> Result<T, RepoError> {
        for _ in 1..TRIES {
            match attempt() {
                Err(RepoError::Refs(RefsError::Moved { .. })) => {}
                other => return other,
            }
        }
        attempt()
    }
}

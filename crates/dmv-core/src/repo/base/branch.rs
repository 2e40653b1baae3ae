//! Branches and tags: list, create, delete, rename.

use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::refs::{Change, Effect, check_new_ref_name};
use crate::repo::base::error::{BranchError, LookError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{head_key, path_key};
use crate::repo::base::publish::{OperationRequest, change, set};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::{layout, whole, worktree};

/// A branch, or a branch of a remote as it was when it was last heard of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BranchPlace {
    /// The remote, if it is a branch of one.
    pub remote: Option<String>,
    /// The name of the branch.
    pub branch: String,
}

impl std::fmt::Display for BranchPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.remote {
            Some(remote) => write!(f, "{remote}/{}", self.branch),
            None => f.write_str(&self.branch),
        }
    }
}

/// The kind of a ref: branch or tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefKind {
    /// A branch, which moves with commits.
    Branch,
    /// A tag, which stays.
    Tag,
}

impl RefKind {
    /// Returns the word for this kind.
    pub fn word(self) -> &'static str {
        match self {
            RefKind::Branch => "branch",
            RefKind::Tag => "tag",
        }
    }

    fn key(self, name: &str) -> String {
        format!("{}/{name}", self.word())
    }
}

/// A branch or tag.
#[derive(Clone, Debug)]
pub struct RefInfo {
    /// The ref's name.
    pub name: String,
    /// The commit, or `None` for the current branch before its first commit.
    pub commit: Option<ObjectId>,
    /// Whether the worktree is on this branch.
    pub current: bool,
}

impl Repo {
    /// Returns all branches or tags, sorted by name.
    pub fn list_refs(&self, kind: RefKind) -> Result<Vec<RefInfo>, RepoError> {
        let head = self.head()?;
        let current = head.branch().filter(|_| kind == RefKind::Branch);
        let prefix = kind.key("");
        let mut out = Vec::new();
        for (key, _) in self.refs.with_prefix(&prefix)? {
            let name = key[prefix.len()..].to_owned();
            let commit = worktree::ref_id(self, &key)?;
            out.push(RefInfo {
                current: current == Some(name.as_str()),
                name,
                commit,
            });
        }
        if let Some(name) = current.filter(|name| out.iter().all(|info| info.name != *name)) {
            out.insert(
                0,
                RefInfo {
                    name: name.to_owned(),
                    commit: None,
                    current: true,
                },
            );
        }
        Ok(out)
    }

    /// Creates a branch or tag at `target`.
    ///
    /// Fails with [`BranchError::RefExists`](crate::repo::BranchError::RefExists) if the name is taken.
    pub fn create_ref(
        &self,
        kind: RefKind,
        name: &str,
        target: ObjectId,
        request: OperationRequest,
    ) -> Result<(), RepoError> {
        let new = new_ref(self, kind, name, target)?;
        let tx = Transaction::begin(self, &request).with([new]);
        tx.publish(Effect::Kept)?;
        Ok(())
    }

    /// Fails unless a new branch may have this name once `remote` is a remote.
    pub fn check_new_branch(&self, name: &str, remote: &str) -> Result<(), RepoError> {
        check_new_name_beside(self, name, Some(remote))
    }
}

/// Fails unless a new branch or tag may have this name: as a revision, it must mean nothing else.
pub fn check_new_name(repo: &Repo, name: &str) -> Result<(), RepoError> {
    check_new_name_beside(repo, name, None)
}

/// The same if `coming` is about to be a remote.
pub fn check_new_name_beside(
    repo: &Repo,
    name: &str,
    coming: Option<&str>,
) -> Result<(), RepoError> {
    check_new_ref_name(name)?;
    let is_remote =
        |first: &str| Ok::<_, RepoError>(coming == Some(first) || knows_remote(repo, first)?);
    match name.split_once('/') {
        Some((remote, _)) if is_remote(remote)? => Err(BranchError::NameOfRemote {
            name: name.to_owned(),
            remote: remote.to_owned(),
        }
        .into()),
        _ => Ok(()),
    }
}

/// Returns whether there is a remote of this name, or branches of one are recorded.
fn knows_remote(repo: &Repo, remote: &str) -> Result<bool, RepoError> {
    let is_set = repo
        .caller
        .remotes
        .get()
        .is_some_and(|all| all.contains(remote));
    Ok(is_set
        || !repo
            .refs
            .with_prefix(&format!("remote/{remote}/"))?
            .is_empty())
}

impl Repo {
    /// Returns a branch or tag that has the name of a branch of the remote `remote`, and its kind.
    pub fn named_like_remote(&self, remote: &str) -> Result<Option<(RefKind, String)>, RepoError> {
        for kind in [RefKind::Branch, RefKind::Tag] {
            let prefix = kind.key("");
            let found = self.refs.with_prefix(&format!("{prefix}{remote}/"))?;
            if let Some((key, _)) = found.first() {
                return Ok(Some((kind, key[prefix.len()..].to_owned())));
            }
        }
        Ok(None)
    }
}

/// Returns the change that creates a branch or tag.
pub fn new_ref(
    repo: &Repo,
    kind: RefKind,
    name: &str,
    target: ObjectId,
) -> Result<Change, RepoError> {
    check_new_name(repo, name)?;
    let key = kind.key(name);
    match repo.refs.get(&key)? {
        None => {
            whole::check_complete(repo, &[target])?;
            Ok(set(key, target.as_bytes().to_vec()))
        }
        Some(_) => Err(BranchError::RefExists {
            kind: kind.word(),
            name: name.to_owned(),
        }
        .into()),
    }
}

impl Repo {
    /// Deletes a branch or tag and returns the commit that it named.
    ///
    /// Fails with [`BranchError::InUse`](crate::repo::BranchError::InUse) for a branch that a worktree
    /// is on, and with [`BranchError::NoRef`](crate::repo::BranchError::NoRef) if there is no such ref.
    pub fn delete_ref(
        &self,
        kind: RefKind,
        name: &str,
        request: OperationRequest,
    ) -> Result<ObjectId, RepoError> {
        let key = kind.key(name);
        let missing = || {
            RepoError::Branch(BranchError::NoRef {
                kind: kind.word(),
                name: name.to_owned(),
            })
        };
        let target = worktree::ref_id(self, &key)?.ok_or_else(missing)?;
        if kind == RefKind::Branch {
            refuse_in_use(self, name)?;
        }
        let change = change(&self.refs, key, None)?;
        let tx = Transaction::begin(self, &request).with([change]);
        tx.publish(Effect::Kept)?;
        Ok(target)
    }

    /// Renames a branch. Worktrees that are on it stay on it.
    ///
    /// Fails with [`BranchError::NoRef`](crate::repo::BranchError::NoRef) or
    /// [`BranchError::RefExists`](crate::repo::BranchError::RefExists).
    pub fn rename_branch(
        &self,
        old: &str,
        new: &str,
        request: OperationRequest,
    ) -> Result<(), RepoError> {
        check_new_name(self, new)?;
        let (old_key, new_key) = (RefKind::Branch.key(old), RefKind::Branch.key(new));
        let missing = || {
            RepoError::Branch(BranchError::NoRef {
                kind: "branch",
                name: old.to_owned(),
            })
        };
        let on_it = worktrees_on(self, old)?;
        let target = self.refs.get(&old_key)?;
        if target.is_none() && on_it.is_empty() {
            return Err(missing());
        }
        if old == new || self.refs.get(&new_key)?.is_some() {
            return Err(BranchError::RefExists {
                kind: "branch",
                name: new.to_owned(),
            }
            .into());
        }
        let mut changes: Vec<Change> = Vec::new();
        if let Some(target) = target {
            changes.push(Change {
                key: old_key,
                old: Some(target.clone()),
                new: None,
            });
            changes.push(set(new_key, target));
        }
        let (head, former) = (Head::Branch(new.to_owned()), Head::Branch(old.to_owned()));
        for worktree in on_it {
            changes.push(change(&self.refs, head_key(&worktree), Some(head.value()))?);
        }
        // The revision `-` and the end of a bisection follow the branch, too.
        let begins = |head: &Head| [b"start ", &head.value()[..], b"\n"].concat();
        for (key, value) in self.refs.with_prefix("worktree/")? {
            if key.ends_with("/previous") && value == former.value() {
                changes.push(change(&self.refs, key, Some(head.value()))?);
            } else if key.ends_with("/bisect")
                && let Some(rest) = value.strip_prefix(&begins(&former)[..])
            {
                let value = [&begins(&head)[..], rest].concat();
                changes.push(change(&self.refs, key, Some(value))?);
            }
        }
        let tx = Transaction::begin(self, &request).with(changes);
        tx.publish(Effect::Kept)?;
        Ok(())
    }

    /// Makes `name` the default branch of a bare repository, and returns its commit. A clone starts
    /// with this branch.
    ///
    /// Fails with [`BranchError::NoRef`](crate::repo::BranchError::NoRef) if there is no such branch.
    pub fn set_default_branch(
        &self,
        name: &str,
        request: OperationRequest,
    ) -> Result<ObjectId, RepoError> {
        if self.worktree.is_some() {
            let what = "a repository with a worktree; its default branch is the one checked out";
            let path = RepoPath::root();
            return Err(LookError::WrongKind { path, what }.into());
        }
        let missing = || {
            RepoError::Branch(BranchError::NoRef {
                kind: RefKind::Branch.word(),
                name: name.to_owned(),
            })
        };
        let target = worktree::ref_id(self, &RefKind::Branch.key(name))?.ok_or_else(missing)?;
        let head = Head::Branch(name.to_owned()).value();
        let new = change(&self.refs, head_key(layout::MAIN), Some(head))?;
        if new.old != new.new {
            let tx = Transaction::begin(self, &request).with([new]);
            tx.publish(Effect::Kept)?;
        }
        Ok(target)
    }
}

/// Returns the names of the worktrees that are on a branch.
pub fn worktrees_on(repo: &Repo, branch: &str) -> Result<Vec<String>, RepoError> {
    let head = Head::Branch(branch.to_owned()).value();
    let mut out = Vec::new();
    for (key, value) in repo.refs.with_prefix("worktree/")? {
        let name = key
            .strip_prefix("worktree/")
            .and_then(|k| k.strip_suffix("/head"));
        out.extend(name.filter(|_| value == head).map(str::to_owned));
    }
    Ok(out)
}

/// Fails if a worktree is on the branch, or if a clone of this bare repository would be on it.
fn refuse_in_use(repo: &Repo, branch: &str) -> Result<(), RepoError> {
    match worktrees_on(repo, branch)?.first() {
        Some(worktree) => in_use(repo, branch, worktree),
        None => Ok(()),
    }
}

/// Fails if another worktree is on the branch: only one worktree may be.
pub fn refuse_taken(repo: &Repo, branch: &str) -> Result<(), RepoError> {
    for worktree in worktrees_on(repo, branch)? {
        if repo.refs.get(&path_key(&worktree))?.is_some() {
            return in_use(repo, branch, &worktree);
        }
    }
    Ok(())
}

fn in_use(repo: &Repo, branch: &str, worktree: &str) -> Result<(), RepoError> {
    Err(BranchError::InUse {
        name: branch.to_owned(),
        at: worktree::worktree_path(repo, worktree)?,
    }
    .into())
}

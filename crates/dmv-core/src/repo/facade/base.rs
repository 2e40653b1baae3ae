//! What `Repo` offers of `base`.

use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::refs::{Change, Effect, Operation};
use crate::repo::{Asked, Head, Kept, RefInfo, RefKind, Repo, RepoError, RepoSlice, Stamp, base};
use crate::store::FinishedJob;
use crate::subset::Subset;
use std::path::Path;

impl Repo {
    /// All branches or tags, by name.
    pub fn list_refs(&self, kind: RefKind) -> Result<Vec<RefInfo>, RepoError> {
        base::branch::list_refs(&self.handle, kind)
    }

    /// Makes a branch or tag at `target`.
    pub fn create_ref(
        &self,
        kind: RefKind,
        name: &str,
        target: ObjectId,
        asked: Asked,
    ) -> Result<(), RepoError> {
        base::branch::create_ref(&self.handle, kind, name, target, asked)
    }

    /// Deletes a branch or tag and returns the commit it named. A branch that a worktree is on
    /// stays.
    pub fn delete_ref(
        &self,
        kind: RefKind,
        name: &str,
        asked: Asked,
    ) -> Result<ObjectId, RepoError> {
        base::branch::delete_ref(&self.handle, kind, name, asked)
    }

    /// Renames a branch; worktrees that are on it stay on it.
    pub fn rename_branch(&self, old: &str, new: &str, asked: Asked) -> Result<(), RepoError> {
        base::branch::rename_branch(&self.handle, old, new, asked)
    }

    /// Keeps everything that is here until what is returned is dropped. [`RepoError::Freeing`]:
    /// somebody is freeing space.
    pub fn keep_all(&self) -> Result<Kept, RepoError> {
        base::keeping::keep_all(&self.handle)
    }

    /// Parses a path as given by a user: `.` and trailing slashes mean what they look like.
    pub fn parse_path(path: &[u8]) -> Result<RepoPath, RepoError> {
        base::path::parse_path(path)
    }

    /// The commit point: makes what `sealed` holds and `changes` visible together, or neither.
    ///
    /// Each change's old value must still be what the view holds, and each object that a new value
    /// names must be in `sealed` or in what the database lists. `effect` tells what was done to
    /// files, for an undo.
    pub fn publish(
        &self,
        asked: Asked,
        sealed: Option<FinishedJob>,
        changes: Vec<Change>,
        effect: Effect,
    ) -> Result<Operation, RepoError> {
        base::publish::publish(&self.handle, asked, sealed, changes, effect)
    }

    /// What this repository holds on purpose.
    pub fn slice(&self) -> Result<RepoSlice, RepoError> {
        base::slice::slice(&self.handle)
    }

    /// Whether objects may be absent here by choice.
    pub fn is_partial(&self) -> bool {
        base::slice::is_partial(&self.handle)
    }

    /// Changes what this repository holds on purpose, durably; returns what it is then.
    ///
    /// `change` gets what the file says now; commands that change it at the same time wait for
    /// one another, a few seconds at most ([`RepoError::Busy`]). It must call for nothing that is
    /// not here.
    pub fn change_slice(
        &self,
        change: impl FnOnce(&mut RepoSlice),
    ) -> Result<RepoSlice, RepoError> {
        base::slice::change_slice(&self.handle, change)
    }

    /// Whether the roots of directories are here; if not, nothing can be told of what is in them.
    pub fn holds_trees(&self, roots: impl IntoIterator<Item = Option<ObjectId>>) -> bool {
        base::objects::holds_trees(&self.handle, roots)
    }

    /// How the repository is now; `None`: that cannot be told.
    pub fn stamp(&self) -> Option<Stamp> {
        base::stamp::stamp(&self.handle)
    }

    /// The worktree's root, if this is one.
    pub fn worktree_root(&self) -> Option<&Path> {
        base::worktree::worktree_root(&self.handle)
    }

    /// What the worktree is on; in a bare repository, what a clone would be on.
    pub fn head(&self) -> Result<Head, RepoError> {
        base::worktree::head(&self.handle)
    }

    /// The commit that the worktree is on; `None` before the first.
    pub fn head_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        base::worktree::head_commit(&self.handle)
    }

    /// The commit that the worktree's files were last made equal to.
    pub fn base_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        base::worktree::base_commit(&self.handle)
    }

    /// The paths of a commit that the worktree has. One that has no files yet is going to have those
    /// that the repository holds: nobody has asked for more.
    pub fn subset(&self) -> Result<Subset, RepoError> {
        base::worktree::subset(&self.handle)
    }
}

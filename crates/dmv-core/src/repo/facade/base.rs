//! The methods of `Repo` that call `base`.

use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::refs::{Change, Effect, Operation};
use crate::repo::{
    DateReader, GitIdReader, Head, KeepingLock, OperationRequest, RefInfo, RefKind, Repo,
    RepoError, RepoSlice, Stamp, UndoWindow, base,
};
use crate::store::FinishedJob;
use crate::subset::Subset;
use std::path::Path;

impl Repo {
    /// Returns all branches or tags, sorted by name.
    pub fn list_refs(&self, kind: RefKind) -> Result<Vec<RefInfo>, RepoError> {
        base::branch::list_refs(&self.handle, kind)
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
        base::branch::create_ref(&self.handle, kind, name, target, request)
    }

    /// Tells which remotes the settings name, once. New branches and tags will not have names of their
    /// branches.
    pub fn name_remotes(&self, remotes: impl IntoIterator<Item = String>) {
        // A second call comes from the same settings.
        let _ = self
            .handle
            .caller
            .remotes
            .set(remotes.into_iter().collect());
    }

    /// Tells how commits are found by their ids in Git, once. Without it, no revision begins with `git:`.
    pub fn read_git_ids_by(&self, reader: GitIdReader) {
        // A later caller gets what the first one asked for.
        let _ = self.handle.caller.git_ids.set(reader);
    }

    /// Tells how dates in revisions are read, once. Without it, a revision has no date.
    pub fn read_dates_by(&self, reader: DateReader) {
        // A second call comes from the same program.
        let _ = self.handle.caller.dates.set(reader);
    }

    /// Fails unless a new branch may have this name once `remote` is a remote.
    pub fn check_new_branch(&self, name: &str, remote: &str) -> Result<(), RepoError> {
        base::branch::check_new_name_beside(&self.handle, name, Some(remote))
    }

    /// Returns a branch or tag that has the name of a branch of the remote `remote`, and its kind.
    pub fn named_like_remote(&self, remote: &str) -> Result<Option<(RefKind, String)>, RepoError> {
        base::branch::named_like_remote(&self.handle, remote)
    }

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
        base::branch::delete_ref(&self.handle, kind, name, request)
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
        base::branch::set_default_branch(&self.handle, name, request)
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
        base::branch::rename_branch(&self.handle, old, new, request)
    }

    /// Returns the operations that undo can reach.
    pub fn undo_window(&self) -> Result<UndoWindow, RepoError> {
        base::window::window(&self.handle)
    }

    /// Prevents all objects of this repository from being freed until the returned value is
    /// dropped.
    ///
    /// Fails with [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing
    /// space.
    pub fn keep_all(&self) -> Result<KeepingLock, RepoError> {
        base::keeping::keep_all(&self.handle)
    }

    /// Parses a path as a user writes it. Ignores `.` components and extra slashes.
    ///
    /// Fails with [`LookError::BadPath`](crate::repo::LookError::BadPath) if the result is not a valid
    /// path in a repository.
    pub fn parse_path(path: &[u8]) -> Result<RepoPath, RepoError> {
        base::path::parse_path(path)
    }

    /// Passes the commit point: makes the objects of `sealed` and the `changes` visible together,
    /// or neither of them.
    ///
    /// The old value of each change must equal the current value in the view. Each object that a
    /// new value names must be in `sealed` or in the segments that the database lists. `effect`
    /// records what was done to files, so that an undo can reverse it.
    pub fn publish(
        &self,
        request: OperationRequest,
        sealed: Option<FinishedJob>,
        changes: Vec<Change>,
        effect: Effect,
    ) -> Result<Operation, RepoError> {
        let tx = base::transaction::Transaction::of_job(&self.handle, &request, sealed);
        tx.with(changes).publish(effect)
    }

    /// Returns the slice: what this repository stores on purpose.
    pub fn slice(&self) -> Result<RepoSlice, RepoError> {
        base::slice::slice(&self.handle)
    }

    /// Returns whether this repository is partial: objects may be absent by choice.
    pub fn is_partial(&self) -> bool {
        base::slice::is_partial(&self.handle)
    }

    /// Changes the slice durably and returns the new one.
    ///
    /// `change` receives the slice as the file has it now. Commands that change the slice at the same
    /// time wait for one another, a few seconds at most, and then fail with
    /// [`BusyError::Worktree`](crate::repo::BusyError::Worktree). The new slice must not call for
    /// objects that are absent from this repository.
    pub fn change_slice(
        &self,
        change: impl FnOnce(&mut RepoSlice),
    ) -> Result<RepoSlice, RepoError> {
        base::slice::change_slice(&self.handle, change)
    }

    /// Returns whether the root nodes of all these directories are stored. The content of a
    /// directory cannot be known without its root node.
    pub fn holds_trees(&self, roots: impl IntoIterator<Item = Option<ObjectId>>) -> bool {
        base::objects::holds_trees(&self.handle, roots)
    }

    /// Returns the current state of the repository, or `None` if it cannot be determined.
    pub fn stamp(&self) -> Option<Stamp> {
        base::stamp::stamp(&self.handle)
    }

    /// Returns the root of the worktree that the repository was opened in, if any.
    pub fn worktree_root(&self) -> Option<&Path> {
        base::worktree::worktree_root(&self.handle)
    }

    /// Returns the worktree's head. In a bare repository, returns the head that a clone would start
    /// with.
    pub fn head(&self) -> Result<Head, RepoError> {
        base::worktree::head(&self.handle)
    }

    /// Returns the commit of the head, or `None` before the first commit.
    pub fn head_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        base::worktree::head_commit(&self.handle)
    }

    /// Returns the base of the worktree: the commit that its files were last made equal to.
    pub fn base_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        base::worktree::base_commit(&self.handle)
    }

    /// Returns the subset of the worktree.
    ///
    /// A worktree without files will get the paths that the repository stores, because nobody has
    /// asked for more.
    pub fn subset(&self) -> Result<Subset, RepoError> {
        base::worktree::subset(&self.handle)
    }
}

//! What `Repo` offers of `files`.

use crate::fsutil::FileStat;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::Root;
use crate::repo::{
    AddOptions, AddReport, Asked, CheckoutOptions, CheckoutReport, CheckoutTarget, CommitOptions,
    CommitReport, ExportReport, Head, Overwritten, PathChange, PathState, Renames, Repo, RepoError,
    StatusOptions, StatusReport, Wanted, WorktreeChange, WorktreeInfo, WorktreeSettings, files,
};
use crate::subset::Subset;
use crate::worktree::select::Paths;
use std::path::{Path, PathBuf};

impl Repo {
    /// Switches the worktree to a branch or commit.
    ///
    /// Uncommitted changes that do not collide are kept. Where they would be lost, nothing is
    /// touched and [`RepoError::WouldLose`] lists the paths; nor where content is needed that is not
    /// here ([`RepoError::Lacking`]). Cut off in the middle, the worktree is
    /// still on the former commit with some files of the new one; the same command goes on.
    pub fn checkout(
        &self,
        target: CheckoutTarget,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        files::checkout::checkout(&self.handle, target, options, job)
    }

    /// Gives the worktree another subset of the commit that its files are of.
    ///
    /// Writes what comes in and removes what goes out; refuses as [`checkout`](Self::checkout) does
    /// where a changed file would go, and leaves files that are not committed where they are.
    pub fn set_subset(
        &self,
        subset: Subset,
        settings: &WorktreeSettings,
        asked: Asked,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        files::checkout::set_subset(&self.handle, subset, settings, asked, job)
    }

    /// The patterns that `new` has and `old` has not, and that name nothing in a tree. Of one that leads
    /// to directories that are not here nobody can tell.
    pub fn idle_patterns(
        &self,
        root: ObjectId,
        old: &Subset,
        new: &Subset,
    ) -> Result<Vec<Vec<u8>>, RepoError> {
        files::checkout::idle_patterns(&self.handle, root, old, new)
    }

    /// Runs `bring`, which has to take in `commit` with everything that it needs, and meanwhile
    /// writes its files, as far as they have come. Then the worktree is on `head`, as after
    /// [`checkout`](Repo::checkout).
    ///
    /// Nothing names the commit before `bring` has succeeded. If it fails, what is written stays,
    /// with the note that a checkout which was cut off leaves: `go_on` is the command that goes on
    /// with it in the worktree once `bring` has succeeded.
    pub fn checkout_while<T, E: From<RepoError>>(
        &self,
        (head, commit): (Head, ObjectId),
        go_on: &str,
        options: &CheckoutOptions,
        job: &Job,
        bring: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, CheckoutReport), E> {
        files::checkout::coming::checkout_while(
            &self.handle,
            (head, commit),
            go_on,
            options,
            job,
            bring,
        )
    }

    /// Puts the files at `paths` back as the commit `from` (the worktree's own without it) has
    /// them. Files that the commit does not have stay. Where content is not here, nothing is written
    /// ([`RepoError::Lacking`]).
    ///
    /// What is overwritten is kept first: the restore is an operation, and an undo brings it back.
    /// Conflicts are open again, also those that were settled without a file.
    pub fn restore(
        &self,
        from: Option<ObjectId>,
        paths: &[Vec<u8>],
        settings: &WorktreeSettings,
        asked: Asked,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        files::checkout::restore::restore(&self.handle, from, paths, settings, asked, job)
    }

    /// Commits the worktree's changes.
    ///
    /// Files that cannot be read are named in the report and keep their former state; everything
    /// else is committed. Until the very end nothing is visible; cut off at any point, the
    /// repository is as before and what was stored is used by the next attempt.
    pub fn commit(&self, options: CommitOptions<'_>, job: &Job) -> Result<CommitReport, RepoError> {
        files::commit::commit(&self.handle, options, job)
    }

    /// Compares the commit `from` with the worktree, in path order.
    ///
    /// The worktree is surveyed as [`status`](Repo::status) does; what the commit it comes from
    /// does not explain is then looked at again.
    pub fn diff_worktree(
        &self,
        from: Option<ObjectId>,
        paths: &Paths,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<Vec<WorktreeChange>, RepoError> {
        files::diff::diff_worktree(&self.handle, from, paths, options, job)
    }

    /// Opens a file of the worktree without following symlinks.
    pub fn open_worktree_file(&self, path: &RepoPath) -> Result<std::fs::File, RepoError> {
        files::diff::open_worktree_file(&self.handle, path)
    }

    /// The target of a symlink in the worktree.
    pub fn worktree_link(&self, path: &RepoPath) -> Result<Vec<u8>, RepoError> {
        files::diff::worktree_link(&self.handle, path)
    }

    /// The stat of a path in the worktree, without following symlinks.
    pub fn stat_worktree(&self, path: &RepoPath) -> Result<FileStat, RepoError> {
        files::diff::stat_worktree(&self.handle, path)
    }

    /// Takes files off the list of those given up whose content is here: it is to stay.
    pub fn no_longer_dropped(&self, wanted: Wanted<'_>) -> Result<(), RepoError> {
        files::dropped::no_longer_dropped(&self.handle, wanted)
    }

    /// The same for what has come because a command needed it.
    pub fn have_come(&self, roots: &[Root]) -> Result<(), RepoError> {
        files::dropped::have_come(&self.handle, roots)
    }

    /// Writes what is wanted of a commit into the directory `to`.
    ///
    /// A directory that is not there yet is filled under another name beside it and renamed when it
    /// is complete. One that is there must be empty; its files are renamed into place one by one.
    /// Either way no truncated file has a final name, however the export ends. What may be absent is
    /// for the caller to look at first: [`check_here`](Self::check_here).
    pub fn export(
        &self,
        wanted: Wanted<'_>,
        to: &Path,
        job: &Job,
    ) -> Result<ExportReport, RepoError> {
        files::export::export(&self.handle, wanted, to, job)
    }

    /// Whether the worktree's file at `path` came from that content, and is still there.
    pub fn is_checked_out(&self, path: &RepoPath, blob: &Blob) -> bool {
        files::path_state::is_checked_out(&self.handle, path, blob)
    }

    /// What there is at `path`, from the worktree's root.
    pub fn path_state(&self, path: &RepoPath) -> Result<PathState, RepoError> {
        files::path_state::path_state(&self.handle, path)
    }

    /// Renames among the changes of the worktree against its base.
    ///
    /// A file of the same size with the same first and last chunk counts as equal: what is between
    /// is not read, so that a look at a moved film costs no more than one at a moved note. It is for
    /// showing only: a commit stores what is there. Each file is in one pair at most; empty files
    /// and symlinks are in none.
    pub fn renames(&self, changes: &[PathChange], job: &Job) -> Result<Renames, RepoError> {
        files::rename::renames(&self.handle, changes, job)
    }

    /// Renames among what differs between a commit and the worktree.
    pub fn renames_among(
        &self,
        changes: &[WorktreeChange],
        job: &Job,
    ) -> Result<Renames, RepoError> {
        files::rename::renames_among(&self.handle, changes, job)
    }

    /// Renames under `paths` from one tree to another.
    pub fn renames_between(
        &self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        paths: &Paths,
        job: &Job,
    ) -> Result<Renames, RepoError> {
        files::rename::renames_between(&self.handle, old, new, paths, job)
    }

    /// Where the file at `path` in the tree `new` was in the tree `old`, if it was moved.
    pub fn path_before(
        &self,
        old: &ObjectId,
        new: &ObjectId,
        path: &RepoPath,
        job: &Job,
    ) -> Result<Option<RepoPath>, RepoError> {
        files::rename::path_before(&self.handle, old, new, path, job)
    }

    /// Compares the worktree with the commit that its files come from.
    ///
    /// Content is read only where a file's stat has changed. What turns out equal is remembered, if
    /// the stat cache can be written.
    pub fn status(
        &self,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<StatusReport, RepoError> {
        files::status::status(&self.handle, options, job)
    }

    /// All worktrees by name, the repository's own first.
    pub fn worktrees(&self) -> Result<Vec<WorktreeInfo>, RepoError> {
        files::worktrees::worktrees(&self.handle)
    }

    /// Makes a worktree in a directory of its own, on a branch that no other worktree is on, or on
    /// a commit.
    ///
    /// Cut off in the middle, nothing is known of it yet; the same command goes on.
    pub fn add_worktree(&self, options: &AddOptions, job: &Job) -> Result<AddReport, RepoError> {
        files::worktrees::add_worktree(&self.handle, options, job)
    }

    /// Removes a worktree with its files, and returns what it was. Its branch stays.
    ///
    /// Refuses where a file is in no commit, ignored ones too, unless forced: then such files are
    /// kept first, and an undo brings them back. Of a worktree that is gone already only the record is
    /// removed. The repository's own worktree stays.
    pub fn remove_worktree(
        &self,
        dir: &Path,
        force: bool,
        settings: &WorktreeSettings,
        asked: Asked,
        job: &Job,
    ) -> Result<(WorktreeInfo, Overwritten), RepoError> {
        files::worktrees::remove_worktree(&self.handle, dir, force, settings, asked, job)
    }

    /// Where this worktree was before it was moved here by hand; `None` if it is where the view
    /// says.
    pub fn moved_from(&self) -> Result<Option<PathBuf>, RepoError> {
        files::worktrees::moved_from(&self.handle)
    }

    /// Notes where this worktree is now. From the repository's own, `.dmv` files of the others that
    /// still name its former place are corrected, too.
    ///
    /// Returns `false` and notes nothing if another command is changing the database: a note is not
    /// worth waiting for.
    pub fn note_place(&self, asked: Asked) -> Result<bool, RepoError> {
        files::worktrees::note_place(&self.handle, asked)
    }

    /// Makes the worktree in `dir`, which was moved, or whose repository was, belong to this
    /// repository again.
    pub fn repair_worktree(&self, dir: &Path, asked: Asked) -> Result<WorktreeInfo, RepoError> {
        files::worktrees::repair_worktree(&self.handle, dir, asked)
    }
}

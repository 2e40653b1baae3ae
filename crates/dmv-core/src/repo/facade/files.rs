//! The methods of `Repo` that call `files`.

use crate::fsutil::FileStat;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::Root;
use crate::repo::files::checkout::restore::{NewFiles, RestoreWhat};
use crate::repo::{
    AddOptions, AddReport, Blame, CheckoutOptions, CheckoutReport, CheckoutTarget, CommitOptions,
    CommitReport, ExportReport, Head, IdlePattern, IgnoreOffer, IntakeOptions, IntakeReport,
    LargeFile, MoveOptions, MoveReport, OperationRequest, OverwrittenFiles, PathChange, PathState,
    RemoveOptions, RemoveReport, Renames, Repo, RepoError, Selection, SeriesOptions, StatusOptions,
    StatusReport, UntrackOptions, UntrackReport, WorktreeChange, WorktreeDiff, WorktreeInfo,
    WorktreeSettings, files,
};
use crate::subset::Subset;
use crate::worktree::select::Paths;
use std::ops::Range;
use std::path::{Path, PathBuf};

impl Repo {
    /// Switches the worktree to a branch or commit.
    ///
    /// Keeps uncommitted changes that do not collide. Fails before it changes anything:
    ///
    /// - with [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths,
    ///   if uncommitted changes would be lost
    /// - with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if the switch needs
    ///   content that is absent from this repository
    ///
    /// After an interruption, the worktree is still on the former commit, with some files of the
    /// new one. Running the same command again completes the switch.
    pub fn checkout(
        &self,
        target: CheckoutTarget,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        files::checkout::checkout(&self.handle, target, options, job)
    }

    /// Changes the subset of the worktree. The commit stays the same.
    ///
    /// Writes the files that the new subset adds and removes the files that it leaves out. Fails
    /// like [`checkout`](Self::checkout) if it would remove a changed file. Leaves uncommitted
    /// files where they are.
    pub fn set_subset(
        &self,
        subset: Subset,
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        files::checkout::set_subset(&self.handle, subset, settings, request, job)
    }

    /// Returns the patterns that only `new` has and that match nothing in the tree `root`.
    ///
    /// Does not return a pattern that leads to absent directories, because it may match something
    /// there.
    pub fn idle_patterns(
        &self,
        root: ObjectId,
        old: &Subset,
        new: &Subset,
    ) -> Result<Vec<IdlePattern>, RepoError> {
        files::checkout::idle_patterns(&self.handle, root, old, new)
    }

    /// Writes the files of `commit` while `bring` is still receiving it. Then puts the worktree on
    /// `head`, as [`checkout`](Self::checkout) does.
    ///
    /// `bring` must receive `commit` with everything that it needs. Each file is written as soon as
    /// its content is there. No ref names the commit before `bring` has succeeded. If `bring`
    /// fails, the files that were written stay, with the note that an interrupted checkout leaves.
    /// This note names `go_on`, the command that completes the checkout in the worktree once
    /// `bring` has succeeded.
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

    /// Returns the paths that an earlier command could not write and that are as they were before:
    /// a restore of them overwrites no work of the user.
    pub fn unwritten(&self, settings: &WorktreeSettings) -> Result<Vec<Vec<u8>>, RepoError> {
        files::unwritten::unwritten_of(&self.handle, settings)
    }

    /// Restores the files at `paths` from the commit `from`, or from the worktree's own commit if
    /// `from` is `None`.
    ///
    /// Files that the commit does not have stay. Fails with
    /// [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking), before it writes anything, if
    /// content is absent from this repository.
    ///
    /// Stores the overwritten files first: the restore is an operation, and its undo brings them
    /// back. Reopens conflicts at these paths, including those that were settled without a file.
    pub fn restore(
        &self,
        from: Option<ObjectId>,
        paths: &[RepoPath],
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let what = RestoreWhat {
            from,
            paths,
            new_files: NewFiles::Refused,
        };
        files::checkout::restore::restore(&self.handle, &what, settings, request, job)
    }

    /// Discards the uncommitted changes of the files at `paths`: like [`restore`](Self::restore) from
    /// the worktree's own commit, and files that this commit does not have are removed.
    ///
    /// All of it is one operation, and its undo brings back what was discarded.
    pub fn discard(
        &self,
        paths: &[RepoPath],
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let what = RestoreWhat {
            from: None,
            paths,
            new_files: NewFiles::Removed,
        };
        files::checkout::restore::restore(&self.handle, &what, settings, request, job)
    }

    /// Commits the worktree's changes.
    ///
    /// Files that cannot be read keep their former state, and the report names them. Everything
    /// else is committed. Nothing is visible before the commit point. After an interruption, the
    /// repository is as before, and the next attempt reuses what was stored.
    pub fn commit(&self, options: CommitOptions<'_>, job: &Job) -> Result<CommitReport, RepoError> {
        files::commit::commit(&self.handle, options, job)
    }

    /// Makes commits of directories outside of the worktree, in their order. No ref names them yet.
    ///
    /// Directories that the line of commits before `options.after` has are left out. Each commit is
    /// durable before the next begins.
    pub fn take_directories(
        &self,
        dirs: &[PathBuf],
        options: &IntakeOptions,
        job: &Job,
    ) -> Result<IntakeReport, RepoError> {
        files::intake::directories::take_directories(&self.handle, dirs, options, job)
    }

    /// Makes commits of numbered copies, one for each. No ref names them yet.
    ///
    /// Copies that the line of commits before `options.after` has are not read.
    pub fn take_series(
        &self,
        series: &SeriesOptions,
        options: &IntakeOptions,
        job: &Job,
    ) -> Result<IntakeReport, RepoError> {
        files::intake::series::take_series(&self.handle, series, options, job)
    }

    /// Compares the commit `from` with the worktree, in path order.
    ///
    /// Scans the worktree as [`status`](Self::status) does. Combines the result with the
    /// differences between `from` and the worktree's base.
    pub fn diff_worktree(
        &self,
        from: Option<ObjectId>,
        paths: &Paths,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<WorktreeDiff, RepoError> {
        files::diff::diff_worktree(&self.handle, from, paths, options, job)
    }

    /// Opens a file of the worktree without following symlinks.
    pub fn open_worktree_file(&self, path: &RepoPath) -> Result<std::fs::File, RepoError> {
        files::diff::open_worktree_file(&self.handle, path)
    }

    /// Returns the target of a symlink in the worktree.
    pub fn worktree_link(&self, path: &RepoPath) -> Result<Vec<u8>, RepoError> {
        files::diff::worktree_link(&self.handle, path)
    }

    /// Returns the stat of a path in the worktree, without following symlinks.
    pub fn stat_worktree(&self, path: &RepoPath) -> Result<FileStat, RepoError> {
        files::diff::stat_worktree(&self.handle, path)
    }

    /// Returns the files that are not in the last commit and have more than `least` bytes and more than a
    /// tenth of the bytes of the commit, the largest first. Moved files are none. Reads no content.
    ///
    /// Before the first commit there are none: it brings everything that somebody has.
    pub fn large_new_files(
        &self,
        options: &StatusOptions<'_>,
        least: u64,
        job: &Job,
    ) -> Result<Vec<LargeFile>, RepoError> {
        files::large::large_new_files(&self.handle, options, least, job)
    }

    /// Removes the files in `wanted` whose content is stored from the list of dropped files: their
    /// content is to stay.
    pub fn no_longer_dropped(&self, wanted: Selection<'_>) -> Result<(), RepoError> {
        files::dropped::no_longer_dropped(&self.handle, wanted)
    }

    /// Removes the files below `roots` from the list of dropped files, after a command has fetched
    /// their content.
    pub fn have_come(&self, roots: &[Root]) -> Result<(), RepoError> {
        files::dropped::have_come(&self.handle, roots)
    }

    /// Writes a part of a commit into the directory `to`.
    ///
    /// A missing directory is filled under a temporary name beside `to` and renamed when it is
    /// complete. An existing directory must be empty; its files are renamed into place one by one.
    /// Either way, no truncated file ever has its final name. The caller checks first that all
    /// content is stored: see [`check_here`](Self::check_here).
    pub fn export(
        &self,
        wanted: Selection<'_>,
        to: &Path,
        job: &Job,
    ) -> Result<ExportReport, RepoError> {
        files::export::export(&self.handle, wanted, to, job)
    }

    /// Returns whether the worktree's base has the content `blob` at `path` and the worktree has a
    /// file there.
    pub fn is_checked_out(&self, path: &RepoPath, blob: &Blob) -> bool {
        files::path_state::is_checked_out(&self.handle, path, blob)
    }

    /// Returns the state of `path`, which is relative to the worktree's root.
    pub fn path_state(&self, path: &RepoPath) -> Result<PathState, RepoError> {
        files::path_state::path_state(&self.handle, path)
    }

    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if the rules of an ignore
    /// file outside of the worktree's subset hold in it, and its content is absent.
    pub fn check_rules_here(&self, settings: &WorktreeSettings) -> Result<(), RepoError> {
        files::ignored::check_here(&self.handle, settings)
    }

    /// Returns which of these paths the ignore rules leave out: those that they cover and the
    /// worktree's commit does not have.
    pub fn left_out<'p>(
        &self,
        paths: &'p [RepoPath],
        settings: &WorktreeSettings,
    ) -> Result<Vec<&'p RepoPath>, RepoError> {
        files::ignored::left_out(&self.handle, paths, settings)
    }

    /// Finds renames among the changes of the worktree against its base.
    ///
    /// Two files count as equal if they have the same size, first chunk and last chunk. The chunks
    /// between are not read, so that a moved film costs no more than a moved note. The result is
    /// only for display: a commit stores what is there. Each file is in one pair at most. Empty
    /// files and symlinks are in none.
    pub fn renames(&self, changes: &[PathChange], job: &Job) -> Result<Renames, RepoError> {
        files::rename::renames(&self.handle, changes, job)
    }

    /// Finds renames among the differences between a commit and the worktree.
    pub fn renames_among(
        &self,
        changes: &[WorktreeChange],
        job: &Job,
    ) -> Result<Renames, RepoError> {
        files::rename::renames_among(&self.handle, changes, job)
    }

    /// Finds renames under `paths` from one tree to another.
    pub fn renames_between(
        &self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        paths: &Paths,
        job: &Job,
    ) -> Result<Renames, RepoError> {
        files::rename::renames_between(&self.handle, old, new, paths, job)
    }

    /// Returns the path that the file at `path` in the tree `new` had in the tree `old`, if it was
    /// renamed.
    pub fn path_before(
        &self,
        old: &ObjectId,
        new: &ObjectId,
        path: &RepoPath,
        job: &Job,
    ) -> Result<Option<RepoPath>, RepoError> {
        files::rename::path_before(&self.handle, old, new, path, job)
    }

    /// Returns the commit from which each line of the file at `path` in `commit` comes: of all lines,
    /// or of those in `range`, which counts from 0.
    ///
    /// Follows renames. Fails for a file that is no text, and with
    /// [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if content of any version is
    /// absent.
    pub fn blame(
        &self,
        commit: ObjectId,
        path: &RepoPath,
        range: Option<Range<usize>>,
        job: &Job,
    ) -> Result<Blame, RepoError> {
        files::blame::blame(&self.handle, commit, path, range, job)
    }

    /// Compares the worktree with its base.
    ///
    /// Reads content only where a file's stat has changed. Files that turn out equal are added to
    /// the stat cache if it can be written.
    pub fn status(
        &self,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<StatusReport, RepoError> {
        files::status::status(&self.handle, options, job)
    }

    /// Removes tracked files from the worktree. The next commit does not have them.
    ///
    /// Stores the files first: one undo brings them back. Fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose) if a file has uncommitted
    /// changes, unless forced. Files outside of the worktree's subset are left out by the next
    /// commit, and need not be stored in this repository.
    pub fn remove(&self, options: &RemoveOptions, job: &Job) -> Result<RemoveReport, RepoError> {
        files::remove::remove(&self.handle, options, job)
    }

    /// Stops tracking files: the next commit leaves them out, and they stay on disk.
    pub fn untrack(&self, options: &UntrackOptions, job: &Job) -> Result<UntrackReport, RepoError> {
        files::untrack::untrack(&self.handle, options, job)
    }

    /// Returns the lines of `.dmvignore` for those paths that no ignore rule covers yet.
    pub fn ignore_offer(
        &self,
        settings: &WorktreeSettings,
        paths: &[RepoPath],
    ) -> Result<IgnoreOffer, RepoError> {
        files::untrack::ignore_offer(&self.handle, settings, paths)
    }

    /// Moves files and directories within the worktree, uncommitted changes included.
    ///
    /// Checks all paths before it moves the first. If a file is to be replaced, stores it first.
    /// One undo moves everything back.
    pub fn move_files(&self, options: &MoveOptions, job: &Job) -> Result<MoveReport, RepoError> {
        files::moving::move_files(&self.handle, options, job)
    }

    /// Returns all worktrees sorted by name, the main worktree first.
    pub fn worktrees(&self) -> Result<Vec<WorktreeInfo>, RepoError> {
        files::worktrees::worktrees(&self.handle)
    }

    /// Creates a worktree in a directory of its own, on a commit or on a branch that no other
    /// worktree is on.
    ///
    /// The view does not list the worktree before it is complete. After an interruption, the same
    /// command continues.
    pub fn add_worktree(&self, options: &AddOptions, job: &Job) -> Result<AddReport, RepoError> {
        files::worktrees::add_worktree(&self.handle, options, job)
    }

    /// Removes a worktree with its files, and returns its last state. Its branch stays.
    ///
    /// Fails with [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose) if a file is in no
    /// commit, even if it is ignored. If forced, stores such files first, so that an undo brings
    /// them back. If the worktree's directory is already gone, removes only the record. The main
    /// worktree cannot be removed.
    pub fn remove_worktree(
        &self,
        dir: &Path,
        force: bool,
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<(WorktreeInfo, OverwrittenFiles), RepoError> {
        files::worktrees::removal::remove_worktree(&self.handle, dir, force, settings, request, job)
    }

    /// Returns the former path of this worktree if a user has moved it, or `None` if it is where
    /// the view says.
    pub fn moved_from(&self) -> Result<Option<PathBuf>, RepoError> {
        files::worktrees::moved_from(&self.handle)
    }

    /// Records the current path of this worktree. In the main worktree, also corrects the `.dmv`
    /// files of other worktrees that still name its former path.
    ///
    /// Returns `false` and records nothing if another command is changing the database, because
    /// this note is not worth waiting for.
    pub fn note_place(&self, request: OperationRequest) -> Result<bool, RepoError> {
        files::worktrees::note_place(&self.handle, request)
    }

    /// Reconnects the worktree in `dir` to this repository after one of the two was moved.
    pub fn repair_worktree(
        &self,
        dir: &Path,
        request: OperationRequest,
    ) -> Result<WorktreeInfo, RepoError> {
        files::worktrees::repair_worktree(&self.handle, dir, request)
    }
}

//! The methods of `Repo` that call `look`.

use crate::hash::ObjectId;
use crate::history::changed_paths::ChangedPaths;
use crate::job::Job;
use crate::object::commit::Commit;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root};
use crate::object::tree::TreeEntry;
use crate::refs::Operation;
use crate::repo::{
    DiskUse, Head, HistoryUse, LackOf, ListingLine, Location, Mover, Repo, RepoError, Selection,
    StoreStats, look,
};
use crate::subset::PathSet;
use std::io::Write;
use std::ops::{ControlFlow, Range};

impl Repo {
    /// Returns what is known about the commits that changed these paths, for a walk over their
    /// history. `repack` makes it known; before that, nothing is.
    pub fn changed_paths(&self, paths: &[RepoPath]) -> ChangedPaths {
        look::changed::load_for(&self.handle, paths)
    }

    /// Returns the commits that refs and worktrees name. Each of them is complete in this
    /// repository.
    pub fn complete_commits(&self) -> Result<Vec<ObjectId>, RepoError> {
        look::history::complete_commits(&self.handle)
    }

    /// Counts the commits that only `ours` has and those that only `theirs` has, as far as history
    /// is stored in this repository.
    pub fn distance(&self, ours: ObjectId, theirs: ObjectId) -> Result<(usize, usize), RepoError> {
        look::history::distance(&self.handle, ours, theirs)
    }

    /// Returns the commits in `old` at which a walk over the commits that only `new` has ends.
    pub fn end_of_range(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, RepoError> {
        look::history::end_of_range(self.handle.objects(), old, new)
    }

    /// Returns whether a branch, tag or remote branch leads to a commit.
    pub fn is_on_a_branch(&self, commit: ObjectId) -> Result<bool, RepoError> {
        look::history::is_on_a_branch(&self.handle, commit)
    }

    /// Returns whether everything under `root` is stored.
    pub fn has_root(&self, root: Root) -> Result<bool, RepoError> {
        look::lack::has_root(&self.handle, root)
    }

    /// Returns the missing parts of `wanted`.
    ///
    /// An absent directory that is wanted completely is one item. If only a part of it is wanted,
    /// the item is the next tree node that is missing.
    pub fn lacking(&self, wanted: Selection<'_>, of: LackOf) -> Result<Vec<Lack>, RepoError> {
        look::lack::lacking(&self.handle, wanted, of)
    }

    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if a part of `wanted` is
    /// known to be missing.
    pub fn check_here(&self, wanted: Selection<'_>) -> Result<(), RepoError> {
        look::lack::check_here(&self.handle, wanted)
    }

    /// Fails with an error if names in a directory are missing. `deep` includes the names of all
    /// levels below.
    ///
    /// The error is [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if `deep`. Otherwise,
    /// it is [`AbsentError::Object`](crate::repo::AbsentError::Object), which names the missing object.
    pub fn check_names_here(&self, wanted: Selection<'_>, deep: bool) -> Result<(), RepoError> {
        look::lack::check_names_here(&self.handle, wanted, deep)
    }

    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if bytes in a range of
    /// the file at `path` are missing.
    pub fn check_range_here(
        &self,
        path: &RepoPath,
        blob: Blob,
        range: Range<u64>,
    ) -> Result<(), RepoError> {
        look::lack::check_range_here(&self.handle, path, blob, range)
    }

    /// Reads a commit.
    pub fn read_commit(&self, id: &ObjectId) -> Result<Commit, RepoError> {
        look::entries::read_commit(&self.handle, id)
    }

    /// Finds the entry of a commit at `path`.
    ///
    /// Fails with [`LookError::NoSuchPath`](crate::repo::LookError::NoSuchPath), which names
    /// `revision`, if there is none.
    pub fn locate(
        &self,
        revision: &str,
        commit: &Commit,
        path: &RepoPath,
    ) -> Result<Location, RepoError> {
        look::entries::locate(&self.handle, revision, commit, path)
    }

    /// Visits the content of the directory `tree`, whose path is `at`, in path order.
    ///
    /// If `deep`, visits the files and empty directories of all levels. Otherwise, visits the
    /// directory's own entries.
    pub fn list(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        deep: bool,
        visit: &mut dyn FnMut(ListingLine) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::entries::list(&self.handle, at, tree, deep, visit)
    }

    /// Visits the files and empty directories of the directory `tree`, whose path is `at`, in path
    /// order. Does not read what `subset` excludes.
    pub fn list_subset(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        subset: &dyn PathSet,
        visit: &mut dyn FnMut(ListingLine) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::entries::list_subset(&self.handle, at, tree, subset, visit)
    }

    /// Visits the files and empty directories of `wanted`, in path order.
    ///
    /// Paths are relative to the place that `wanted` names. If that place is a file, its path is
    /// its name.
    pub fn list_wanted(
        &self,
        wanted: Selection<'_>,
        visit: &mut dyn FnMut(ListingLine) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::entries::list_wanted(&self.handle, wanted, visit)
    }

    /// Writes the bytes in `range` of the file at `path` in the commit that `revision` names.
    ///
    /// Returns the number of bytes written. Fails with
    /// [`LookError::NoSuchPath`](crate::repo::LookError::NoSuchPath) if the commit has no file there.
    pub fn read_file(
        &self,
        revision: &str,
        path: &RepoPath,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        look::content::read_file(&self.handle, revision, path, range, out)
    }

    /// Writes a file's bytes in `range` to `out`. Reads only the chunks that hold them.
    ///
    /// Returns the number of bytes written. Verifies each chunk before it writes any of it.
    pub fn cat(
        &self,
        blob: Blob,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        look::content::cat(&self.handle, blob, range, out)
    }

    /// Returns a symlink's target.
    pub fn link_target(&self, entry: &TreeEntry) -> Result<Vec<u8>, RepoError> {
        look::content::link_target(&self.handle, entry)
    }

    /// Returns the commit that the revision `text` names.
    ///
    /// A revision begins with a branch, tag, remote branch, a full name of one such as
    /// `refs/heads/main`, id, id prefix, `@` or `HEAD` (the worktree's head), `-` or `@{-1}` (the head
    /// before the last checkout). A name can have a date, such as `main@{2 days ago}`: the state at that
    /// time by the operation log. Any number of `~n` and `^n` can follow.
    ///
    /// Fails with [`RepoError::Revision`] if `text` names nothing, or may name several commits.
    pub fn resolve(&self, text: &str) -> Result<ObjectId, RepoError> {
        look::revision::resolve_revision(&self.handle, text)
    }

    /// Returns the local branch that the revision `text` names, also one without commits. Fails like
    /// [`resolve`](Self::resolve) if it means something else as well.
    pub fn named_branch(&self, text: &str) -> Result<Option<String>, RepoError> {
        look::revision::named_branch(&self.handle, text)
    }

    /// Returns the head that the worktree had before the last checkout. Fails if there was none;
    /// the error has `name` for it.
    pub fn previous_head(&self, name: &str) -> Result<Head, RepoError> {
        look::revision::previous_head(&self.handle, name)
    }

    /// Adds up the sizes of `wanted`. Reads metadata only, and no content.
    ///
    /// Memory: 32 bytes for each different chunk.
    pub fn disk_use(&self, wanted: Selection<'_>, job: &Job) -> Result<DiskUse, RepoError> {
        look::stats::disk_use(&self.handle, wanted, job)
    }

    /// Adds up the versions of all paths at or under `limits` in the history of all branches, tags
    /// and worktrees; without limits, of all paths. Reads metadata, and the first chunk of each
    /// large file with several versions.
    ///
    /// Memory: some 32 bytes for each different chunk, and 40 for each version of a file or directory.
    pub fn history_use(&self, limits: &[RepoPath], job: &Job) -> Result<HistoryUse, RepoError> {
        look::history_use::history_use(&self.handle, limits, job)
    }

    /// Counts the objects and bytes of the store.
    pub fn store_stats(&self) -> Result<StoreStats, RepoError> {
        look::stats::store_stats(&self.handle)
    }

    /// Returns who moved the branch of `head` last, according to the operation log.
    pub fn mover(&self, head: &Head) -> Result<Option<Mover>, RepoError> {
        look::moved::mover(&self.handle, head)
    }

    /// Visits operations, newest first, each with whether it has been undone.
    ///
    /// Some operations only announce that a command will overwrite files. These are skipped if the
    /// command has continued.
    pub fn each_operation(
        &self,
        visit: &mut dyn FnMut(Operation, bool) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::operations::each_operation(&self.handle, visit)
    }
}

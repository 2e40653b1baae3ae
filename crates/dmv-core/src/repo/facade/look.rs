//! What `Repo` offers of `look`.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::commit::Commit;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root};
use crate::object::tree::TreeEntry;
use crate::refs::Operation;
use crate::repo::{
    BranchMoved, DiskUse, Head, LackOf, Listed, Located, Mover, Repo, RepoError, StoreStats,
    Wanted, look,
};
use crate::subset::PathSet;
use std::io::Write;
use std::ops::{ControlFlow, Range};

impl Repo {
    /// The commits that refs and worktrees name: of each, everything that belongs to this
    /// repository is here.
    pub fn complete_commits(&self) -> Result<Vec<ObjectId>, RepoError> {
        look::history::complete_commits(&self.handle)
    }

    /// How many commits `ours` has that `theirs` has not, and the reverse, as far as history is
    /// here.
    pub fn distance(&self, ours: ObjectId, theirs: ObjectId) -> Result<(usize, usize), RepoError> {
        look::history::distance(&self.handle, ours, theirs)
    }

    /// The commits at which a walk over what `new` has and `old` has not ends: they are in `old`.
    pub fn end_of_range(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, RepoError> {
        look::history::end_of_range(&self.handle, old, new)
    }

    /// Whether a branch, a tag or a branch of a remote leads to a commit.
    pub fn is_on_a_branch(&self, commit: ObjectId) -> Result<bool, RepoError> {
        look::history::is_on_a_branch(&self.handle, commit)
    }

    /// Whether everything under `root` is here.
    pub fn has_root(&self, root: Root) -> Result<bool, RepoError> {
        look::lack::has_root(&self.handle, root)
    }

    /// What is not here of what is wanted. Of a directory that is not here and wanted as a whole
    /// everything is one lack; of one that is wanted in part only the next piece of it is known.
    pub fn lacking(&self, wanted: Wanted<'_>, of: LackOf) -> Result<Vec<Lack>, RepoError> {
        look::lack::lacking(&self.handle, wanted, of)
    }

    /// Refuses with [`RepoError::Lacking`] if something of `wanted` is known to be missing.
    pub fn check_here(&self, wanted: Wanted<'_>) -> Result<(), RepoError> {
        look::lack::check_here(&self.handle, wanted)
    }

    /// The same for the names in a directory, or, `deep`, for all names below.
    pub fn check_names_here(&self, wanted: Wanted<'_>, deep: bool) -> Result<(), RepoError> {
        look::lack::check_names_here(&self.handle, wanted, deep)
    }

    /// The same for the bytes of the file at `path` in a range.
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

    /// What a commit has at `path`; `revision` is for the message when it has nothing.
    pub fn locate(
        &self,
        revision: &str,
        commit: &Commit,
        path: &RepoPath,
    ) -> Result<Located, RepoError> {
        look::entries::locate(&self.handle, revision, commit, path)
    }

    /// Visits what is in the directory `tree`, whose path is `at`, in path order.
    ///
    /// `deep`: everything below, files and empty directories; else the directory's own entries.
    pub fn list(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        deep: bool,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::entries::list(&self.handle, at, tree, deep, visit)
    }

    /// Visits what is in the directory `tree`, whose path is `at`, and in `subset`, in path order:
    /// files and empty directories. What the subset leaves out is not read.
    pub fn list_subset(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        subset: &dyn PathSet,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::entries::list_subset(&self.handle, at, tree, subset, visit)
    }

    /// Visits the files and empty directories of what is wanted, in path order. Paths begin at the
    /// place; that of a place that is a file is its name.
    pub fn list_wanted(
        &self,
        wanted: Wanted<'_>,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::entries::list_wanted(&self.handle, wanted, visit)
    }

    /// Writes the bytes in `range` of the file at `path` in the commit that `revision` names.
    ///
    /// Returns the bytes written. Fails with [`RepoError::NoSuchPath`] where the commit has no file
    /// there.
    pub fn read_file(
        &self,
        revision: &str,
        path: &RepoPath,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        look::content::read_file(&self.handle, revision, path, range, out)
    }

    /// Writes a file's bytes in `range` to `out`, reading only the chunks that hold them.
    ///
    /// Returns the bytes written. Every chunk is verified before any of it is written.
    pub fn cat(
        &self,
        blob: Blob,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        look::content::cat(&self.handle, blob, range, out)
    }

    /// A symlink's target.
    pub fn link_target(&self, entry: &TreeEntry) -> Result<Vec<u8>, RepoError> {
        look::content::link_target(&self.handle, entry)
    }

    /// The commit that `text` names: a branch, tag or remote branch, an id or its prefix, `@` for
    /// what the worktree is on; then any number of `~n` and `^n`.
    pub fn resolve(&self, text: &str) -> Result<ObjectId, RepoError> {
        look::revision::resolve_revision(&self.handle, text)
    }

    /// Adds up what is wanted of a commit. Metadata is read, content is not.
    ///
    /// Memory: 32 bytes for each different chunk.
    pub fn disk_use(&self, wanted: Wanted<'_>, job: &Job) -> Result<DiskUse, RepoError> {
        look::stats::disk_use(&self.handle, wanted, job)
    }

    /// Counts what the store holds.
    pub fn store_stats(&self) -> Result<StoreStats, RepoError> {
        look::stats::store_stats(&self.handle)
    }

    /// Whether the branch that the worktree is on was moved from elsewhere.
    pub fn branch_moved(&self) -> Result<Option<BranchMoved>, RepoError> {
        look::moved::branch_moved(&self.handle)
    }

    /// Who moved the branch of `head` last, as the operation log has it.
    pub fn mover(&self, head: &Head) -> Result<Option<Mover>, RepoError> {
        look::moved::mover(&self.handle, head)
    }

    /// Visits operations, newest first, and whether each has been undone. What only says that a
    /// command was about to overwrite files is passed over when the command has gone on.
    pub fn each_operation(
        &self,
        visit: &mut dyn FnMut(Operation, bool) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        look::operations::each_operation(&self.handle, visit)
    }
}

//! What `Repo` offers of `conflict`.

use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::TreeEntry;
use crate::repo::{ConflictAt, Repo, RepoError, conflict};

impl Repo {
    /// The unresolved conflicts of a commit, in path order.
    pub fn conflicts(&self, commit: &Commit) -> Result<Vec<ConflictAt>, RepoError> {
        conflict::at::conflicts(&self.handle, commit)
    }

    /// The same of a commit of which not all is here: the conflicts that can be looked at, and what is
    /// missing of each of those that lie outside of what this repository holds.
    pub fn conflicts_here(
        &self,
        commit: &Commit,
    ) -> Result<(Vec<ConflictAt>, Vec<Lack>), RepoError> {
        conflict::at::conflicts_here(&self.handle, commit)
    }

    /// The conflict that an entry of a tree is.
    pub fn conflict_of(&self, path: &RepoPath, entry: &TreeEntry) -> Result<ConflictAt, RepoError> {
        conflict::at::conflict_of(&self.handle, path, entry)
    }

    /// The commits that a merge commit brought together, and what they started from: where the
    /// versions of its conflicts come from. None for other commits, or where they are not here.
    pub fn merged_by(&self, commit: &Commit) -> Result<Vec<ObjectId>, RepoError> {
        conflict::at::merged_by(&self.handle, commit)
    }

    /// The first of `commits` that has just `term` at `path`.
    pub fn origin_of(
        &self,
        path: &RepoPath,
        term: &Term,
        commits: &[ObjectId],
    ) -> Result<Option<ObjectId>, RepoError> {
        conflict::at::origin_of(&self.handle, path, term, commits)
    }

    /// The tree of a commit with each conflict as files: what an export writes of `wanted` paths.
    pub fn readable_tree(
        &self,
        commit: &Commit,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<ObjectId, RepoError> {
        conflict::form::readable_tree(&self.handle, commit, wanted)
    }
}

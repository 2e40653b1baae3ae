//! The methods of `Repo` that call `conflict`.

use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::repo::base::notes;
use crate::repo::{ConflictAt, Repo, RepoError, conflict};

impl Repo {
    /// Returns the unresolved conflicts of a commit, in path order.
    pub fn conflicts(&self, commit: &Commit) -> Result<Vec<ConflictAt>, RepoError> {
        conflict::at::conflicts(&self.handle, commit)
    }

    /// Returns the unresolved conflicts of a commit that may be incomplete in this repository, in path
    /// order, and the paths of those that cannot be read here.
    pub fn conflicts_here(
        &self,
        commit: &Commit,
    ) -> Result<(Vec<ConflictAt>, Vec<RepoPath>), RepoError> {
        let found = conflict::at::conflicts_here(&self.handle, commit)?;
        let unseen = found.unseen.into_iter().map(|lack| lack.path);
        Ok((found.here, unseen.collect()))
    }

    /// Returns the paths that a commit lists as its unresolved conflicts, in path order. It reads no tree,
    /// so a damaged commit may list others. `None`: they are too many for the list.
    pub fn listed_conflicts(commit: &Commit) -> Option<Vec<RepoPath>> {
        conflict::at::paths_listed(commit)
    }

    /// Reads the conflict that a tree entry names.
    pub fn conflict_of(&self, path: &RepoPath, entry: &TreeEntry) -> Result<ConflictAt, RepoError> {
        conflict::at::conflict_of(&self.handle, path, entry)
    }

    /// Returns the conflict at `path` of this worktree that no commit has yet, if there is one.
    pub fn pending_conflict(&self, path: &RepoPath) -> Result<Option<ConflictAt>, RepoError> {
        let notes = notes::read(&self.handle)?;
        let all = conflict::pending::noted(&self.handle, &notes)?;
        let mut all = all.into_iter().map(|one| one.at);
        Ok(all.find(|at| at.path == *path))
    }

    /// Returns the parents of a merge commit and their merge bases: the sources of the versions in
    /// its conflicts.
    ///
    /// Returns nothing for other commits, or if the history is absent from this repository.
    pub fn merged_by(&self, commit: &Commit) -> Result<Vec<ObjectId>, RepoError> {
        conflict::at::merged_by(&self.handle, commit)
    }

    /// Returns the first of `commits` that has exactly `term` at `path`.
    pub fn origin_of(
        &self,
        path: &RepoPath,
        term: &Term,
        commits: &[ObjectId],
    ) -> Result<Option<ObjectId>, RepoError> {
        conflict::at::origin_of(&self.handle, path, term, commits)
    }

    /// Returns the tree of a commit with readable files in place of each conflict, as an export
    /// writes it.
    ///
    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if the files of a
    /// conflict at a `wanted` path cannot be determined.
    pub fn readable_tree(
        &self,
        commit: &Commit,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<ObjectId, RepoError> {
        conflict::form::readable_tree(&self.handle, commit, wanted)
    }
}

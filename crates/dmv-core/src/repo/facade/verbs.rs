//! What `Repo` offers of `verbs`.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::repo::{
    Asked, Choice, FastForward, MergeOptions, MergeReport, Repo, RepoError, ResetReport,
    ResolveReport, UndoOptions, UndoReport, WorktreeSettings, verbs,
};

impl Repo {
    /// Merges the commit `theirs` into what the worktree is on.
    ///
    /// Uncommitted changes that do not collide are kept. Where they would be lost, nothing is
    /// touched and [`RepoError::WouldLose`] lists the paths. Otherwise the merge completes; what is
    /// in conflict is committed as such and listed in the report.
    pub fn merge(
        &self,
        theirs: ObjectId,
        fast_forward: FastForward,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<MergeReport, RepoError> {
        verbs::merge::merge(&self.handle, theirs, fast_forward, options, job)
    }

    /// Commits the reverse of what `commit` did to its parent.
    ///
    /// Of a merge, `mainline` (from 1 on) says which parent is meant. What was changed since is in
    /// conflict where it meets what is taken back.
    pub fn revert(
        &self,
        commit: ObjectId,
        mainline: Option<usize>,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<MergeReport, RepoError> {
        verbs::merge::revert(&self.handle, commit, mainline, options, job)
    }

    /// Merges a commit that was made on a branch which had been moved with what the branch has now.
    /// `None`: there is nothing to merge.
    pub fn merge_moved(
        &self,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<Option<MergeReport>, RepoError> {
        verbs::moved::merge_moved(&self.handle, options, job)
    }

    /// A commit that a remote's branch had when it was last seen, that `ours` has, and that `theirs`,
    /// which it has now, has not: to merge the two would bring back what was taken off the branch.
    ///
    /// The log of operations tells. `None`: nothing was taken off it since the two last met.
    pub fn replaced_commit(
        &self,
        remote: &str,
        branch: &str,
        (ours, theirs): (ObjectId, ObjectId),
    ) -> Result<Option<ObjectId>, RepoError> {
        verbs::replaced::replaced_commit(&self.handle, remote, branch, (ours, theirs))
    }

    /// Makes the current branch and its files equal to `theirs`, which need not follow what it is at.
    ///
    /// Uncommitted changes that do not collide are kept. Where they would be lost, nothing is
    /// touched and [`RepoError::WouldLose`] lists the paths. An undo brings the branch back.
    pub fn reset_branch(
        &self,
        theirs: ObjectId,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<ResetReport, RepoError> {
        verbs::replaced::reset_branch(&self.handle, theirs, options, job)
    }

    /// Settles the conflicts at or under `paths` in the worktree.
    ///
    /// Inside of the worktree's subset the files are made what was chosen. Outside, also if only of
    /// the files beside the conflict, the choice is kept by path, as an operation. Either way the next commit takes it, and a conflict can be
    /// settled again until then.
    ///
    /// It is an operation: what the files were before is kept, and an undo brings it back. A conflict's
    /// file that was edited by hand is not overwritten: then nothing is touched and
    /// [`RepoError::EditedByHand`] lists the paths.
    pub fn resolve_conflicts(
        &self,
        paths: &[Vec<u8>],
        choice: &Choice,
        settings: &WorktreeSettings,
        asked: Asked,
        job: &Job,
    ) -> Result<ResolveReport, RepoError> {
        verbs::resolve::resolve_conflicts(&self.handle, paths, choice, settings, asked, job)
    }

    /// Settles the conflicts at or under `paths` where there is no worktree: the choice is committed
    /// at once.
    pub fn resolve_in_commit(
        &self,
        paths: &[Vec<u8>],
        choice: &Choice,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<(ResolveReport, MergeReport), RepoError> {
        verbs::resolve::resolve_in_commit(&self.handle, paths, choice, options, job)
    }

    /// Takes one operation back, which is an operation of its own.
    ///
    /// Refused where a key that it changed has been changed again, and, where files have to follow,
    /// as [`checkout`](Repo::checkout) refuses. Of an operation made in another worktree the refs
    /// go back; that worktree's files and base stay, and its status says that they are behind.
    pub fn undo(&self, options: &UndoOptions, job: &Job) -> Result<UndoReport, RepoError> {
        verbs::undo::undo(&self.handle, options, job)
    }
}

//! The methods of `Repo` that call `verbs`.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::refs::Operation;
use crate::repo::{
    BisectReport, Bisection, CheckoutOptions, CheckoutReport, Choice, FastForward, MergeOptions,
    MergeReport, OperationRequest, PickFrom, PickOptions, PickReport, Repo, RepoError, ResetFiles,
    ResetReport, ResetToReport, ResolveReport, StashApplyReport, StashAt, StashInfo, StashOptions,
    StashPushReport, Steps, UndoOptions, UndoReport, Verdict, WorktreeSettings, verbs,
};
use crate::worktree::scan::Select;

impl Repo {
    /// Merges the commit `theirs` into the head.
    ///
    /// Keeps uncommitted changes that do not collide. If changes would be lost, fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths, before it
    /// changes anything. Otherwise, the merge completes: it commits conflicts as such, and the report
    /// lists them.
    pub fn merge(
        &self,
        theirs: ObjectId,
        fast_forward: FastForward,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<MergeReport, RepoError> {
        verbs::merge::merge(&self.handle, theirs, fast_forward, options, job)
    }

    /// Returns the search for a first bad commit in this worktree, if one is under way.
    pub fn bisection(&self) -> Result<Option<Bisection>, RepoError> {
        verbs::bisect::bisection(&self.handle)
    }

    /// Begins a search for the first bad commit, or begins anew with other commits. With a bad and
    /// a good commit, checks out the first commit to test, like [`Repo::checkout`].
    pub fn bisect_start(
        &self,
        bad: Option<ObjectId>,
        good: &[ObjectId],
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<BisectReport, RepoError> {
        verbs::bisect::start(&self.handle, bad, good, options, job)
    }

    /// Notes the result of tests, and checks out the next commit to test.
    ///
    /// Fails with [`VerbError::GoodAfterBad`](crate::repo::VerbError::GoodAfterBad), and notes nothing,
    /// if the result contradicts others.
    pub fn bisect_note(
        &self,
        verdict: Verdict,
        commits: &[ObjectId],
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<BisectReport, RepoError> {
        verbs::bisect::note(&self.handle, verdict, commits, options, job)
    }

    /// Returns what the search has come to. Changes nothing.
    pub fn bisect_progress(&self) -> Result<BisectReport, RepoError> {
        verbs::bisect::progress(&self.handle)
    }

    /// Ends the search and returns to the head before it.
    pub fn bisect_end(
        &self,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        verbs::bisect::end(&self.handle, options, job)
    }

    /// Commits the reverse of the changes that `commit` made to its parent.
    ///
    /// For a merge commit, `mainline` names the parent, counted from 1. A later change becomes a
    /// conflict if it overlaps a reverted one.
    pub fn revert(
        &self,
        commit: ObjectId,
        mainline: Option<usize>,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<MergeReport, RepoError> {
        verbs::merge::revert(&self.handle, commit, mainline, options, job)
    }

    /// Applies the changes of commits to the current branch, each as a new commit.
    ///
    /// Keeps uncommitted changes that do not collide. If changes would be lost, fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths, before it
    /// changes anything. Otherwise, it completes: commits may have conflicts, and the report lists
    /// those of the last one. The message in `options` is not used.
    pub fn cherry_pick(
        &self,
        from: &[PickFrom],
        pick: PickOptions,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<PickReport, RepoError> {
        verbs::pick::cherry_pick(&self.handle, from, pick, options, job)
    }

    /// Makes the commits that the head has and `upstream` does not have again, on top of `onto`.
    ///
    /// Leaves out merge commits and commits whose changes are already there. Fails and completes
    /// like [`cherry_pick`](Self::cherry_pick).
    pub fn rebase(
        &self,
        upstream: ObjectId,
        onto: ObjectId,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<PickReport, RepoError> {
        verbs::pick::rebase(&self.handle, upstream, onto, options, job)
    }

    /// Merges a commit that was made after another command had moved its branch with the branch's
    /// current commit.
    ///
    /// Returns `None` if there is nothing to merge.
    pub fn merge_moved(
        &self,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<Option<MergeReport>, RepoError> {
        verbs::moved::merge_moved(&self.handle, options, job)
    }

    /// Returns a commit that was removed from a remote's branch and that a merge of `ours` and
    /// `theirs` would bring back.
    ///
    /// The remote's branch had this commit when it was last seen. `ours` has it, and `theirs`, the
    /// current commit of the remote's branch, does not. The operation log provides this
    /// information. Returns `None` if nothing was removed since the two last met.
    pub fn replaced_commit(
        &self,
        remote: &str,
        branch: &str,
        (ours, theirs): (ObjectId, ObjectId),
    ) -> Result<Option<ObjectId>, RepoError> {
        verbs::replaced::replaced_commit(&self.handle, remote, branch, (ours, theirs))
    }

    /// Makes the current branch and its files equal to `theirs`, which need not descend from the
    /// branch's current commit.
    ///
    /// Keeps uncommitted changes that do not collide. If changes would be lost, fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths, before it
    /// changes anything. An undo brings the branch back.
    pub fn reset_branch(
        &self,
        theirs: ObjectId,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<ResetReport, RepoError> {
        verbs::replaced::reset_branch(&self.handle, theirs, options, job)
    }

    /// Moves the current branch to the commit `to`.
    ///
    /// With [`ResetFiles::Keep`] no file changes: what differs from `to` is uncommitted afterwards.
    /// With [`ResetFiles::Match`] the files become equal to `to`. Uncommitted changes to tracked
    /// files, and untracked files in the way, are stored first, and an undo brings them back. Other
    /// untracked files stay.
    pub fn reset(
        &self,
        to: ObjectId,
        files: ResetFiles,
        request: &OperationRequest,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<ResetToReport, RepoError> {
        verbs::reset::reset(&self.handle, to, files, (request, settings), job)
    }

    /// Returns all stashes, newest first.
    pub fn stashes(&self) -> Result<Vec<StashInfo>, RepoError> {
        verbs::stash::stashes(&self.handle)
    }

    /// Puts the uncommitted changes under `select` aside, and makes these files equal to the base.
    ///
    /// The changes are those that a commit would take, also new files. They are stored and named
    /// before the first file changes.
    pub fn stash_push(
        &self,
        select: &dyn Select,
        message: Option<&str>,
        options: &StashOptions,
        job: &Job,
    ) -> Result<StashPushReport, RepoError> {
        verbs::stash::push(&self.handle, select, message, options, job)
    }

    /// Merges a stash into the files as they are. With `drops`, removes the stash if all of it was
    /// applied without conflicts.
    pub fn stash_apply(
        &self,
        at: StashAt,
        drops: bool,
        options: &StashOptions,
        job: &Job,
    ) -> Result<StashApplyReport, RepoError> {
        verbs::stash::apply(&self.handle, at, drops, options, job)
    }

    /// Removes the `n`-th newest stash. An undo brings it back.
    pub fn stash_drop(&self, n: usize, request: OperationRequest) -> Result<StashInfo, RepoError> {
        verbs::stash::drop_stash(&self.handle, n, request)
    }

    /// Resolves the conflicts at or under `paths` in the worktree.
    ///
    /// Inside the worktree's subset, writes the chosen version to the files. If the conflict, or
    /// only one of the files beside it, is outside, records the choice by path, as an operation.
    /// Either way, the next commit includes the choice. Until then, the conflict can be resolved
    /// again.
    ///
    /// This is an operation: it stores the former files, and an undo brings them back. It does not
    /// overwrite a conflict's file that was edited by hand: it fails with
    /// [`ConflictError::EditedByHand`](crate::repo::ConflictError::EditedByHand), which lists the
    /// paths, before it changes anything.
    pub fn resolve_conflicts(
        &self,
        paths: &[RepoPath],
        choice: &Choice,
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<ResolveReport, RepoError> {
        verbs::resolve::resolve_conflicts(&self.handle, paths, choice, settings, request, job)
    }

    /// Resolves the conflicts at or under `paths` without a worktree: commits the choice at once.
    pub fn resolve_in_commit(
        &self,
        paths: &[RepoPath],
        choice: &Choice,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<(ResolveReport, MergeReport), RepoError> {
        verbs::resolve::resolve_in_commit(&self.handle, paths, choice, options, job)
    }

    /// Undoes one operation. The undo is an operation itself.
    ///
    /// Fails with [`UndoError::ChangedSince`](crate::repo::UndoError::ChangedSince) if a later
    /// operation changed the same keys. If files must follow, fails like [`checkout`](Self::checkout).
    /// For an operation of another worktree, restores only the refs. The files and the base of that
    /// worktree stay, and its status reports that they are behind.
    pub fn undo(&self, options: &UndoOptions, job: &Job) -> Result<UndoReport, RepoError> {
        verbs::undo::undo(
            &self.handle,
            options,
            verbs::undo::AbsentContent::Needed,
            job,
        )
    }

    /// Undoes one operation like [`undo`](Self::undo), without the files whose content is absent from
    /// this repository. They are reported as refused.
    pub fn undo_without_absent(
        &self,
        options: &UndoOptions,
        job: &Job,
    ) -> Result<UndoReport, RepoError> {
        verbs::undo::undo(
            &self.handle,
            options,
            verbs::undo::AbsentContent::Skipped,
            job,
        )
    }

    /// Returns the steps that an operation has taken in a worktree; `None` if it names none.
    pub fn steps_of(&self, operation: &Operation) -> Result<Option<Steps>, RepoError> {
        verbs::undo::steps_named(&self.handle, operation)
    }

    /// Returns whether an operation has changed choices for conflicts that have no file.
    pub fn changes_choices(&self, operation: &Operation) -> Result<bool, RepoError> {
        verbs::undo::changes_choices(&self.handle, operation)
    }

    /// Returns the operation that [`UndoWhat::Last`](crate::repo::UndoWhat::Last) would undo; `None`
    /// if there is none.
    pub fn next_to_undo(&self) -> Result<Option<Operation>, RepoError> {
        verbs::undo::next_to_undo(&self.handle)
    }
}

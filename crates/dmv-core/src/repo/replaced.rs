//! A branch of a remote that was replaced: it no longer has commits that it had.

use super::merge::{MergeReport, Site};
use super::{Head, MergeOptions, Repo, RepoError};
use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::Job;
use std::ops::ControlFlow;

/// What became of a branch that was made equal to another one.
#[derive(Debug)]
pub struct ResetReport {
    /// As after a merge that only moves the branch.
    pub merge: MergeReport,
    /// Commits that the branch had and has no more, the newest first.
    pub left: Vec<ObjectId>,
}

impl Repo {
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
        let key = format!("remote/{remote}/{branch}");
        if is_ancestor(self.objects(), &ours, &theirs)? {
            return Ok(None);
        }
        let mut found = None;
        self.each_operation(&mut |operation, _| {
            let change = operation.changes.iter().find(|change| change.key == key);
            let Some(old) = change.and_then(|change| change.old.as_deref()) else {
                return Ok(ControlFlow::Continue(()));
            };
            let old = self.id_value(&key, old)?;
            if !is_ancestor(self.objects(), &old, &ours)? {
                return Ok(ControlFlow::Continue(()));
            }
            if !is_ancestor(self.objects(), &old, &theirs)? {
                found = Some(old);
            }
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
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
        let _lock = self.lock_if_worktree()?;
        let (head, tip) = (self.head()?, self.head_commit()?);
        let tree = match self.worktree_root() {
            Some(_) => Some(self.tree(&options.settings)?),
            None => None,
        };
        let base = tree.as_ref().and_then(|tree| tree.base);
        let mut left = Vec::new();
        for id in [tip, base].into_iter().flatten() {
            let gone = self.only_in(id, theirs)?.into_iter();
            left.extend(gone.filter(|id| !left.contains(id)).collect::<Vec<_>>());
        }
        let mut merge = MergeReport::new(theirs, Head::clone(&head));
        merge.fast_forward = left.is_empty();
        merge.up_to_date = tip == Some(theirs) && (tree.is_none() || base == tip);
        if !merge.up_to_date {
            let form = self.form_at(&theirs)?;
            let site = Site::new(tree, head, tip);
            let what = "this reset";
            merge.take(self.go_to(&site, theirs, form, None, what, options, job)?);
        }
        Ok(ResetReport { merge, left })
    }
}

//! Replaced remote branches, which no longer have commits that they had, and `reset`, which makes
//! the current branch equal to another one.

use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::{whole, worktree};
use crate::repo::conflict::form;
use crate::repo::files::open_worktree;
use crate::repo::look::history;
use crate::repo::verbs::merge;
use crate::repo::verbs::merge::{MergeOptions, MergeReport, Site};
use std::ops::ControlFlow;

/// What a reset of a branch did.
#[derive(Debug)]
pub struct ResetReport {
    /// The same as after a fast-forward.
    pub merge: MergeReport,
    /// Commits that the branch had and no longer has, newest first.
    pub left: Vec<ObjectId>,
}

impl Repo {
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
            let old = worktree::id_value(self, &key, old)?;
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
        let _lock = worktree::lock_if_worktree(self)?;
        whole::check_complete(self, &[theirs])?;
        let (head, tip) = (self.head()?, self.head_commit()?);
        let tree = match self.worktree_root() {
            Some(_) => Some(open_worktree::open(self, &options.settings)?),
            None => None,
        };
        let base = tree.as_ref().and_then(|tree| tree.base);
        let mut left = Vec::new();
        for id in [tip, base].into_iter().flatten() {
            let gone = history::only_in(self, id, theirs)?.into_iter();
            left.extend(gone.filter(|id| !left.contains(id)).collect::<Vec<_>>());
        }
        let mut merge = MergeReport::new(theirs, Head::clone(&head));
        merge.fast_forward = left.is_empty();
        merge.up_to_date = tip == Some(theirs) && (tree.is_none() || base == tip);
        if !merge.up_to_date {
            let form = form::form_at(self, &theirs)?;
            let site = Site::new(tree, head, tip);
            let tx = Transaction::begin(self, &options.request);
            let done = merge::go_to(tx, &site, theirs, form, "this reset", options, job)?;
            merge.take(done);
        }
        Ok(ResetReport { merge, left })
    }
}

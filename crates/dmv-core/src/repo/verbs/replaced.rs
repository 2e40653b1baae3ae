//! Replaced remote branches, which no longer have commits that they had, and `reset`, which makes
//! the current branch equal to another one.

use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::head::Head;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::{whole, worktree};
use crate::repo::conflict::form;
use crate::repo::files::open_worktree;
use crate::repo::look::{history, operations};
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

/// Returns a commit that a remote's branch had when it was last seen, that `ours` has, and that
/// `theirs`, the branch's present commit, does not have. If there is one, a merge would bring back
/// commits that were removed from the branch.
pub fn replaced_commit(
    repo: &Handle,
    remote: &str,
    branch: &str,
    (ours, theirs): (ObjectId, ObjectId),
) -> Result<Option<ObjectId>, RepoError> {
    let key = format!("remote/{remote}/{branch}");
    if is_ancestor(repo.objects(), &ours, &theirs)? {
        return Ok(None);
    }
    let mut found = None;
    operations::each_operation(repo, &mut |operation, _| {
        let change = operation.changes.iter().find(|change| change.key == key);
        let Some(old) = change.and_then(|change| change.old.as_deref()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let old = worktree::id_value(repo, &key, old)?;
        if !is_ancestor(repo.objects(), &old, &ours)? {
            return Ok(ControlFlow::Continue(()));
        }
        if !is_ancestor(repo.objects(), &old, &theirs)? {
            found = Some(old);
        }
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Makes the current branch and its files equal to `theirs`, which need not descend from the
/// branch's present commit.
pub fn reset_branch(
    repo: &Handle,
    theirs: ObjectId,
    options: &MergeOptions,
    job: &Job,
) -> Result<ResetReport, RepoError> {
    let _lock = worktree::lock_if_worktree(repo)?;
    whole::check_complete(repo, &[theirs])?;
    let (head, tip) = (worktree::head(repo)?, worktree::head_commit(repo)?);
    let tree = match worktree::worktree_root(repo) {
        Some(_) => Some(open_worktree::open(repo, &options.settings)?),
        None => None,
    };
    let base = tree.as_ref().and_then(|tree| tree.base);
    let mut left = Vec::new();
    for id in [tip, base].into_iter().flatten() {
        let gone = history::only_in(repo, id, theirs)?.into_iter();
        left.extend(gone.filter(|id| !left.contains(id)).collect::<Vec<_>>());
    }
    let mut merge = MergeReport::new(theirs, Head::clone(&head));
    merge.fast_forward = left.is_empty();
    merge.up_to_date = tip == Some(theirs) && (tree.is_none() || base == tip);
    if !merge.up_to_date {
        let form = form::form_at(repo, &theirs)?;
        let site = Site::new(tree, head, tip);
        let tx = Transaction::begin(repo, &options.request);
        let done = merge::go_to(tx, &site, theirs, form, "this reset", options, job)?;
        merge.take(done);
    }
    Ok(ResetReport { merge, left })
}

//! Merges into a branch that was moved while a worktree is on it: by a push, or from another
//! worktree.
//!
//! The worktree's files stay, and so does its base, the commit that they were last made equal to. A
//! commit follows the base, and is then merged with the branch's present commit.

use crate::history::is_ancestor;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::worktree;
use crate::repo::files::open_worktree;
use crate::repo::look::moved::moved;
use crate::repo::verbs::merge;
use crate::repo::verbs::merge::{MergeOptions, MergeReport, Site};

/// Merges a new commit, made while its branch had been moved, with the branch's present commit.
/// Returns `None` if there is nothing to merge.
pub fn merge_moved(
    repo: &Handle,
    options: &MergeOptions,
    job: &Job,
) -> Result<Option<MergeReport>, RepoError> {
    let _lock = worktree::lock_worktree(repo)?;
    let (tree, head) = (
        open_worktree::open(repo, &options.settings)?,
        worktree::head(repo)?,
    );
    let Some(found) = moved(repo, tree.base, &head)? else {
        return Ok(None);
    };
    let (Some(base), Some(tip), true) = (found.base, found.tip, found.forward) else {
        return Ok(None);
    };
    if is_ancestor(repo.objects(), &base, &tip)? {
        return Ok(None);
    }
    let site = Site::moved(tree, head, (base, tip));
    merge::merge_commits_at(repo, &site, (base, tip), options, job).map(Some)
}

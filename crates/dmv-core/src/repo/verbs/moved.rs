//! Merges into a branch that was moved while a worktree is on it: by a push, or from another
//! worktree.
//!
//! The worktree's files stay, and so does its base, the commit that they were last made equal to. A
//! commit follows the base, and is then merged with the branch's present commit.

use crate::history::is_ancestor;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::files::open_worktree;
use crate::repo::look::moved::moved;
use crate::repo::verbs::merge;
use crate::repo::verbs::merge::{MergeOptions, MergeReport, Site};

impl Repo {
    /// Merges a commit that was made after another command had moved its branch with the branch's
    /// current commit.
    ///
    /// Returns `None` if there is nothing to merge.
    pub fn merge_moved(
        &self,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<Option<MergeReport>, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let (tree, head) = (open_worktree::open(self, &options.settings)?, self.head()?);
        let Some(found) = moved(self, tree.base, &head)? else {
            return Ok(None);
        };
        let (Some(base), Some(tip), true) = (found.base, found.tip, found.forward) else {
            return Ok(None);
        };
        if is_ancestor(self.objects(), &base, &tip)? {
            return Ok(None);
        }
        let site = Site::moved(tree, head, (base, tip));
        merge::merge_commits_at(self, &site, (base, tip), options, job).map(Some)
    }
}

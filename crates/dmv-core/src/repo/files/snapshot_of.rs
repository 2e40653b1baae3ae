//! The state of a worktree as a tree, for commands that put changes aside. It is stored and not
//! published.

use crate::fsutil::fs_now;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::unwritten;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::scan::Select;
use crate::worktree::snapshot::{Snapshot, SnapshotInput, snapshot};

/// Reads the changed files of a part of the worktree into the store. The tree of the result has
/// files in place of conflicts; it is `None` if nothing differs from the base.
pub fn snapshot_of(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    select: &dyn Select,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<Snapshot, RepoError> {
    let repo = tx.repo();
    let known = tree.known(repo);
    let input = SnapshotInput {
        root: &tree.root,
        reader: repo.objects(),
        base: tree.base_tree,
        scan: tree.scan_options(&*known, select, job),
        started: fs_now(&tree.own),
        portable: settings.portable_names,
        properties: &tree.properties,
        unwritten: &unwritten::unwritten_paths(repo, tree)?,
        most_new: None,
    };
    // The stat cache on disk stays the base's: its entries are valid for every file that the
    // command does not write.
    let mut cache = CacheUpdate::new(&tree.own, repo.id, &tree.subset, &*known);
    Ok(snapshot(&input, tx.writer()?, &mut cache, job)?)
}

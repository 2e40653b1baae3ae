//! Removes all files of a worktree. Each must still be the file that was seen.
//!
//! The removal of linked worktrees uses it.

use crate::fsutil::{FileKind, Fingerprint};
use crate::job::{Job, Moment};
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::tree::empty_tree_id;
use crate::repo::base::error::RepoError;
use crate::repo::base::layout::DMV_DIR;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::form::Form;
use crate::repo::files::checkout::dirs::sorted;
use crate::repo::files::checkout::switch::{PLAN_FILES, Switch};
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::seen::Expectation;
use crate::subset::Subset;
use crate::worktree::checkout::{Plan, Removal};
use crate::worktree::snapshot::Problem;
use crate::worktree::{join, split_path};
use std::collections::{BTreeMap, BTreeSet};

/// Removes all files and directories of the worktree except its `.dmv` entry.
///
/// `seen` has the fingerprints of uncommitted files at the time when they were stored. Returns the
/// files that were not removed because they have changed since, or because the system refused. The
/// caller holds the worktree's lock.
pub fn remove_all_files(
    repo: &Repo,
    settings: &WorktreeSettings,
    seen: BTreeMap<Vec<u8>, Option<Fingerprint>>,
    job: &Job,
) -> Result<Vec<Problem>, RepoError> {
    let tree = open_worktree::open(repo, settings)?;
    let (nothing, everything) = (Form::plain(empty_tree_id()), Subset::everything());
    let mut switch = Switch::new(repo, &tree, &nothing, &everything, job);
    switch.find_dirty(settings)?;
    job.reached(Moment::Scanned);
    switch.decision.seen = seen;
    let portion = job.portion(PLAN_FILES);
    let (mut plan, mut all) = (Plan::default(), BTreeSet::new());
    let mut dirs = vec![Vec::new()];
    while let Some(dir) = dirs.pop() {
        for (name, kind) in tree.root.open_dir(&dir)?.list(MAX_DIR_ENTRIES)?.iter() {
            let path = join(&dir, name);
            let kind = match kind {
                FileKind::Unknown => switch.stat(&path)?.map(|s| s.kind),
                kind => Some(kind),
            };
            if path == DMV_DIR.as_bytes() {
                continue;
            }
            if kind == Some(FileKind::Dir) {
                all.insert(path.clone());
                dirs.push(path);
                continue;
            }
            match switch.expected(&path, None)? {
                Expectation::This(expected) if Repo::parse_path(&path).is_err() => {
                    if !remove_foreign(&tree, &path, expected)? {
                        switch.refuse_changed(path);
                    }
                }
                Expectation::This(expected) => plan.remove.push(Removal { path, expected }),
                Expectation::Nothing | Expectation::Other => switch.refuse_changed(path),
            }
            if plan.remove.len() >= portion {
                switch.run(std::mem::take(&mut plan))?;
            }
        }
    }
    switch.run(plan)?;
    // Changed files return to their directories before the directories are removed.
    switch.sync()?;
    let (all, foreign): (BTreeSet<_>, BTreeSet<_>) = all
        .into_iter()
        .partition(|dir| Repo::parse_path(dir).is_ok());
    for dir in sorted(foreign).iter().rev() {
        if let Some((above, name)) = split_path(dir) {
            // The directory stays if a file has appeared in it.
            let _ = tree.root.open_dir(above)?.remove_dir(name);
        }
    }
    switch.run(Plan {
        remove_dirs: sorted(all),
        ..Plan::default()
    })?;
    Ok(std::mem::take(&mut switch.progress.refused))
}

/// Removes a file whose name no worktree may hold, such as a part of another repository. The user
/// has allowed its loss. Returns `false` if the file has changed.
fn remove_foreign(
    tree: &OpenWorktree,
    path: &[u8],
    expected: Fingerprint,
) -> Result<bool, RepoError> {
    let Some((dir, name)) = split_path(path) else {
        return Ok(false);
    };
    let dir = tree.root.open_dir(dir)?;
    let stat = dir.stat_opt(name)?;
    if stat.is_some_and(|stat| stat.fingerprint() != expected) {
        return Ok(false);
    }
    if stat.is_some() {
        dir.unlink(name)?;
    }
    Ok(true)
}

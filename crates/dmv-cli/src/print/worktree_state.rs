//! The state of the worktree, as `status` and the draft of a commit's message show it.

use crate::prelude::*;
use crate::print::changes::tell_limited;
use dmv_core::repo::{ChangeKind, PathChange, Rename, StatusOptions, StatusReport};
use dmv_core::worktree::select::Paths;
use std::collections::{HashMap, HashSet};

/// Looks at the worktree, as far as `select` goes.
pub fn look(
    context: &Context,
    repo: &Repo,
    select: &Paths,
) -> Result<(StatusReport, Renames), Failure> {
    let options = StatusOptions {
        select,
        settings: context.settings()?,
    };
    let watch = context.watch("scanning");
    let mut report = repo.status(&options, &context.job)?;
    let renames = repo.renames(&report.changes, &context.job)?;
    drop(watch);
    tell_limited(context, &renames);
    report
        .changes
        .retain(|change| select.includes(change.path.as_bytes()));
    let renames: Renames = renames
        .list
        .into_iter()
        .map(|r| (r.to.clone(), r))
        .collect();
    let gone: HashSet<&RepoPath> = renames.values().map(|r| &r.from).collect();
    // The old path is told with the new one.
    let told = |c: &PathChange| c.kind != ChangeKind::Deleted || !gone.contains(&c.path);
    report.changes.retain(told);
    report
        .untracking
        .retain(|at| select.includes(at.path.as_bytes()));
    report.outside.retain(|path| select.includes(path));
    for paths in [
        &mut report.unwritten,
        &mut report.conflicts,
        &mut report.pending,
        &mut report.settled,
        &mut report.marked,
    ] {
        paths.retain(|path| select.includes(path.as_bytes()));
    }
    Ok((report, renames))
}

/// Files that were moved, by their new paths.
pub type Renames = HashMap<RepoPath, Rename>;

/// Where a new file came from.
pub fn origin<'r>(renames: &'r Renames, change: &PathChange) -> Option<&'r Rename> {
    renames
        .get(&change.path)
        .filter(|_| change.kind == ChangeKind::Added)
}

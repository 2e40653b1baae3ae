//! The conflicts of a commit that is being made: which stay in it, which it settles, and which it
//! leaves out.

use crate::object::name::RepoPath;
use crate::repo::base::error::RepoError;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::settle::{SettledConflicts, UnsettledConflict};
use crate::repo::conflict::{at, choices};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::worktree::scan::Select;
use std::collections::BTreeSet;

/// Returns the conflicts that no commit has and that this one leaves out. Those of other paths than the
/// selected ones are not worth telling.
pub(super) fn marked(
    tree: &OpenWorktree,
    conflicts: &SettledConflicts,
    select: &dyn Select,
) -> Vec<UnsettledConflict> {
    let shown = tree.form.iter().flat_map(|form| &form.shown);
    let selected = shown.filter(|shown| shown.is_selected(select));
    let selected: BTreeSet<&RepoPath> = selected.map(|shown| &shown.at.path).collect();
    let mut left = conflicts.left_out.clone();
    left.retain(|left| selected.contains(&left.path));
    left
}

/// Removes the choices that a commit has used from `notes`.
pub(super) fn end_choices(
    notes: &mut PathNotes,
    tree: &OpenWorktree,
    conflicts: &SettledConflicts,
) {
    let count = tree.form.as_ref().map_or(0, |form| form.chosen.len());
    if conflicts.waiting.len() != count {
        choices::note_in(notes, &conflicts.waiting);
    }
}

/// Returns the paths of the base's conflicts without those that are settled, and those of conflicts
/// in a version that settled another one.
pub(super) fn still_open(
    repo: &Repo,
    tree: &OpenWorktree,
    conflicts: &SettledConflicts,
) -> Result<Vec<RepoPath>, RepoError> {
    let Some(base) = &tree.base else {
        return Ok(Vec::new());
    };
    let base = at::conflict_paths(repo, &repo.read_commit(base)?)?;
    let mut open: BTreeSet<RepoPath> = base.into_iter().collect();
    for path in &conflicts.settled {
        open.remove(path);
    }
    open.extend(conflicts.open_paths());
    Ok(open.into_iter().collect())
}

//! Conflicts within a version of another conflict.
//!
//! If one side of a merge has a file and the other a directory, the directory is a version of the
//! conflict. It may have conflicts of its own. A worktree shows the directory beside the conflict,
//! with readable files in place of them.

use crate::merge::edit_tree_of;
use crate::object::conflict::Term;
use crate::object::tree::Kind;
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::conflict::at::{ConflictAt, each_conflict};
use crate::repo::conflict::form::{Shown, show};
use crate::repo::conflict::names::NamesBeside;
use std::collections::BTreeSet;

/// Returns a version as a worktree shows it: a directory without conflicts. What it consists of then
/// is not stored. A directory that is not completely stored is returned as it is.
pub fn readable(repo: &Repo, term: Term) -> Result<Term, RepoError> {
    if term.kind != Kind::Directory {
        return Ok(term);
    }
    let conflicts = match conflicts_in(repo, &term) {
        Err(RepoError::Absent(AbsentError::Object { .. })) => return Ok(term),
        found => found?,
    };
    if conflicts.is_empty() {
        return Ok(term);
    }
    let mut names = NamesBeside::new(repo, &term.id, BTreeSet::new());
    let shown = conflicts
        .into_iter()
        .map(|at| show(repo, at, &mut names, None))
        .collect::<Result<Vec<_>, _>>()?;
    let edits = shown.iter().flat_map(Shown::edits).collect();
    let made = edit_tree_of(repo.objects(), &mut &repo.made, term.id, &edits)?;
    Ok(Term {
        id: made.id,
        size: made.bytes,
        files: made.files,
        ..term
    })
}

/// Returns the conflicts in a directory, with their paths from there.
fn conflicts_in(repo: &Repo, term: &Term) -> Result<Vec<ConflictAt>, RepoError> {
    let mut found = Vec::new();
    each_conflict(repo, &term.id, &mut |listed| {
        found.push(repo.conflict_of(&listed.path, &listed.entry)?);
        Ok(())
    })?;
    Ok(found)
}

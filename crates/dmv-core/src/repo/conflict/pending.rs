//! Conflicts that no commit has yet: those of a worktree's files.
//!
//! `stash pop` shows them if it cannot combine two changes, and `reset` leaves them if the new base
//! does not have the conflict. The worktree's notes have them (docs/format/notes.md). In the form of
//! the worktree's base they take the place of what the base has there, so every command that knows
//! conflicts knows these.

use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::repo::base::error::RepoError;
use crate::repo::base::notes;
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::repo::Repo;
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::form::{Shown, ShownSide};
use crate::repo::conflict::settle::conflict_entry;
use crate::worktree::select::is_under;

/// A conflict that no commit has yet.
#[derive(Clone, Debug)]
pub struct PendingConflict {
    pub at: ConflictAt,
    /// The versions in files beside it.
    pub sides: Vec<ShownSide>,
}

impl PendingConflict {
    /// Returns a conflict that files show now.
    pub fn of(shown: &Shown) -> PendingConflict {
        PendingConflict {
            at: shown.at.clone(),
            sides: shown.sides.clone(),
        }
    }

    /// Returns the paths that belong to the conflict, with everything below them.
    pub fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        std::iter::once(&self.at.path).chain(self.sides.iter().map(|side| &side.path))
    }

    /// Returns whether `path` is one of those paths, or lies above or below one.
    pub fn touches(&self, path: &[u8]) -> bool {
        self.paths()
            .any(|own| is_under(path, own.as_bytes()) || is_under(own.as_bytes(), path))
    }

    /// Returns the note of it.
    pub fn note(&self) -> (RepoPath, Note) {
        let note = Note::Conflict {
            conflict: conflict_entry(&self.at),
            beside: self.sides.iter().map(ShownSide::file).collect(),
        };
        (self.at.path.clone(), note)
    }
}

/// Adds conflicts to earlier ones. An earlier conflict about the same paths is over.
pub fn added(earlier: Vec<PendingConflict>, new: Vec<PendingConflict>) -> Vec<PendingConflict> {
    let is_over = |old: &PendingConflict| {
        let mut paths = new.iter().flat_map(PendingConflict::paths);
        paths.any(|path| old.touches(path.as_bytes()))
    };
    let stay = earlier.into_iter().filter(|old| !is_over(old));
    let mut all: Vec<PendingConflict> = stay.collect();
    all.extend(new);
    all.sort_by(|a, b| a.at.path.cmp(&b.at.path));
    all
}

impl Repo {
    /// Returns the conflict at `path` of this worktree that no commit has yet, if there is one.
    pub fn pending_conflict(&self, path: &RepoPath) -> Result<Option<ConflictAt>, RepoError> {
        let notes = notes::read(self)?;
        let all = noted(self, &notes)?;
        let mut all = all.into_iter().map(|one| one.at);
        Ok(all.find(|at| at.path == *path))
    }
}

/// Returns the conflicts that a worktree's notes have.
pub fn noted(repo: &Repo, notes: &PathNotes) -> Result<Vec<PendingConflict>, RepoError> {
    let mut out = Vec::new();
    for (path, note) in notes.iter() {
        if let Note::Conflict { conflict, beside } = note {
            let side = |(path, entry): &(RepoPath, TreeEntry)| {
                let (path, term) = (path.clone(), Term::of_entry(entry)?);
                Some(ShownSide { path, term })
            };
            out.push(PendingConflict {
                at: repo.conflict_of(path, conflict)?,
                sides: beside.iter().filter_map(side).collect(),
            });
        }
    }
    Ok(out)
}

/// Replaces the conflicts in `notes`.
pub fn note_in(notes: &mut PathNotes, all: &[PendingConflict]) {
    notes.retain(|_, note| !matches!(note, Note::Conflict { .. }));
    notes.extend(all.iter().map(PendingConflict::note));
}

//! Conflicts that no commit has yet: those of a worktree's files.
//!
//! `stash pop` shows them if it cannot combine two changes, and `reset` leaves them if the new base
//! does not have the conflict. The view names a commit whose tree has them as any commit has
//! conflicts, and beside each the versions that files show (docs/format/layout.md, "Conflicts that
//! no commit has"). In the form of the worktree's base they take the place of what the base has
//! there, so every command that knows conflicts knows these.

use crate::history::load_commit;
use crate::merge::Edits;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, TreeIter};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::conflicts_key;
use crate::repo::base::worktree;
use crate::repo::conflict::at;
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::form::{Shown, ShownSide};
use crate::repo::conflict::names::numbered;
use crate::repo::conflict::nested;
use crate::repo::conflict::settle::conflict_entry;
use crate::worktree::base::dir_tree;
use crate::worktree::join;
use crate::worktree::select::is_under;
use std::collections::BTreeMap;

/// The greatest number in the name of a version.
const MAX_NUMBER: u32 = 1000;

/// A conflict that no commit has yet.
#[derive(Clone, Debug)]
pub(in crate::repo) struct PendingConflict {
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

    /// Returns the entries that the record has of it.
    pub fn entries(&self) -> impl Iterator<Item = (RepoPath, TreeEntry)> + '_ {
        let own = (self.at.path.clone(), conflict_entry(&self.at));
        std::iter::once(own).chain(self.sides.iter().map(ShownSide::file))
    }
}

/// Returns the entries of a record of conflicts.
pub(in crate::repo) fn record_entries(all: &[PendingConflict]) -> Edits {
    let entries = all.iter().flat_map(PendingConflict::entries);
    entries.map(|(path, entry)| (path, Some(entry))).collect()
}

/// Adds conflicts to earlier ones. An earlier conflict about the same paths is over.
pub(in crate::repo) fn added(
    earlier: Vec<PendingConflict>,
    new: Vec<PendingConflict>,
) -> Vec<PendingConflict> {
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

/// Reads the conflicts of the worktree `name` that no commit has.
pub(in crate::repo) fn read(repo: &Handle, name: &str) -> Result<Vec<PendingConflict>, RepoError> {
    let Some(id) = worktree::ref_id(repo, &conflicts_key(name))? else {
        return Ok(Vec::new());
    };
    let record = load_commit(repo.objects(), &id)?;
    let mut dirs: BTreeMap<RepoPath, BTreeMap<Vec<u8>, TreeEntry>> = BTreeMap::new();
    let mut out = Vec::new();
    for at in at::conflicts(repo, &record)? {
        let dir = at.path.parent().unwrap_or_default();
        let names = match dirs.get(&dir) {
            Some(names) => names,
            None => {
                let names = names_in(repo, &record.tree, &dir)?;
                dirs.entry(dir).or_insert(names)
            }
        };
        let sides = sides_of(repo, &at, names)?;
        out.push(PendingConflict { at, sides });
    }
    Ok(out)
}

fn names_in(
    repo: &Handle,
    root: &crate::hash::ObjectId,
    dir: &RepoPath,
) -> Result<BTreeMap<Vec<u8>, TreeEntry>, RepoError> {
    let mut names = BTreeMap::new();
    if let Some(tree) = dir_tree(repo.objects(), root, dir.as_bytes())? {
        for entry in TreeIter::new(repo.objects(), tree) {
            let entry = entry?;
            names.insert(join(dir.as_bytes(), entry.name.as_bytes()), entry);
        }
    }
    Ok(names)
}

/// Returns the versions of a conflict that a record has beside it.
fn sides_of(
    repo: &Handle,
    at: &ConflictAt,
    names: &BTreeMap<Vec<u8>, TreeEntry>,
) -> Result<Vec<ShownSide>, RepoError> {
    let mut sides = Vec::new();
    for (label, term) in at.versions() {
        let Some(term) = term else { continue };
        let term = nested::readable(repo, term)?;
        for n in 1..=MAX_NUMBER {
            let path = numbered(&at.path, &label, n)?;
            let side = ShownSide { path, term };
            let there = names.get(side.path.as_bytes());
            if there.is_some_and(|there| there.same_content(&side.entry())) {
                sides.push(side);
                break;
            }
        }
    }
    Ok(sides)
}

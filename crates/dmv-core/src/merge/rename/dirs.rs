//! Directories that one side moved without changing them.

use crate::diff::rename::{Candidate, pair_equal};
use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use std::collections::{BTreeMap, HashSet};

/// A removed or new directory.
pub(super) struct Dir {
    pub path: RepoPath,
    pub id: ObjectId,
}

impl Dir {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            path: self.path.as_bytes(),
            size: 1,
            id: Some(self.id),
            is_blob: false,
            equal_only: true,
            read_bytes: 0,
        }
    }
}

/// Pairs directories of equal content. Directories inside a paired one are in no pair.
///
/// Both lists are in the order of a walk from above, and contain the directories inside of their
/// directories. Outer directories are paired first, because their content moves with them.
pub(super) fn pair_dirs<E>(
    gone: &[Dir],
    new: &[Dir],
    may_pair: &mut dyn FnMut(usize, usize) -> Result<bool, E>,
) -> Result<Vec<(usize, usize)>, E> {
    let mut out = Vec::new();
    let (mut left, mut taken) = (HashSet::new(), HashSet::new());
    let mut new_ranks = by_rank(new);
    for (rank, from) in by_rank(gone).into_iter().rev() {
        let from = outside(gone, from, &left);
        let to = outside(new, new_ranks.remove(&rank).unwrap_or_default(), &taken);
        let of_gone: Vec<_> = from.iter().map(|n| gone[*n].candidate()).collect();
        let of_new: Vec<_> = to.iter().map(|n| new[*n].candidate()).collect();
        let pairs = pair_equal(&of_gone, &of_new, &mut |a, b| may_pair(from[a], to[b]))?;
        for (a, b) in pairs {
            left.insert(&gone[from[a]].path);
            taken.insert(&new[to[b]].path);
            out.push((from[a], to[b]));
        }
    }
    Ok(out)
}

/// Returns whether one of `dirs` is above `path`.
pub(super) fn is_inside(path: &RepoPath, dirs: &HashSet<&RepoPath>) -> bool {
    if dirs.is_empty() {
        return false;
    }
    let mut above = path.parent();
    while let Some(dir) = above {
        if dirs.contains(&dir) {
            return true;
        }
        above = dir.parent();
    }
    false
}

/// Returns those of `these` that are in none of `dirs`.
fn outside(list: &[Dir], mut these: Vec<usize>, dirs: &HashSet<&RepoPath>) -> Vec<usize> {
    these.retain(|n| !is_inside(&list[*n].path, dirs));
    these
}

/// Groups directories by rank, the number of others inside of them. Equal directories have equal
/// ranks, and a directory has a higher rank than all inside of it.
fn by_rank(list: &[Dir]) -> BTreeMap<usize, Vec<usize>> {
    let mut out: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut open: Vec<usize> = Vec::new();
    let mut end = |n: usize, next: usize| out.entry(next - n).or_default().push(n);
    for (n, dir) in list.iter().enumerate() {
        while let Some(top) = open.pop_if(|top| !dir.path.starts_with(&list[*top].path)) {
            end(top, n);
        }
        open.push(n);
    }
    for top in open {
        end(top, list.len());
    }
    for these in out.values_mut() {
        these.sort_unstable();
    }
    out
}

//! Bisection: the commits that may be the first bad one, and the one to test next.
//!
//! A commit may be the first bad one if the bad commit descends from it (or is it) and no good
//! commit does. The commit to test is the one that divides these most evenly: about half of them
//! are its ancestors. So it works on any graph, with merges, as in Git.

use super::Walk;
use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead};
use std::collections::{HashMap, HashSet};

/// The commits that may be the first bad one.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// Their ids; no commit comes after its ancestors. The bad commit is the first.
    ids: Vec<ObjectId>,
    /// Of each of them, the parents among them, as positions.
    parents: Vec<Vec<usize>>,
    /// Whether history that is absent here may have further ones.
    pub is_cut_off: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// To test this commit.
    Test {
        /// The commit.
        commit: ObjectId,
        /// How many suspects are left if it is good.
        left: usize,
        /// About how many tests are left after this one, as Git estimates it.
        steps: u32,
    },
    /// Nothing: this is the first bad commit.
    Found(ObjectId),
    /// Nothing: one of these is the first bad commit, and all others of them cannot be tested.
    OnlySkipped(Vec<ObjectId>),
    /// Nothing: a good commit descends from the bad one.
    Contradiction,
}

impl Suspects {
    /// Finds the commits from which `bad` descends and no good commit does.
    pub fn find(
        reader: &dyn ObjectRead,
        bad: &ObjectId,
        good: &[ObjectId],
    ) -> Result<Suspects, ObjectError> {
        let mut walk = Walk::new(reader);
        walk.require(bad)?;
        let mut is_good: HashSet<ObjectId> = HashSet::new();
        for id in good {
            walk.require(id)?;
            is_good.insert(*id);
        }
        // The commits in the queue that are not known to be good.
        let mut open: HashSet<ObjectId> = HashSet::new();
        if !is_good.contains(bad) {
            open.insert(*bad);
        }
        let mut out = Suspects::default();
        let mut found: Vec<(ObjectId, Vec<ObjectId>)> = Vec::new();
        while !open.is_empty()
            && let Some(next) = walk.next()?
        {
            // The walk has seen all its descendants.
            let is_suspect = open.remove(&next.id);
            for parent in &next.commit.parents {
                if !is_suspect {
                    is_good.insert(*parent);
                    open.remove(parent);
                } else if !walk.is_here(parent) {
                    out.is_cut_off = true;
                } else if !is_good.contains(parent) {
                    open.insert(*parent);
                }
            }
            if is_suspect {
                found.push((next.id, next.commit.parents));
            }
        }
        let places: HashMap<ObjectId, usize> = found
            .iter()
            .enumerate()
            .map(|(n, (id, _))| (*id, n))
            .collect();
        for (id, parents) in found {
            let parents = parents.iter().filter_map(|id| places.get(id).copied());
            out.parents.push(parents.collect());
            out.ids.push(id);
        }
        Ok(out)
    }

    /// Returns the number of suspects.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns what to do next. Commits in `skipped` are not tested.
    pub fn next(&self, skipped: &HashSet<ObjectId>) -> Next {
        let all = self.len();
        match &self.ids[..] {
            [] => return Next::Contradiction,
            [only] => return Next::Found(*only),
            _ => {}
        }
        let weights = self.weights();
        let value = |n: &usize| weights[*n].min(all - weights[*n]);
        // The first one is the bad commit. Of equally good ones, the oldest is taken.
        let open = (1..all).filter(|n| !skipped.contains(&self.ids[*n]));
        match open.max_by_key(value) {
            Some(best) => Next::Test {
                commit: self.ids[best],
                left: all - weights[best],
                steps: steps(all),
            },
            None => Next::OnlySkipped(self.ids.clone()),
        }
    }

    /// Returns how many suspects each of them has as ancestors, itself included.
    fn weights(&self) -> Vec<usize> {
        let mut out = vec![0; self.len()];
        if self.parents.iter().all(|parents| parents.len() < 2) {
            for n in (0..self.len()).rev() {
                out[n] = 1 + self.parents[n].first().map_or(0, |parent| out[*parent]);
            }
            return out;
        }
        // The ancestors among 64 commits at a time, as bits.
        let mut seen = vec![0u64; self.len()];
        for block in 0..self.len().div_ceil(64) {
            let first = block * 64;
            // No commit behind the block's end has an ancestor in it.
            for n in (0..self.len().min(first + 64)).rev() {
                let own = match n.checked_sub(first) {
                    Some(bit) => 1 << bit,
                    None => 0,
                };
                let parents = self.parents[n].iter().filter(|n| **n < first + 64);
                seen[n] = parents.fold(own, |bits, parent| bits | seen[*parent]);
                out[n] += seen[n].count_ones() as usize;
            }
        }
        out
    }
}

/// Returns about how many tests are left after the next one among `all` suspects, as Git estimates it.
fn steps(all: usize) -> u32 {
    let Some(n) = all.checked_ilog2().filter(|_| all > 2) else {
        return 0;
    };
    let whole = 1usize << n;
    if whole < 3 * (all - whole) { n } else { n - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{generation_after, put_commit};
    use crate::object::ObjectType;
    use crate::object::mem::MemObjects;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn commit(mem: &MemObjects, n: usize, parents: &[ObjectId]) -> Result<ObjectId, ObjectError> {
        let generation = generation_after(mem, parents)?;
        put_commit(mem, n as i64, parents, generation)
    }

    fn line(mem: &MemObjects, n: usize) -> Result<Vec<ObjectId>, ObjectError> {
        let mut ids: Vec<ObjectId> = Vec::new();
        for at in 0..n {
            let parents: Vec<ObjectId> = ids.last().copied().into_iter().collect();
            ids.push(commit(mem, at, &parents)?);
        }
        Ok(ids)
    }

    #[test]
    fn a_line_is_halved() -> Result<(), ObjectError> {
        let mem = MemObjects::default();
        let ids = line(&mem, 17)?;
        let suspects = Suspects::find(&mem, &ids[16], &[ids[0]])?;
        assert_eq!(suspects.len(), 16);
        let next = suspects.next(&HashSet::new());
        let want = Next::Test {
            commit: ids[8],
            left: 8,
            steps: 3,
        };
        assert_eq!(next, want);
        assert!(!suspects.is_cut_off);
        Ok(())
    }

    #[test]
    fn the_ends_are_found() -> Result<(), ObjectError> {
        let mem = MemObjects::default();
        let ids = line(&mem, 4)?;
        let none = HashSet::new();
        let next = |bad: usize, good: usize, skipped: &HashSet<ObjectId>| {
            Suspects::find(&mem, &ids[bad], &[ids[good]]).map(|found| found.next(skipped))
        };
        assert_eq!(next(2, 1, &none)?, Next::Found(ids[2]));
        assert_eq!(next(1, 2, &none)?, Next::Contradiction);
        assert_eq!(next(1, 1, &none)?, Next::Contradiction);
        let skipped = HashSet::from([ids[1], ids[2]]);
        assert_eq!(
            next(3, 0, &skipped)?,
            Next::OnlySkipped(vec![ids[3], ids[2], ids[1]])
        );
        assert!(mem.remove(ObjectType::Commit, &ids[0]));
        let suspects = Suspects::find(&mem, &ids[3], &[])?;
        assert_eq!((suspects.len(), suspects.is_cut_off), (3, true));
        Ok(())
    }

    proptest! {
        #[test]
        fn suspects_and_weights_are_what_their_definition_says(
            edges in vec(vec(0usize..5, 0..3), 2..150), good in vec(0usize..150, 0..4),
        ) {
            let mem = MemObjects::default();
            let mut ids: Vec<ObjectId> = Vec::new();
            let mut ancestors: Vec<HashSet<usize>> = Vec::new();
            for (n, back) in edges.iter().enumerate() {
                let mut parents: Vec<usize> = back.iter().filter_map(|b| n.checked_sub(b + 1)).collect();
                parents.dedup();
                parents.sort();
                parents.dedup();
                let parent_ids: Vec<ObjectId> = parents.iter().map(|n| ids[*n]).collect();
                ids.push(commit(&mem, n, &parent_ids)?);
                let mut own: HashSet<usize> = parents.iter().flat_map(|n| ancestors[*n].clone()).collect();
                own.insert(n);
                ancestors.push(own);
            }
            let bad = ids.len() - 1;
            let good: Vec<usize> = good.iter().map(|n| n % ids.len()).collect();
            let good_ids: Vec<ObjectId> = good.iter().map(|n| ids[*n]).collect();
            let known: HashSet<usize> = good.iter().flat_map(|n| ancestors[*n].clone()).collect();
            let want: HashSet<usize> = ancestors[bad].difference(&known).copied().collect();
            let found = Suspects::find(&mem, &ids[bad], &good_ids)?;
            let places: Vec<usize> = found.ids.iter().filter_map(|id| ids.iter().position(|i| i == id)).collect();
            prop_assert_eq!(places.iter().copied().collect::<HashSet<_>>(), want.clone());
            prop_assert_eq!(places.len(), want.len());
            for (n, weight) in places.iter().zip(found.weights()) {
                prop_assert_eq!(ancestors[*n].intersection(&want).count(), weight);
            }
        }
    }
}

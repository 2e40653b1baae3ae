//! A set of ids that a walk has met, in bounded memory.

use crate::hash::ObjectId;
use crate::memory::Budget;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// Ids in one half that need no share of the budget.
const LEAST: usize = 7 << 11;
/// How many of eight slots a hash set uses at most.
const USED_OF_EIGHT: usize = 7;
/// Bytes of a slot: a mark and the set's own data.
const PLACE_BYTES: usize = 17;

/// The ids met, at least the latest ones. A forgotten id is visited again, which only costs time.
///
/// All walks of a process share one memory budget. When it is used up, they forget sooner.
///
/// Of each id it stores a mark: 16 bytes, hashed with random keys. So the author of objects cannot
/// choose two with the same mark, and by chance this practically never happens.
pub struct VisitedIds {
    /// Most ids in one half of the memory.
    half: usize,
    budget: Budget,
    /// Ids that `recent` may hold before it takes more of the budget. `older_limit` is the same for
    /// `older`.
    limit: usize,
    older_limit: usize,
    keys: [RandomState; 2],
    recent: Marks,
    older: Marks,
}

type Marks = HashSet<u128, BuildHasherDefault<AsItIs>>;

/// A hasher that returns a mark unchanged, because marks are random already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, mark: u128) {
        self.0 = mark as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl VisitedIds {
    /// Returns a set that remembers at least the latest `half` ids while the budget allows it.
    ///
    /// `half` should be 7/8 of a power of two: this fills the memory of a hash set, which then
    /// takes 20 bytes per id.
    pub fn new(half: usize) -> VisitedIds {
        VisitedIds::within(half, Budget::for_marks())
    }

    fn within(half: usize, budget: Budget) -> VisitedIds {
        VisitedIds {
            half,
            budget,
            limit: half.min(LEAST),
            older_limit: 0,
            keys: Default::default(),
            recent: Marks::default(),
            older: Marks::default(),
        }
    }

    fn mark(&self, id: &ObjectId) -> u128 {
        let [a, b] = &self.keys;
        u128::from(a.hash_one(id)) << 64 | u128::from(b.hash_one(id))
    }

    fn has(&self, mark: u128) -> bool {
        self.recent.contains(&mark) || self.older.contains(&mark)
    }

    /// Returns whether `id` has been met and not been forgotten.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.has(self.mark(id))
    }

    /// Adds `id`. Returns whether it was unknown.
    pub fn insert(&mut self, id: ObjectId) -> bool {
        let mark = self.mark(&id);
        if self.has(mark) {
            return false;
        }
        if self.recent.len() >= self.limit && !self.grows() {
            self.budget.give_back(room_of(self.older_limit));
            self.older = std::mem::take(&mut self.recent);
            self.older_limit = self.limit;
            self.limit = self.half.min(LEAST);
        }
        self.recent.insert(mark)
    }

    /// Takes memory from the budget for twice as many recent ids, if `half` allows them and as much
    /// remains for others. Returns whether it did.
    fn grows(&mut self) -> bool {
        let next = (2 * self.limit).min(self.half);
        let more = room_of(next) - room_of(self.limit);
        let grows = next > self.limit && 2 * more <= self.budget.left() && self.budget.take(more);
        if grows {
            self.limit = next;
        }
        grows
    }
}

impl Drop for VisitedIds {
    fn drop(&mut self) {
        let taken = room_of(self.limit) + room_of(self.older_limit);
        self.budget.give_back(taken);
    }
}

/// Returns the bytes of the budget for this number of ids.
fn room_of(ids: usize) -> usize {
    if ids > LEAST {
        ids / USED_OF_EIGHT * 8 * PLACE_BYTES
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> ObjectId {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        ObjectId::from_bytes(bytes)
    }

    #[test]
    fn the_latest_half_is_remembered_and_memory_ends() {
        let half = 7 << 7;
        let mut seen = VisitedIds::new(half);
        for n in 0..10 * half as u32 {
            assert!(seen.insert(id(n)), "{n} is new");
            assert!(!seen.insert(id(n)), "{n} is known");
            let oldest = n.saturating_sub(half as u32 - 1);
            assert!(seen.contains(&id(oldest)), "{oldest} at {n}");
        }
        assert!(!seen.contains(&id(0)), "it was long ago");
        assert_eq!(seen.recent.capacity(), half, "no larger than it has to be");
        assert_eq!(seen.older.capacity(), half);
    }

    #[test]
    fn walks_share_a_room_and_forget_sooner_where_it_is_full() {
        let (half, all) = (4 * LEAST, 2 * room_of(4 * LEAST));
        let budget = Budget::of(all);
        let remembered = |seen: &mut VisitedIds| {
            let met = 10 * half as u32;
            assert!((0..met).all(|n| seen.insert(id(n))));
            (0..met).filter(|n| seen.contains(&id(*n))).count()
        };
        let mut first = VisitedIds::within(half, budget.clone());
        assert!(remembered(&mut first) >= half);
        assert!(first.older.capacity() <= half);
        let taken = budget.left();
        assert!(budget.take(taken), "now it is full");
        let mut second = VisitedIds::within(half, budget.clone());
        let left = remembered(&mut second);
        assert!((LEAST..=2 * LEAST).contains(&left), "{left} are remembered");
        budget.give_back(taken);
        drop((first, second));
        assert_eq!(budget.left(), all, "nothing of it is kept");
    }

    #[test]
    fn a_walk_takes_no_more_room_than_it_leaves_to_others() {
        let step = room_of(2 * LEAST);
        for (all, grows) in [(2 * step - 1, false), (2 * step, true)] {
            let budget = Budget::of(all);
            let mut seen = VisitedIds::within(2 * LEAST, budget.clone());
            assert!((0..=LEAST as u32).all(|n| seen.insert(id(n))));
            let left = if grows { all - step } else { all };
            assert_eq!(budget.left(), left);
        }
    }
}

//! What a walk has met, in bounded memory.

use crate::hash::ObjectId;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// Ids met, the latest of them at least. What was forgotten is visited again, at a cost in time.
///
/// Of each it keeps 16 bytes that a key of its own makes, not the 32 of the id: whoever makes objects
/// cannot choose two that are taken for one, and by chance it does not happen.
pub struct Seen {
    /// Ids in one half of the memory.
    half: usize,
    keys: [RandomState; 2],
    recent: Marks,
    older: Marks,
}

type Marks = HashSet<u128, BuildHasherDefault<AsItIs>>;

/// A mark is as good as random already.
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

impl Seen {
    /// Remembers at least the latest `half` ids. 7/8 of a power of two fill the memory of a set, which
    /// then takes 20 bytes for each.
    pub fn new(half: usize) -> Seen {
        Seen {
            half,
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

    /// Whether `id` has been met and not been forgotten.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.has(self.mark(id))
    }

    /// Notes `id`; whether it was not known.
    pub fn insert(&mut self, id: ObjectId) -> bool {
        let mark = self.mark(&id);
        if self.has(mark) {
            return false;
        }
        if self.recent.len() >= self.half {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(mark)
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
        let mut seen = Seen::new(half);
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
}

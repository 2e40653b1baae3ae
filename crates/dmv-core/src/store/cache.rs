//! A cache of recently read frames and frame tables.
//!
//! Frames have a few hundred bytes to 2 MiB, so the same memory fits thousands of them or a
//! handful. Every step takes at most logarithmic time.

use super::random_id::PackId;
use crate::memory::Budget;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RecordKey {
    pub pack: PackId,
    pub offset: u64,
}

/// A cache of values of records that drops the least recently used ones first.
pub(super) struct Cache<V>(Mutex<Lru<V>>);

struct Lru<V> {
    values: HashMap<RecordKey, CachedValue<V>>,
    /// Keys by the time of their last use.
    uses: BTreeMap<u64, RecordKey>,
    clock: u64,
    room: usize,
    /// A further budget that the values also count against, if other caches share it.
    shared: Option<Budget>,
}

struct CachedValue<V> {
    value: Arc<V>,
    size: usize,
    /// Bytes that it takes from the shared budget.
    of_shared: usize,
    used: u64,
}

impl<V> Cache<V> {
    /// Returns a cache for values of `room` bytes together, or for one larger value.
    pub(super) fn new(room: usize) -> Cache<V> {
        Cache::with(room, None)
    }

    /// Like [`new`](Self::new), but the values also count against the budget `shared`, except for a
    /// single one.
    pub(super) fn sharing(room: usize, shared: Budget) -> Cache<V> {
        Cache::with(room, Some(shared))
    }

    fn with(room: usize, shared: Option<Budget>) -> Cache<V> {
        Cache(Mutex::new(Lru {
            values: HashMap::new(),
            uses: BTreeMap::new(),
            clock: 0,
            room,
            shared,
        }))
    }

    /// Returns the value of `key`, if it is still cached.
    pub(super) fn get(&self, key: RecordKey) -> Option<Arc<V>> {
        let mut lru = self.lock();
        let now = lru.tick();
        let kept = lru.values.get_mut(&key)?;
        let before = std::mem::replace(&mut kept.used, now);
        let value = kept.value.clone();
        lru.uses.remove(&before);
        lru.uses.insert(now, key);
        Some(value)
    }

    /// Caches a value that takes `size` bytes.
    pub(super) fn keep(&self, key: RecordKey, value: &Arc<V>, size: usize) {
        let mut lru = self.lock();
        lru.forget(key);
        let mut has_room = lru.take(size);
        while !has_room && let Some((_, oldest)) = lru.uses.pop_first() {
            lru.forget(oldest);
            has_room = lru.take(size);
        }
        let (mut size, mut of_shared) = (size, size);
        if !has_room {
            // The only value is kept without a share of the budget, and counts as no more than the
            // room.
            (size, of_shared) = (size.min(lru.room), 0);
            lru.room -= size;
        }
        let used = lru.tick();
        let kept = CachedValue {
            value: value.clone(),
            size,
            of_shared,
            used,
        };
        lru.values.insert(key, kept);
        lru.uses.insert(used, key);
    }

    /// Forgets the values of some packs.
    pub(super) fn forget_packs(&self, packs: &HashSet<PackId>) {
        let mut lru = self.lock();
        let keys = lru.values.keys().filter(|key| packs.contains(&key.pack));
        for key in keys.copied().collect::<Vec<RecordKey>>() {
            lru.forget(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lru<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Lru<V> {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes room for a value. Returns `false` if there is too little.
    fn take(&mut self, size: usize) -> bool {
        let is_there = self.room >= size && self.shared.as_ref().is_none_or(|s| s.take(size));
        if is_there {
            self.room -= size;
        }
        is_there
    }

    fn forget(&mut self, key: RecordKey) {
        if let Some(kept) = self.values.remove(&key) {
            self.uses.remove(&kept.used);
            self.room += kept.size;
            self.give_back(kept.of_shared);
        }
    }

    fn give_back(&self, bytes: usize) {
        if let Some(shared) = &self.shared {
            shared.give_back(bytes);
        }
    }
}

impl<V> Drop for Lru<V> {
    fn drop(&mut self) {
        self.give_back(self.values.values().map(|kept| kept.of_shared).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> RecordKey {
        let pack = PackId::from_bytes([0; 16]);
        RecordKey { pack, offset: n }
    }

    /// Returns which of the first keys are cached. Asks for the oldest first, so that the order
    /// stays.
    fn kept(cache: &Cache<u64>) -> Vec<u64> {
        let mut uses: Vec<(u64, u64)> = Vec::new();
        for (at, value) in &cache.lock().values {
            assert_eq!(at.offset, *value.value);
            uses.push((value.used, at.offset));
        }
        uses.sort_unstable();
        uses.into_iter().map(|(_, n)| n).collect()
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let cache = Cache::new(10);
        for n in 0..5 {
            cache.keep(key(n), &Arc::new(n), 2);
        }
        assert_eq!(cache.get(key(0)).as_deref(), Some(&0));
        assert_eq!(cache.get(key(9)), None);
        cache.keep(key(5), &Arc::new(5), 3);
        assert_eq!(kept(&cache), [3, 4, 0, 5]);
        cache.keep(key(4), &Arc::new(4), 1);
        assert_eq!(kept(&cache), [3, 0, 5, 4], "kept anew, not twice");
        cache.keep(key(6), &Arc::new(6), 100);
        assert_eq!(kept(&cache), [6], "larger than the room");
        cache.keep(key(7), &Arc::new(7), 1);
        cache.keep(key(8), &Arc::new(8), 10);
        assert_eq!(kept(&cache), [8]);
        assert_eq!(cache.lock().uses.len(), 1);
    }

    #[test]
    fn caches_share_a_room_and_each_may_keep_one_value_beyond_it() {
        let shared = Budget::of(6);
        let cache = || Cache::sharing(10, shared.clone());
        let (first, second) = (cache(), cache());
        for n in 0..3 {
            first.keep(key(n), &Arc::new(n), 2);
        }
        second.keep(key(3), &Arc::new(3), 2);
        assert_eq!((kept(&first), kept(&second)), (vec![0, 1, 2], vec![3]));
        second.keep(key(4), &Arc::new(4), 2);
        assert_eq!(kept(&second), [4], "there is room for one alone");
        first.keep(key(5), &Arc::new(5), 4);
        assert_eq!(
            kept(&first),
            [2, 5],
            "room of its own is made, not another's"
        );
        drop(first);
        second.keep(key(6), &Arc::new(6), 6);
        assert_eq!(kept(&second), [4, 6], "what is gone gives room back");
        drop(second);
        assert!(shared.take(6) && !shared.take(1));
    }
}

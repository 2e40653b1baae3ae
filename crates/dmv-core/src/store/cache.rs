//! What was read last and may be read again: frames and their tables.
//!
//! Frames are from a few hundred bytes to 2 MiB, so thousands of them or a handful fit the same
//! memory. Every step takes logarithmic time at most.

use super::layout::FileId;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A record: its pack and offset.
pub(super) type Key = (FileId, u64);

/// Values of records, of which those used longest ago go first.
pub(super) struct Cache<V>(Mutex<Lru<V>>);

struct Lru<V> {
    values: HashMap<Key, Kept<V>>,
    /// Keys by the time of their last use.
    uses: BTreeMap<u64, Key>,
    clock: u64,
    room: usize,
}

struct Kept<V> {
    value: Arc<V>,
    size: usize,
    used: u64,
}

impl<V> Cache<V> {
    /// A cache for values of `room` bytes together, or one value that is larger.
    pub(super) fn new(room: usize) -> Cache<V> {
        Cache(Mutex::new(Lru {
            values: HashMap::new(),
            uses: BTreeMap::new(),
            clock: 0,
            room,
        }))
    }

    /// The value of `key`, if it is still here.
    pub(super) fn get(&self, key: Key) -> Option<Arc<V>> {
        let mut lru = self.lock();
        let now = lru.tick();
        let kept = lru.values.get_mut(&key)?;
        let before = std::mem::replace(&mut kept.used, now);
        let value = kept.value.clone();
        lru.uses.remove(&before);
        lru.uses.insert(now, key);
        Some(value)
    }

    /// Keeps a value that takes `size` bytes.
    pub(super) fn keep(&self, key: Key, value: &Arc<V>, size: usize) {
        let mut lru = self.lock();
        lru.forget(key);
        while lru.room < size
            && let Some((_, oldest)) = lru.uses.pop_first()
        {
            lru.forget(oldest);
        }
        let used = lru.tick();
        let value = value.clone();
        // A value larger than all the room is kept alone, at no more than its size.
        let size = size.min(lru.room);
        lru.room -= size;
        lru.values.insert(key, Kept { value, size, used });
        lru.uses.insert(used, key);
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

    fn forget(&mut self, key: Key) {
        if let Some(kept) = self.values.remove(&key) {
            self.uses.remove(&kept.used);
            self.room += kept.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> Key {
        (FileId([0; 16]), n)
    }

    /// Which of the first keys are kept. Looks at the oldest first, so that the order stays.
    fn kept(cache: &Cache<u64>) -> Vec<u64> {
        let mut uses: Vec<(u64, u64)> = Vec::new();
        for (at, value) in &cache.lock().values {
            assert_eq!(at.1, *value.value);
            uses.push((value.used, at.1));
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
}

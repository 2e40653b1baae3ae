//! What a walk has met, in bounded memory.

use crate::hash::ObjectId;
use std::collections::HashSet;

/// Ids met, the latest of them at least. What was forgotten is visited again, at a cost in time.
pub struct Seen {
    /// Ids in one half of the memory, each some 40 bytes.
    half: usize,
    recent: HashSet<ObjectId>,
    older: HashSet<ObjectId>,
}

impl Seen {
    /// Remembers at least the latest `half` ids.
    pub fn new(half: usize) -> Seen {
        Seen {
            half,
            recent: HashSet::new(),
            older: HashSet::new(),
        }
    }

    /// Whether `id` has been met and not been forgotten.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.recent.contains(id) || self.older.contains(id)
    }

    /// Notes `id`; whether it was not known.
    pub fn insert(&mut self, id: ObjectId) -> bool {
        if self.contains(&id) {
            return false;
        }
        if self.recent.len() >= self.half {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(id)
    }
}

//! What a walk has met, in bounded memory.

use crate::hash::ObjectId;
use std::collections::HashSet;

/// Ids in one half of the memory, some 20 MB.
const HALF: usize = 512 << 10;

/// Ids met, the latest of them at least. What was forgotten is visited again, at a cost in time.
#[derive(Default)]
pub struct Seen {
    recent: HashSet<ObjectId>,
    older: HashSet<ObjectId>,
}

impl Seen {
    /// Whether `id` has been met and not been forgotten.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.recent.contains(id) || self.older.contains(id)
    }

    /// Notes `id`; whether it was not known.
    pub fn insert(&mut self, id: ObjectId) -> bool {
        if self.contains(&id) {
            return false;
        }
        if self.recent.len() >= HALF {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(id)
    }
}

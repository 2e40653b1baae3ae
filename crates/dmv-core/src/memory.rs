//! Memory budgets that everything in a process shares, one for each purpose.
//!
//! A process that serves many peers has a session for each of them, and a clone has three stores.
//! What they remember only to be faster, and the data they have in transit, is counted against
//! these budgets. The module counts bytes and allocates nothing itself. `store` and `reach` use it,
//! and the sessions of `dmv-net`.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, LazyLock};

/// Budget for index tables in memory: those of two full segments and a few smaller ones.
const TABLES_BYTES: usize = 32 << 20;
/// Budget for the filters of writers: the ids of some twenty million objects.
const FILTERS_BYTES: usize = 40 << 20;
/// Budget for decoded frames: enough for one store with full caches, and for another that reads no
/// frames with bases.
const FRAMES_BYTES: usize = 72 << 20;
/// Budget for frames between sessions and their peers: nearly one frame for each of fifty peers.
const TRANSIT_BYTES: usize = 48 << 20;
/// Budget for the ids that walks remember: enough for one walk at its own limit and half of
/// another.
const MARKS_BYTES: usize = 32 << 20;
/// Budget for objects that wait until the rest of their frame is requested: enough for one sender
/// at its own limit, and some more.
const WAITING_BYTES: usize = 24 << 20;

/// Budget for objects that are looked up together: enough for one walk at its own limit, which is 32
/// MiB.
const LOOK_UPS_BYTES: usize = (MAX_LOOK_UPS - FIRST_LOOK_UPS) * LOOK_UP_BYTES;
/// How many objects are looked up together at first. This needs no share of the budget.
const FIRST_LOOK_UPS: usize = 1 << 10;
/// How many objects are looked up together at most. More would save little time.
pub(crate) const MAX_LOOK_UPS: usize = 256 << 10;
/// Memory that each of them takes.
const LOOK_UP_BYTES: usize = 128;

/// A budget in bytes, shared by its clones.
#[derive(Clone)]
pub struct Budget(Option<Arc<AtomicIsize>>);

impl Budget {
    /// Returns the budget for index tables of all stores of this process.
    pub(crate) fn for_tables() -> Budget {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(TABLES_BYTES));
        OF_PROCESS.clone()
    }

    /// Returns the budget for the filters of writers in all stores of this process.
    pub(crate) fn for_filters() -> Budget {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(FILTERS_BYTES));
        OF_PROCESS.clone()
    }

    /// Returns the budget for decoded frames of all stores of this process.
    pub(crate) fn for_frames() -> Budget {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(FRAMES_BYTES));
        OF_PROCESS.clone()
    }

    /// Returns the budget for frames in transit on all connections of this process.
    pub fn for_transit() -> Budget {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(TRANSIT_BYTES));
        OF_PROCESS.clone()
    }

    /// Returns the budget for the ids that all walks of this process remember.
    pub(crate) fn for_marks() -> Budget {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(MARKS_BYTES));
        OF_PROCESS.clone()
    }

    /// Returns the budget for objects that wait in all senders of this process.
    pub(crate) fn for_waiting() -> Budget {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(WAITING_BYTES));
        OF_PROCESS.clone()
    }

    /// Returns an empty budget, for callers that keep nothing: every [`take`](Self::take) fails.
    pub const fn none() -> Budget {
        Budget(None)
    }

    /// Returns whether this is the budget made by [`none`](Self::none).
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns a new budget of `bytes` bytes.
    pub fn of(bytes: usize) -> Budget {
        Budget(Some(Arc::new(AtomicIsize::new(signed(bytes)))))
    }

    /// Takes `bytes` from the budget. Returns `false` and takes nothing if less is left.
    pub fn take(&self, bytes: usize) -> bool {
        let order = Ordering::Relaxed;
        self.0.as_ref().is_some_and(|budget| {
            let left = |n: isize| n.checked_sub(signed(bytes)).filter(|left| *left >= 0);
            budget.fetch_update(order, order, left).is_ok()
        })
    }

    /// Takes `bytes` from the budget even if less is left.
    pub fn overdraw(&self, bytes: usize) {
        if let Some(budget) = &self.0 {
            budget.fetch_sub(signed(bytes), Ordering::Relaxed);
        }
    }

    /// Gives back `bytes` that were taken.
    pub fn give_back(&self, bytes: usize) {
        if let Some(budget) = &self.0 {
            budget.fetch_add(signed(bytes), Ordering::Relaxed);
        }
    }

    /// Returns how many bytes are left.
    pub fn left(&self) -> usize {
        let left = self
            .0
            .as_ref()
            .map_or(0, |budget| budget.load(Ordering::Relaxed));
        usize::try_from(left).unwrap_or(0)
    }
}

/// How many objects a walk looks up together.
///
/// It doubles each time, so a small walk gets its first answers soon. All walks of a process share one
/// memory budget. When it is used up, they look up fewer objects at a time.
pub(crate) struct LookUps {
    size: usize,
    budget: Budget,
}

impl Default for LookUps {
    fn default() -> LookUps {
        static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::of(LOOK_UPS_BYTES));
        LookUps::within(OF_PROCESS.clone())
    }
}

impl LookUps {
    fn within(budget: Budget) -> LookUps {
        let size = FIRST_LOOK_UPS;
        LookUps { size, budget }
    }

    /// Returns how many objects to look up together next.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Doubles the size, if it and the budget allow it.
    pub fn grow(&mut self) {
        if self.size < MAX_LOOK_UPS && self.budget.take(self.size * LOOK_UP_BYTES) {
            self.size *= 2;
        }
    }

    /// Begins anew, once a walk is over.
    pub fn shrink(&mut self) {
        let taken = (self.size - FIRST_LOOK_UPS) * LOOK_UP_BYTES;
        self.budget.give_back(taken);
        self.size = FIRST_LOOK_UPS;
    }
}

impl Drop for LookUps {
    fn drop(&mut self) {
        self.shrink();
    }
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).expect("nothing takes half of the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_share_the_memory_for_look_ups_and_give_it_back() {
        let budget = Budget::of(LOOK_UPS_BYTES);
        let mut first = LookUps::within(budget.clone());
        let mut second = LookUps::within(budget.clone());
        for _ in 0..20 {
            first.grow();
        }
        assert_eq!(first.size(), MAX_LOOK_UPS);
        second.grow();
        assert_eq!(second.size(), FIRST_LOOK_UPS, "there is no room for it");
        first.shrink();
        assert_eq!(first.size(), FIRST_LOOK_UPS);
        second.grow();
        assert_eq!(second.size(), 2 * FIRST_LOOK_UPS);
        drop((first, second));
        assert_eq!(budget.left(), LOOK_UPS_BYTES);
    }

    #[test]
    fn what_is_overdrawn_has_to_be_given_back_before_anything_is_left() {
        let budget = Budget::of(10);
        assert!(budget.take(6) && !budget.take(5));
        assert_eq!(budget.left(), 4);
        budget.overdraw(7);
        assert_eq!(budget.left(), 0);
        assert!(!budget.take(1));
        budget.give_back(6);
        assert_eq!(budget.left(), 3);
        assert!(budget.take(3) && !Budget::none().take(0));
    }
}

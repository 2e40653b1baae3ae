//! A short queue between two threads, bounded by items and by bytes. The thread that adds an item
//! waits for room.
//!
//! All queues of a process share one memory budget. When it runs low, a queue gets at most as much
//! as is left for others. So many queues end up with equal shares, whichever was first. Each queue
//! may always use a small amount, so that no queue waits for another.

use dmv_core::memory::Budget;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The maximum number of frames in a queue. This is more than a receiver's open requests. So a busy
/// sender never keeps its receiver from sending a request, and the two never wait for each other.
const MAX_ITEMS: usize = 16;
/// The maximum number of bytes in a queue or held, unless there is only one item. This is how much
/// memory one peer can use in each direction.
///
/// QUIC holds frames until the other side acknowledges them. Two or three frames of 1 MiB fill its
/// window, and the same number is prepared meanwhile.
const MAX_BYTES: usize = 6 << 20;
/// The bytes that a queue may use even if the shared budget is used up. They are enough for the
/// requests that may be open at once and for a frame of the usual size.
const OWN_BYTES: usize = 5 << 18;

/// The end that adds items. When it is dropped, the other end first takes the remaining items.
pub struct Giver<T>(Arc<SharedQueue<T>>);

/// The end that takes items.
pub struct Taker<T>(Arc<SharedQueue<T>>);

/// Why an item was not added.
pub enum QueueRefusal<T> {
    /// There is no room yet. The item comes back.
    Full(T),
    /// The taking end is gone.
    Gone,
}

/// Why there is no item to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoItem {
    /// No item has arrived yet.
    Yet,
    /// No item will arrive any more.
    Ever,
}

/// The bytes of an item that was taken but still needs its memory. They count until this is
/// dropped.
pub struct HeldBytes<T>(Arc<SharedQueue<T>>, usize);

struct SharedQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    budget: Budget,
}

struct State<T> {
    items: VecDeque<(T, usize)>,
    /// The bytes of items in the queue, of held items, and of the reservation.
    bytes: usize,
    /// The bytes that are reserved for the next item.
    awaited: usize,
    is_given: bool,
    is_taken: bool,
}

/// Makes both ends of a queue that uses the process's budget for data in transit.
pub fn queue<T>() -> (Giver<T>, Taker<T>) {
    queue_in(Budget::for_transit())
}

fn queue_in<T>(budget: Budget) -> (Giver<T>, Taker<T>) {
    let shared = Arc::new(SharedQueue {
        state: Mutex::new(State {
            items: VecDeque::new(),
            bytes: 0,
            awaited: 0,
            is_given: true,
            is_taken: true,
        }),
        changed: Condvar::new(),
        budget,
    });
    (Giver(shared.clone()), Taker(shared))
}

impl<T> State<T> {
    /// Returns whether an item of `bytes` may be added in place of the reservation, when `left`
    /// bytes of the shared budget are free.
    fn fits(&self, bytes: usize, left: usize) -> bool {
        let (all, left) = (self.bytes - self.awaited + bytes, left + self.awaited);
        self.items.is_empty() && self.bytes == self.awaited
            || self.items.len() < MAX_ITEMS && all <= MAX_BYTES.min(left.max(OWN_BYTES))
    }
}

impl<T> SharedQueue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reserves `bytes` for an item, in place of the former reservation.
    fn awaits(&self, state: &mut State<T>, bytes: usize) {
        self.budget.overdraw(bytes);
        self.budget.give_back(state.awaited);
        state.bytes = state.bytes - state.awaited + bytes;
        state.awaited = bytes;
    }

    fn give_back(&self, bytes: usize) {
        self.budget.give_back(bytes);
        self.lock().bytes -= bytes;
        self.changed.notify_all();
    }

    /// Waits for a change until `end`. Returns `None` if the time is up.
    fn wait<'g>(
        &self,
        state: MutexGuard<'g, State<T>>,
        end: Instant,
    ) -> Option<MutexGuard<'g, State<T>>> {
        let left = end.checked_duration_since(Instant::now())?;
        let waited = self.changed.wait_timeout(state, left);
        let (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        Some(state)
    }
}

impl<T> Giver<T> {
    /// Adds an item of `bytes`. Waits for room, at most `wait`.
    pub fn give(&self, item: T, bytes: usize, wait: Duration) -> Result<(), QueueRefusal<T>> {
        match self.until_it_fits(bytes, wait) {
            Ok(state) => {
                self.put(state, item, bytes);
                Ok(())
            }
            Err(QueueRefusal::Full(())) => Err(QueueRefusal::Full(item)),
            Err(QueueRefusal::Gone) => Err(QueueRefusal::Gone),
        }
    }

    /// Adds a small item even if there is no room: the last one, from which the other side learns
    /// why no more follow.
    pub fn give_last(&self, item: T, bytes: usize) {
        let state = self.0.lock();
        if state.is_taken {
            self.put(state, item, bytes);
        }
    }

    fn put(&self, mut state: MutexGuard<'_, State<T>>, item: T, bytes: usize) {
        self.0.awaits(&mut state, bytes);
        state.awaited = 0;
        state.items.push_back((item, bytes));
        self.0.changed.notify_all();
    }

    /// Waits until there is room for `bytes`, at most `wait`, and reserves it for the next item.
    pub fn wait(&self, bytes: usize, wait: Duration) -> Result<(), QueueRefusal<()>> {
        let mut state = self.until_it_fits(bytes, wait)?;
        self.0.awaits(&mut state, bytes);
        Ok(())
    }

    fn until_it_fits(
        &self,
        bytes: usize,
        wait: Duration,
    ) -> Result<MutexGuard<'_, State<T>>, QueueRefusal<()>> {
        let end = Instant::now() + wait;
        let mut state = self.0.lock();
        loop {
            if !state.is_taken {
                return Err(QueueRefusal::Gone);
            }
            if state.fits(bytes, self.0.budget.left()) {
                return Ok(state);
            }
            state = self.0.wait(state, end).ok_or(QueueRefusal::Full(()))?;
        }
    }

    /// Adds an item and waits for room without a limit. Returns `false` if the taking end is gone.
    pub fn give_patiently(&self, mut item: T, bytes: usize) -> bool {
        loop {
            match self.give(item, bytes, Duration::from_secs(60)) {
                Ok(()) => return true,
                Err(QueueRefusal::Gone) => return false,
                Err(QueueRefusal::Full(back)) => item = back,
            }
        }
    }
}

impl<T> Taker<T> {
    /// Takes the oldest item. Waits for one, at most `wait`.
    pub fn take(&self, wait: Duration) -> Result<T, NoItem> {
        self.take_held(wait).map(|(item, _)| item)
    }

    /// Takes the oldest item if its memory is needed longer: its bytes count until [`HeldBytes`] is
    /// dropped.
    pub fn take_held(&self, wait: Duration) -> Result<(T, HeldBytes<T>), NoItem> {
        let end = Instant::now() + wait;
        let mut state = self.0.lock();
        loop {
            if let Some((item, bytes)) = state.items.pop_front() {
                drop(state);
                return Ok((item, HeldBytes(self.0.clone(), bytes)));
            }
            if !state.is_given {
                return Err(NoItem::Ever);
            }
            state = self.0.wait(state, end).ok_or(NoItem::Yet)?;
        }
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_given = false;
        self.0.awaits(&mut state, 0);
        drop(state);
        self.0.changed.notify_all();
    }
}

impl<T> Drop for HeldBytes<T> {
    fn drop(&mut self) {
        self.0.give_back(self.1);
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_taken = false;
        // No thread will take the remaining items.
        let items = std::mem::take(&mut state.items);
        let bytes = items.iter().map(|(_, bytes)| bytes).sum();
        state.bytes -= bytes;
        drop(state);
        self.0.budget.give_back(bytes);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    fn is_full<T>(given: Result<(), QueueRefusal<T>>) -> bool {
        matches!(given, Err(QueueRefusal::Full(_)))
    }

    #[test]
    fn a_queue_is_full_by_number_or_by_bytes_and_takes_a_single_large_item() {
        let (give, take) = queue_in(Budget::of(2 * MAX_BYTES));
        for n in 0..MAX_ITEMS {
            assert!(give.give(n, 1, AT_ONCE).is_ok());
        }
        assert!(is_full(give.give(0, 1, AT_ONCE)));
        assert_eq!(take.take(AT_ONCE), Ok(0));
        assert!(is_full(give.give(0, MAX_BYTES, AT_ONCE)));
        assert!(give.give(16, MAX_BYTES - 15, AT_ONCE).is_ok());
        assert!(is_full(give.give(17, 1, AT_ONCE)));
        for n in 1..=MAX_ITEMS {
            assert_eq!(take.take(AT_ONCE), Ok(n));
        }
        assert_eq!(take.take(AT_ONCE), Err(NoItem::Yet));
        assert!(give.give(0, 2 * MAX_BYTES, AT_ONCE).is_ok());
        assert!(is_full(give.give(0, 0, AT_ONCE)));
    }

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let budget = Budget::of(MAX_BYTES);
        let (give, take) = queue_in(budget.clone());
        assert!(give.give(0, MAX_BYTES, AT_ONCE).is_ok());
        let held = take.take_held(AT_ONCE);
        assert!(is_full(give.give(1, 1, AT_ONCE)) && give.wait(1, AT_ONCE).is_err());
        assert_eq!(budget.left(), 0);
        drop(held);
        assert!(give.wait(MAX_BYTES, AT_ONCE).is_ok());
        assert_eq!(budget.left(), 0, "it is kept for what comes next");
        assert!(give.wait(1, AT_ONCE).is_ok());
        assert_eq!(budget.left(), MAX_BYTES - 1);
        assert!(give.give(1, 2, AT_ONCE).is_ok());
        assert_eq!(budget.left(), MAX_BYTES - 2);
        assert!(give.wait(1, AT_ONCE).is_ok() && take.take(AT_ONCE).is_ok());
        drop(give);
        assert_eq!(budget.left(), MAX_BYTES, "nothing more is awaited");
        let (give, take) = queue_in(budget.clone());
        assert_eq!(budget.left(), MAX_BYTES);
        assert!(give.give(1, MAX_BYTES, AT_ONCE).is_ok());
        drop(take);
        assert_eq!(budget.left(), MAX_BYTES, "nobody will take it");
    }

    #[test]
    fn a_queue_leaves_room_for_others_and_always_takes_a_little() {
        const MIB: usize = 1 << 20;
        let budget = Budget::of(8 * MIB);
        let queues: Vec<_> = (0..20).map(|_| queue_in(budget.clone())).collect();
        let fill = |(give, _): &(Giver<()>, Taker<()>)| {
            let given = || give.give((), MIB, AT_ONCE).is_ok();
            (0..MAX_ITEMS).take_while(|_| given()).count()
        };
        assert_eq!(fill(&queues[0]), 4, "half of it");
        assert_eq!(fill(&queues[1]), 2, "and half of the rest");
        for late in &queues[2..] {
            assert!(fill(late) >= 1);
            assert!(!is_full(late.0.give((), OWN_BYTES - MIB, AT_ONCE)));
            assert!(is_full(late.0.give((), 1, AT_ONCE)));
        }
        // The queue that was first gets no more than the others when it continues.
        for _ in 0..4 {
            assert_eq!(queues[0].1.take(AT_ONCE), Ok(()));
        }
        assert_eq!(fill(&queues[0]), 1);
        drop(queues);
        assert_eq!(budget.left(), 8 * MIB);
    }

    #[test]
    fn the_last_item_goes_in_also_where_there_is_no_room() {
        let (give, take) = queue();
        assert!(give.give(1, 64 << 20, AT_ONCE).is_ok());
        assert!(is_full(give.give(2, 1, AT_ONCE)));
        give.give_last(3, 1);
        drop(give);
        assert_eq!((take.take(AT_ONCE), take.take(AT_ONCE)), (Ok(1), Ok(3)));
        assert_eq!(take.take(AT_ONCE), Err(NoItem::Ever));
    }

    #[test]
    fn what_was_put_in_can_be_taken_when_the_giver_is_gone_and_not_the_other_way() {
        let (give, take) = queue();
        assert!(give.give(1, 1, AT_ONCE).is_ok());
        drop(give);
        assert_eq!(take.take(AT_ONCE), Ok(1));
        assert_eq!(take.take(AT_ONCE), Err(NoItem::Ever));
        let (give, take) = queue();
        drop(take);
        assert!(matches!(give.give(1, 1, AT_ONCE), Err(QueueRefusal::Gone)));
        assert!(!give.give_patiently(1, 1));
    }

    #[test]
    fn a_waiting_end_is_woken() {
        let (give, take) = queue();
        let taking = std::thread::spawn(move || {
            let mut sum = 0;
            loop {
                match take.take(Duration::from_secs(60)) {
                    Ok(n) => sum += n,
                    Err(NoItem::Yet) => {}
                    Err(NoItem::Ever) => return sum,
                }
            }
        });
        for n in 0..10_000_u64 {
            assert!(give.give_patiently(n, 1 << 19));
        }
        drop(give);
        assert_eq!(taking.join().ok(), Some(9_999 * 5_000));
    }
}

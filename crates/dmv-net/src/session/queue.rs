//! A short queue between two threads, bounded by number and by bytes: whoever puts in waits.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Frames that may lie in a queue. More than a receiver's open requests, so that a sender that is
/// busy sending never keeps its receiver from asking: neither waits for the other.
const MAX_ITEMS: usize = 16;
/// Bytes that may lie in it, unless there is a single item: what one peer can make us hold each
/// way. The requests that may be open at once are far below it.
const MAX_BYTES: usize = 4 << 20;

/// The end that puts in. The other end hears that it is gone when what was put in is taken.
pub struct Giver<T>(Arc<Shared<T>>);

/// The end that takes out.
pub struct Taker<T>(Arc<Shared<T>>);

/// Why nothing could be put in.
pub enum Refused<T> {
    /// There is no room yet; the item comes back.
    Full(T),
    /// Nobody takes out any more.
    Gone,
}

/// Why there is nothing to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing has come.
    Yet,
    /// Nothing will come.
    Ever,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    is_given: bool,
    is_taken: bool,
}

/// Both ends of a queue.
pub fn queue<T>() -> (Giver<T>, Taker<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            items: VecDeque::new(),
            bytes: 0,
            is_given: true,
            is_taken: true,
        }),
        changed: Condvar::new(),
    });
    (Giver(shared.clone()), Taker(shared))
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for a change, not beyond `end`. `None`: the time is up.
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
    /// Puts in an item of so many bytes, waiting for room at most so long.
    pub fn give(&self, item: T, bytes: usize, wait: Duration) -> Result<(), Refused<T>> {
        let end = Instant::now() + wait;
        let mut state = self.0.lock();
        loop {
            if !state.is_taken {
                return Err(Refused::Gone);
            }
            let fits = state.items.len() < MAX_ITEMS && state.bytes + bytes <= MAX_BYTES;
            if fits || state.items.is_empty() {
                state.bytes += bytes;
                state.items.push_back((item, bytes));
                self.0.changed.notify_all();
                return Ok(());
            }
            state = match self.0.wait(state, end) {
                Some(state) => state,
                None => return Err(Refused::Full(item)),
            };
        }
    }

    /// The same without an end. `false`: nobody takes out any more.
    pub fn give_patiently(&self, mut item: T, bytes: usize) -> bool {
        loop {
            match self.give(item, bytes, Duration::from_secs(60)) {
                Ok(()) => return true,
                Err(Refused::Gone) => return false,
                Err(Refused::Full(back)) => item = back,
            }
        }
    }
}

impl<T> Taker<T> {
    /// Takes the oldest item, waiting for one at most so long.
    pub fn take(&self, wait: Duration) -> Result<T, Nothing> {
        let end = Instant::now() + wait;
        let mut state = self.0.lock();
        loop {
            if let Some((item, bytes)) = state.items.pop_front() {
                state.bytes -= bytes;
                self.0.changed.notify_all();
                return Ok(item);
            }
            if !state.is_given {
                return Err(Nothing::Ever);
            }
            state = self.0.wait(state, end).ok_or(Nothing::Yet)?;
        }
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        self.0.lock().is_given = false;
        self.0.changed.notify_all();
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_taken = false;
        // Nobody will look at them.
        state.items.clear();
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    fn is_full<T>(given: Result<(), Refused<T>>) -> bool {
        matches!(given, Err(Refused::Full(_)))
    }

    #[test]
    fn a_queue_is_full_by_number_or_by_bytes_and_takes_a_single_large_item() {
        let (give, take) = queue();
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
        assert_eq!(take.take(AT_ONCE), Err(Nothing::Yet));
        assert!(give.give(0, 2 * MAX_BYTES, AT_ONCE).is_ok());
        assert!(is_full(give.give(0, 0, AT_ONCE)));
    }

    #[test]
    fn what_was_put_in_can_be_taken_when_the_giver_is_gone_and_not_the_other_way() {
        let (give, take) = queue();
        assert!(give.give(1, 1, AT_ONCE).is_ok());
        drop(give);
        assert_eq!(take.take(AT_ONCE), Ok(1));
        assert_eq!(take.take(AT_ONCE), Err(Nothing::Ever));
        let (give, take) = queue();
        drop(take);
        assert!(matches!(give.give(1, 1, AT_ONCE), Err(Refused::Gone)));
        assert!(!give.give_patiently(1, 1));
    }

    #[test]
    fn whoever_waits_is_woken() {
        let (give, take) = queue();
        let taking = std::thread::spawn(move || {
            let mut sum = 0;
            loop {
                match take.take(Duration::from_secs(60)) {
                    Ok(n) => sum += n,
                    Err(Nothing::Yet) => {}
                    Err(Nothing::Ever) => return sum,
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

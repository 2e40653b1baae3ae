//! The same work on many items, several at once.

use dmv_core::threads;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Does `work` on all items, `at_once` of them at the same time. Returns the results in the order of the items.
/// After a failure it begins no further item, and returns the first failure.
pub fn parallel<T: Sync, R: Send, E: Send>(
    at_once: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = Mutex::new(items.iter().enumerate());
    let done: Mutex<BTreeMap<usize, R>> = Mutex::default();
    let failed: Mutex<Option<E>> = Mutex::new(None);
    let run = || {
        while lock(&failed).is_none() {
            // The lock is free again before the work begins.
            let item = lock(&next).next();
            let Some((n, item)) = item else {
                return;
            };
            match work(item) {
                Ok(result) => drop(lock(&done).insert(n, result)),
                Err(e) => {
                    lock(&failed).get_or_insert(e);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..at_once.min(items.len()) {
            // Without further threads it takes longer.
            let _ = threads::start_in(scope, run);
        }
        run();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(e),
        None => {
            let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
            Ok(done.into_values().collect())
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one call, so a panic elsewhere cannot leave it half made.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_a_failure_ends_the_rest() {
        let items: Vec<u32> = (0..100).collect();
        let doubled = parallel(8, &items, |n| Ok::<_, ()>(n * 2));
        assert_eq!(doubled, Ok(items.iter().map(|n| n * 2).collect()));
        let begun = Mutex::new(0);
        let failed = parallel(1, &items, |n| {
            *lock(&begun) += 1;
            if *n == 3 { Err(*n) } else { Ok(()) }
        });
        assert_eq!((failed, *lock(&begun)), (Err(3), 4));
        assert_eq!(parallel(8, &[], |n: &u32| Ok::<_, ()>(*n)), Ok(vec![]));
    }
}

//! Values that many threads read, and locks that ignore poisoning.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value that is replaced as a whole. Readers keep the one that they have got, so they hold no lock while they
/// use it.
#[derive(Default)]
pub(super) struct SharedValue<T>(RwLock<Arc<T>>);

impl<T> SharedValue<T> {
    /// Returns a shared value.
    pub fn new(value: T) -> SharedValue<T> {
        SharedValue(RwLock::new(Arc::new(value)))
    }

    /// Returns the present value.
    pub fn get(&self) -> Arc<T> {
        read(&self.0).clone()
    }

    /// Replaces the value by one that `next` makes of it. Returns the former one.
    pub fn replace(&self, next: impl FnOnce(&T) -> T) -> Arc<T> {
        let mut value = write(&self.0);
        let next = Arc::new(next(&value));
        std::mem::replace(&mut value, next)
    }
}

/// Locks a mutex. It ignores poisoning, because a panic in another thread has already ended the
/// job.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, as [`lock`].
pub(super) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, as [`lock`].
pub(super) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

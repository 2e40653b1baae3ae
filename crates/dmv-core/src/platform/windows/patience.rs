//! Waiting for programs that hold a file for a moment: scanners of viruses, search indexes, editors.

use crate::platform::SystemError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_DELETE_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION,
    ERROR_USER_MAPPED_FILE,
};

/// How long one operation waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a process waits in vain, in milliseconds. So many files that are held do not make it silent for minutes.
const ALL_IN_VAIN: u64 = 10_000;
const PAUSE: Duration = Duration::from_millis(20);

static IN_VAIN: AtomicU64 = AtomicU64::new(0);

/// Returns whether the error may be one of a file that another program holds. A file that it holds and a right that
/// the user lacks are told by the same error.
pub fn is_held(e: SystemError) -> bool {
    matches!(
        e.code() as u32,
        ERROR_SHARING_VIOLATION
            | ERROR_LOCK_VIOLATION
            | ERROR_ACCESS_DENIED
            | ERROR_DELETE_PENDING
            | ERROR_USER_MAPPED_FILE
    )
}

/// Tries `change` again for up to two seconds, while it fails because another program holds the file.
pub fn patiently<T>(mut change: impl FnMut() -> Result<T, SystemError>) -> Result<T, SystemError> {
    let mut began = None;
    loop {
        match change() {
            Err(e) if is_held(e) => {
                let began = *began.get_or_insert_with(Instant::now);
                if began.elapsed() >= PATIENCE || IN_VAIN.load(Ordering::Relaxed) >= ALL_IN_VAIN {
                    let waited = began.elapsed().as_millis() as u64;
                    IN_VAIN.fetch_add(waited, Ordering::Relaxed);
                    return Err(e);
                }
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

//! Waiting for a write to a file that may be in progress.

use crate::fsutil::{FileStat, stat_file, wait_for_write};
use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Size in bytes from which a file that has just changed is left alone for a moment.
///
/// A single write changes a file's times when it begins, and nothing when it ends. Reading such a
/// file at once stored a mixture of two versions in 4 of 100 cases (1 MB, a program that rewrites
/// it in place).
pub(super) const SETTLE_FROM_BYTES: u64 = 128 << 10;
/// The length of that moment, and what is added for larger writes.
pub(super) const SETTLE: Duration = Duration::from_millis(20);
pub(super) const SETTLE_PER_MIB: Duration = Duration::from_millis(2);
pub(super) const SETTLE_MAX: Duration = Duration::from_millis(500);

/// Waits until a write to the file that may be in progress is over. Returns the stat after that;
/// `None` if the file is still being written to.
pub(super) fn settle(file: &File, before: FileStat) -> Option<FileStat> {
    let waited = wait_for_write(file);
    let mut stat = stat_file(file).unwrap_or(before);
    if let Some(wait) = settles_in(&stat, SystemTime::now(), waited) {
        std::thread::sleep(wait);
        stat = stat_file(file).unwrap_or(stat);
        if settles_in(&stat, SystemTime::now(), waited).is_some() {
            return None;
        }
    }
    Some(stat)
}

/// Returns whether two stats are of the same file with the same content.
pub(super) fn same_file(a: &FileStat, b: &FileStat) -> bool {
    a.fingerprint() == b.fingerprint() && a.dev == b.dev
}

/// Returns how long to wait until a write to the file that may be in progress is over.
///
/// `now` is this machine's clock. If the file system has another clock, the wait may be omitted or
/// needless, but it is never longer than [`SETTLE_MAX`]. `waited` means that a write that had begun
/// is over, so that only writes within one tick of the file system's clock are in doubt.
pub(super) fn settles_in(stat: &FileStat, now: SystemTime, waited: bool) -> Option<Duration> {
    if stat.size < SETTLE_FROM_BYTES {
        return None;
    }
    let mib = u32::try_from(stat.size >> 20).unwrap_or(u32::MAX);
    let settle = if waited {
        SETTLE
    } else {
        SETTLE_MAX.min(SETTLE + SETTLE_PER_MIB.saturating_mul(mib))
    };
    let now = now.duration_since(UNIX_EPOCH).ok()?;
    let changed = Duration::new(u64::try_from(stat.mtime.seconds).ok()?, stat.mtime.nanos);
    // A time in the future shows nothing.
    let left = settle.checked_sub(now.checked_sub(changed)?)?;
    (!left.is_zero()).then_some(left)
}

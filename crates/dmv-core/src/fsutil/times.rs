//! Clocks, and writes to a file that its times do not show.

pub(crate) use crate::platform::wait_for_write;

use super::{FileStat, FileTime, SafeDir, stat_file};
use crate::platform;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the current time on the clock of the file system of `dir`, which may differ from this
/// machine's clock.
///
/// It creates and removes a file to find out. If that fails, it returns this machine's time.
pub(crate) fn fs_now(dir: &SafeDir) -> FileTime {
    let ask = || {
        let (file, name) = dir.create_temp(false)?;
        let stat = stat_file(&file).map_err(|e| dir.error("stat", &name, e));
        dir.unlink(&name)?;
        stat
    };
    match ask() {
        Ok(stat) => stat.mtime,
        Err(_) => machine_now(),
    }
}

/// Returns the current time on this machine's clock, for places where DMV must not write.
pub(crate) fn machine_now() -> FileTime {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    FileTime {
        seconds: now.as_secs() as i64,
        nanos: now.subsec_nanos(),
    }
}

/// How much [`notice_mapped_writes`] may cost in one second, as KiB that are sent to the disk: 35 ms
/// on the machine of docs/benchmarks.md.
const BUDGET_KIB: u64 = 64 << 10;
/// The cost of a file besides its content, in KiB.
const FILE_KIB: u64 = 256;
/// The cost of the largest file that is looked at, in KiB.
const LARGEST_KIB: u64 = 256 << 10;

/// The second in which something was spent last, and below, how many KiB in it.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Makes the next write to `file` through a memory map change its times, if the file system can.
///
/// Call it after `stat` was taken and before the file is read. A later write then changes the stat.
///
/// Linux changes the times again only after it has started to write the page to the disk, up to 35
/// seconds later by default. This function starts that, for files that were changed a short time ago.
///
/// Sending 100,000 small files to the disk would take seconds. So the cost is limited: of many
/// files that changed just now, as after a copy, only the first are looked at.
pub(crate) fn notice_mapped_writes(file: &File, stat: &FileStat) {
    const WRITTEN_BACK_SECONDS: i64 = 120;
    let now = machine_now();
    // Programs can set the mtime back, but not the ctime.
    let age = now.seconds.saturating_sub(stat.ctime.seconds);
    if age > WRITTEN_BACK_SECONDS || !spend(&SPENT, now.seconds as u64, stat.size / 1024) {
        return;
    }
    platform::write_mapped_pages_back(file, stat.size);
}

/// Spends what a file of `size_kib` costs, if the budget of this second allows it. The first file of
/// a second may cost more than the budget.
fn spend(spent: &AtomicU64, second: u64, size_kib: u64) -> bool {
    let cost = size_kib.saturating_add(FILE_KIB);
    let second = (second & u64::from(u32::MAX)) << 32;
    cost <= LARGEST_KIB
        && spent
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                let before = if last >> 32 == second >> 32 {
                    last & u64::from(u32::MAX)
                } else {
                    0
                };
                let after = before + cost;
                (before == 0 || after <= BUDGET_KIB).then_some(second | after)
            })
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_a_budget_for_mapped_writes() {
        let spent = AtomicU64::new(0);
        let files = |second| (0..1000).filter(|_| spend(&spent, second, 0)).count();
        assert_eq!((files(7), files(7), files(8)), (256, 0, 256));
        // A larger file only as the first one, and none that would take too long.
        assert!(!spend(&spent, 9, LARGEST_KIB));
        assert!(spend(&spent, 9, LARGEST_KIB - FILE_KIB));
        assert!(!spend(&spent, 9, 0));
        assert!(spend(&spent, 10, 0));
        assert!(!spend(&spent, 10, u64::MAX));
    }
}

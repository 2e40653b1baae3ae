//! Clocks, and writes to a file that its times do not show.

use super::{FileStat, FileTime, SafeDir, stat_file};
use std::fs::File;

/// Returns the current time on the clock of the file system of `dir`, which may differ from this
/// machine's clock.
///
/// It creates and removes a file to find out. If that fails, it returns this machine's time.
pub fn fs_now(dir: &SafeDir) -> FileTime {
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
pub fn machine_now() -> FileTime {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    FileTime {
        seconds: now.as_secs() as i64,
        nanos: now.subsec_nanos(),
    }
}

/// Waits for a write to `file` that is in progress, and returns whether it could.
///
/// It can on ext4 only, which takes the lock that writers hold when it is asked where data is. The
/// file's position is its beginning afterwards.
pub fn wait_for_write(file: &File) -> bool {
    const EXT4: u64 = 0xef53;
    let Ok(disk) = rustix::fs::fstatfs(file) else {
        return false;
    };
    if disk.f_type as u64 != EXT4 {
        return false;
    }
    // The answer does not matter; the file may have no data.
    let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0));
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).is_ok()
}

/// Makes the next write to `file` through a memory map change its times, if the file system can.
///
/// Call it after `stat` was taken and before the file is read. A later write then changes the stat.
///
/// Linux updates the times at the first write to a clean page. Further writes to the dirty page change
/// nothing until the system starts to write the page to the disk, up to 35 seconds later by default.
/// This function starts that, for files that were changed a short time ago.
pub fn notice_mapped_writes(file: &File, stat: &FileStat) {
    const WRITTEN_BACK_SECONDS: i64 = 120;
    const PAGE: u64 = 4096;
    let now = machine_now();
    // Programs can set the mtime back, but not the ctime.
    let age = now.seconds.saturating_sub(stat.ctime.seconds);
    if age > WRITTEN_BACK_SECONDS {
        return;
    }
    // For two partial pages at a time: the system writes both and keeps both in memory.
    let mut at = 0;
    while at < stat.size {
        let (from, len) = (at + 1, std::num::NonZeroU64::new(PAGE));
        // If it fails, such writes stay unseen.
        let _ = rustix::fs::fadvise(file, from, len, rustix::fs::Advice::DontNeed);
        at += 2 * PAGE;
    }
}

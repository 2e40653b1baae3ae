//! File systems by their magic numbers, and rights on paths.

use rustix::fs::{Access, StatVfsMountFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub const LOCKLESS_SQLITE: &str = "unix-none";

/// Returns the number that statfs reports for the file system of an open file.
// The type of the field differs between machines.
#[allow(clippy::unnecessary_cast)]
pub fn magic(file: impl AsFd) -> Option<u64> {
    let disk = rustix::fs::fstatfs(file).ok()?;
    Some(disk.f_type as u64 & 0xffff_ffff)
}

pub fn is_read_only_disk(path: &Path) -> bool {
    let disk = rustix::fs::statvfs(path);
    disk.is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY))
}

pub fn may_read(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
}

pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

pub fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

pub fn check_access(path: &Path) -> io::Result<()> {
    let wanted = if path.is_dir() {
        Access::WRITE_OK | Access::EXEC_OK
    } else {
        Access::READ_OK | Access::WRITE_OK
    };
    Ok(rustix::fs::access(path, wanted)?)
}

pub fn has_room(path: &Path, bytes: u64) -> io::Result<bool> {
    let disk = rustix::fs::statvfs(path)?;
    let has_files = disk.f_files == 0 || disk.f_favail > 0;
    Ok(has_files && disk.f_bavail.saturating_mul(disk.f_frsize) >= bytes)
}

pub fn is_of_this_user(file: &File) -> io::Result<bool> {
    let owner = file.metadata()?.uid();
    Ok(owner == rustix::process::geteuid().as_raw())
}

pub fn is_own(path: &Path) -> io::Result<bool> {
    let meta = std::fs::symlink_metadata(path)?;
    let me = rustix::process::geteuid();
    Ok(me.is_root() || meta.uid() == me.as_raw())
}

pub fn is_written_by_this_user_only(path: &Path) -> io::Result<bool> {
    /// Of the group and of all others. An access list shows in the bits of the group.
    const OTHERS_WRITE: u32 = 0o022;
    let meta = std::fs::symlink_metadata(path)?;
    let me = rustix::process::geteuid();
    Ok(meta.uid() == me.as_raw() && meta.mode() & OTHERS_WRITE == 0)
}

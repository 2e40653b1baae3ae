//! Single files, by file descriptors and the standard library.

use super::disk::magic;
use super::own_calls::start_writeback;
use super::stat::{from_metadata, from_stat};
use crate::platform::{FileStat, FileTime};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, SeekFrom, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The umask where the system does not tell it.
const USUAL_UMASK: u32 = 0o022;
pub const TIME_STEP_NANOS: u32 = 1;

pub fn open_unfollowed(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    how.custom_flags(flags.bits() as i32).open(path)
}

pub fn open_without_waiting(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    how.custom_flags(flags.bits() as i32).open(path)
}

pub fn readable_by_all(how: &mut OpenOptions) {
    how.mode(0o644);
}

#[inline]
pub fn stat_of(file: &File) -> io::Result<FileStat> {
    Ok(from_stat(&rustix::fs::fstat(file)?))
}

pub fn stat_at(path: &Path) -> io::Result<FileStat> {
    Ok(from_metadata(&std::fs::metadata(path)?))
}

pub fn stat_at_unfollowed(path: &Path) -> io::Result<FileStat> {
    Ok(from_metadata(&std::fs::symlink_metadata(path)?))
}

pub fn has_hole(file: &File, size: u64) -> bool {
    rustix::fs::seek(file, SeekFrom::Hole(0)).is_ok_and(|at| at < size)
}

/// Returns where data begins and ends in a file of this size, from `at` on.
pub fn next_data(file: &File, at: u64, size: u64) -> Option<(u64, u64)> {
    if at >= size {
        return None;
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return None,
        // The file system does not tell: everything is data.
        Err(_) => return Some((at, size)),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size);
    Some((start, end.min(size).max(start + 1)))
}

pub fn set_permissions(file: &File, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode((mode & 0o777) as _);
    Ok(rustix::fs::fchmod(file, mode)?)
}

/// The call that returns the umask also sets it, for all threads. So it is read where the system tells it.
pub fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let told = told.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    told.unwrap_or(USUAL_UMASK)
}

/// Keeps setuid, setgid and sticky bits.
pub fn set_directory_permissions(dir: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(dir, Permissions::from_mode(mode))
}

pub fn set_modified(file: &File, mtime: FileTime) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT as _,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds as _,
            tv_nsec: mtime.nanos as _,
        },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

pub fn append_only(file: File) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags | OFlags::APPEND)?;
    Ok(file)
}

pub fn same_file(stream: impl AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

pub fn closed_to_others(how: &mut OpenOptions) {
    how.mode(0o600);
}

pub fn usual_permissions() -> Option<Permissions> {
    Some(Permissions::from_mode(0o666))
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

#[inline]
pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buf, offset)
}

#[inline]
pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

#[inline]
pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

pub fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}

pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Linux updates a file's times at the first write to a clean page. Further writes to the dirty page
/// change nothing until the system starts to write the page to the disk, up to 35 seconds later by
/// default. This starts it.
pub fn write_mapped_pages_back(file: &File, size: u64) {
    const PAGE: u64 = 4096;
    // For two partial pages at a time: the system writes both and keeps both in memory.
    let mut at = 0;
    while at < size {
        start_writeback(file, at + 1, PAGE);
        at += 2 * PAGE;
    }
}

/// Works on ext4 only, which takes the lock that writers hold when it is asked where data is.
pub fn wait_for_write(file: &File) -> bool {
    const EXT4: u64 = 0xef53;
    if magic(file) != Some(EXT4) {
        return false;
    }
    // The answer does not matter; the file may have no data.
    let _ = rustix::fs::seek(file, SeekFrom::Data(0));
    rustix::fs::seek(file, SeekFrom::Start(0)).is_ok()
}

pub fn is_reader_gone(pipe: impl AsFd) -> bool {
    // Asks for no event: the system reports the end of the other side in any case.
    let mut asked = [PollFd::new(&pipe, PollFlags::empty())];
    let told = rustix::event::poll(&mut asked, Some(&Timespec::default()));
    told.is_ok() && asked[0].revents().intersects(PollFlags::ERR)
}

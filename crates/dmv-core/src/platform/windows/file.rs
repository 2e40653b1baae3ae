//! Single files, by handles and the standard library.

use super::calls;
use super::dir::{Dir, temporary_name};
use super::disk::open_anything;
use super::stat::from_raw;
use crate::platform::{Cause, FileStat, FileTime, SystemError};
use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_APPEND_DATA, FILE_ATTRIBUTE_TEMPORARY, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_OPEN_NO_RECALL, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_GENERIC_READ, FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES, FILE_WRITE_DATA, SYNCHRONIZE,
};

/// Windows counts in steps of 100 ns.
pub const TIME_STEP_NANOS: u32 = 100;

pub fn open_unfollowed(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    how.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_OPEN_NO_RECALL)
        .open(path)
}

pub fn open_without_waiting(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    how.open(path)
}

/// A file with a temporary name that goes when it is closed.
pub fn unnamed_file(dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .attributes(FILE_ATTRIBUTE_TEMPORARY)
        .custom_flags(FILE_FLAG_DELETE_ON_CLOSE)
        .open(dir.join(temporary_name()))
}

/// A new file has the access list that its directory gives it.
pub fn readable_by_all(_: &mut OpenOptions) {}

pub fn closed_to_others(_: &mut OpenOptions) {}

pub fn usual_permissions() -> Option<Permissions> {
    None
}

/// Every sync is one of the medium.
pub const FULL_SYNC: bool = false;

pub fn settle(file: &File) -> io::Result<()> {
    sync(file)
}

/// The system syncs only what may be written to.
pub fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(e) if SystemError::of(&e).cause() == Cause::Denied => {
            let writable = calls::reopen(file, FILE_WRITE_DATA, FILE_FLAG_BACKUP_SEMANTICS)?;
            File::from(writable).sync_data()
        }
        done => done,
    }
}

pub fn share_blocks(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn clone_blocks(_: &File, _: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn copy_range(_: &File, _: u64, _: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[inline]
pub fn stat_of(file: &File) -> io::Result<FileStat> {
    Ok(from_raw(&calls::stat(file, calls::volume_of(file)?)?))
}

pub fn stat_at(path: &Path) -> io::Result<FileStat> {
    stat_of(&open_anything(path, FILE_READ_ATTRIBUTES, 0)?)
}

pub fn stat_at_unfollowed(path: &Path) -> io::Result<FileStat> {
    let flags = FILE_FLAG_OPEN_REPARSE_POINT;
    stat_of(&open_anything(path, FILE_READ_ATTRIBUTES, flags)?)
}

pub fn shared_bytes(_: &File, _: u64) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn has_hole(_: &File, _: u64) -> bool {
    false
}

/// Everything counts as data.
pub fn next_data(_: &File, at: u64, size: u64) -> Option<(u64, u64)> {
    (at < size).then_some((at, size))
}

/// Who may use a file is in its access list, which stays as it is.
pub fn set_permissions(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

pub fn set_directory_permissions(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// As if new files were closed to others: their modes tell nothing.
pub fn umask() -> u32 {
    0o077
}

pub fn set_modified(file: &File, mtime: FileTime) -> io::Result<()> {
    let whole = Duration::from_secs(mtime.seconds.unsigned_abs());
    let time = if mtime.seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    let part = Duration::from_nanos(u64::from(mtime.nanos));
    let time = time.and_then(|time| time.checked_add(part));
    let time = time.ok_or(io::ErrorKind::InvalidInput)?;
    file.set_times(FileTimes::new().set_modified(time))
}

/// A handle that has the right to append and not the one to write does only that.
pub fn append_only(file: File) -> io::Result<File> {
    let access = FILE_GENERIC_READ | FILE_APPEND_DATA | FILE_WRITE_ATTRIBUTES | SYNCHRONIZE;
    Ok(File::from(calls::reopen(
        &file,
        access,
        FILE_FLAG_BACKUP_SEMANTICS,
    )?))
}

pub fn same_file(stream: impl AsHandle) -> io::Result<File> {
    Ok(File::from(stream.as_handle().try_clone_to_owned()?))
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let parts = |path: &Path| -> io::Result<(Dir, Vec<u8>)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = match path.parent() {
            Some(dir) if dir != Path::new("") => dir.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Ok((Dir::open(&dir)?, super::name::bytes_of(name).to_vec()))
    };
    let (old, from) = parts(from)?;
    let (new, to) = parts(to)?;
    Ok(old.rename_to(&from, &new, &to)?)
}

#[inline]
pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buf, offset)
}

pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.seek_read(&mut buf[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        match file.seek_write(&data[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// NTFS notes changes of names in its log, in order, and every sync of a file later on makes that log durable. There is
/// no documented call for a directory.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    std::fs::metadata(dir).map(drop)
}

pub fn start_writeback(_: &File, _: u64, _: u64) {}

pub fn write_mapped_pages_back(_: &File, _: u64) {}

pub fn wait_for_write(_: &File) -> bool {
    false
}

/// Unknown. The next write to it fails.
pub fn is_reader_gone(_: impl AsHandle) -> bool {
    false
}

pub fn widen_pipe(_: impl AsHandle, _: usize) {}

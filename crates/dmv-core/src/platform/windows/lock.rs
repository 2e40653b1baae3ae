//! Locks of one byte far beyond the end of a file. A lock of Windows keeps others from reading and writing what it
//! covers, and this byte nobody reads or writes.

use super::calls;
use super::disk::may_write;
use crate::platform::SystemError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_DELETE_ON_CLOSE, LOCKFILE_EXCLUSIVE_LOCK};

/// A file that stands for the lock of its directory. It has a temporary name, so no commit includes it.
const DIRECTORY_LOCK: &str = ".dmv-tmp-0000000000000000";

pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    calls::lock(file, LOCKFILE_EXCLUSIVE_LOCK).map_err(refused)
}

pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    calls::lock(file, 0).map_err(refused)
}

fn refused(e: SystemError) -> TryLockError {
    match e.code() as u32 {
        ERROR_LOCK_VIOLATION | ERROR_IO_PENDING => TryLockError::WouldBlock,
        _ => TryLockError::Error(e.into()),
    }
}

pub fn unlock(file: &File) -> io::Result<()> {
    Ok(calls::unlock(file)?)
}

/// A directory has no lock. So a file in it is opened that no other process can open meanwhile, and that goes when it
/// is closed.
pub fn try_lock_dir(dir: &Path) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .share_mode(0)
        .custom_flags(FILE_FLAG_DELETE_ON_CLOSE)
        .open(dir.join(DIRECTORY_LOCK));
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(e) => match e.raw_os_error().map(|code| code as u32) {
            Some(ERROR_SHARING_VIOLATION) => Ok(None),
            // Another process has just closed it.
            Some(ERROR_ACCESS_DENIED) if may_write(dir) => Ok(None),
            _ => Err(e),
        },
    }
}

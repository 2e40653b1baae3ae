//! Locks of open files, which end with the process.

use super::{stat_at_unfollowed, stat_of, system};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// Tries to take the exclusive lock of a file. Other programs can read and write the file all the same.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    system::try_lock(file)
}

/// Tries to take a shared lock of a file, which excludes exclusive ones.
pub(crate) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    system::try_lock_shared(file)
}

/// Gives a lock up before its file is closed.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    system::unlock(file)
}

/// Tries to take the exclusive lock of the file at `path`, which is open. Returns `None` if another
/// process has it, or if the path does not lead to this file any more.
pub(crate) fn try_lock_at(file: File, path: &Path) -> io::Result<Option<File>> {
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    // A file that was removed meanwhile excludes no other process.
    let own = stat_of(&file)?;
    match stat_at_unfollowed(path) {
        Ok(now) => Ok((own.inode() == now.inode()).then_some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Tries to take the exclusive lock of a directory in which no lock file is to lie. Returns `None` if
/// another process has it.
pub(crate) fn try_lock_dir(dir: &Path) -> io::Result<Option<File>> {
    system::try_lock_dir(dir)
}

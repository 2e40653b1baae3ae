//! Locks of the kind `flock`, which nobody needs to heed.

use crate::platform::try_lock_at;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

pub fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

pub fn try_lock_dir(dir: &Path) -> io::Result<Option<File>> {
    try_lock_at(File::open(dir)?, dir)
}

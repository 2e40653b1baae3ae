//! Waiting for the lock on a file.

use crate::locks;
use crate::path::PathError;
use crate::repo::base::error::{BusyError, RepoError};
use std::fs::File;
use std::path::Path;

/// Waits for the exclusive lock on the file at `path`, a few seconds at most. Creates the file if
/// it is missing. Closing the returned file releases the lock.
pub fn lock_file(path: &Path) -> Result<File, RepoError> {
    let taken = locks::take(path, locks::PATIENCE);
    let taken = taken.map_err(|source| unlockable(path, source))?;
    Ok(taken.map_err(BusyError::Worktree)?)
}

/// Returns the error for a lock that cannot be taken at all.
pub fn unlockable(path: &Path, source: std::io::Error) -> RepoError {
    RepoError::Io(PathError::new("lock", path, source))
}

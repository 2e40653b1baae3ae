//! Waiting for the lock of a file.

use crate::locks;
use crate::repo::base::error::RepoError;
use std::fs::File;
use std::path::Path;

/// Waits for the exclusive lock of the file at `path`, which is made where it is missing, some
/// seconds at most. The lock goes with the handle.
pub(in crate::repo) fn lock_file(path: &Path) -> Result<File, RepoError> {
    let taken = locks::take(path, locks::PATIENCE);
    taken
        .map_err(|source| unlockable(path, source))?
        .map_err(RepoError::Busy)
}

/// The error of a lock that cannot be taken at all.
pub(in crate::repo) fn unlockable(path: &Path, source: std::io::Error) -> RepoError {
    RepoError::Io {
        action: "lock",
        path: path.to_owned(),
        source,
    }
}

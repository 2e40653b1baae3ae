//! The database lock: its holder may change the database.
//!
//! SQLite has a lock for that, too. This one can name its holder, is granted fairly, and belongs to
//! the name `refs.db`, not to the file that happens to be open. `recover` may replace the file
//! while it holds the lock, and no process publishes into the former one.

use super::RefsError;
use crate::locks;
use crate::path::PathError;
use crate::platform::{Inode, stat_at_unfollowed};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lock of the database. While it lives, no other process changes the database or replaces it.
pub struct DatabaseLock {
    _lock: File,
}

impl DatabaseLock {
    /// Locks the database at `db` for a change. Fails with [`RefsError::Busy`] if another
    /// process keeps it for longer than `patience`.
    pub fn take(db: &Path, patience: Duration) -> Result<DatabaseLock, RefsError> {
        let file = lock_of(db);
        match locks::take(&file, patience).map_err(|source| unlockable(&file, source))? {
            Ok(lock) => Ok(DatabaseLock { _lock: lock }),
            Err(holder) => Err(RefsError::Busy(holder)),
        }
    }

    /// Locks the database; returns `None` if another process holds the lock.
    pub(crate) fn try_take(db: &Path) -> Result<Option<DatabaseLock>, RefsError> {
        let file = lock_of(db);
        let lock = locks::try_take(&file).map_err(|source| unlockable(&file, source))?;
        Ok(lock.map(|lock| DatabaseLock { _lock: lock }))
    }
}

fn lock_of(db: &Path) -> PathBuf {
    db.with_extension("lock")
}

fn unlockable(file: &Path, source: std::io::Error) -> RefsError {
    RefsError::Lock(PathError::new("lock", file, source))
}

/// Returns which file is at `path`.
pub(super) fn file_at(path: &Path) -> Option<Inode> {
    Some(stat_at_unfollowed(path).ok()?.inode())
}

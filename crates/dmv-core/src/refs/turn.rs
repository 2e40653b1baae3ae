//! The turn: the right to change the database.
//!
//! SQLite has a lock for that, too. This one can name its holder, is granted fairly, and belongs to
//! the name `refs.db`, not to the file that happens to be open. `recover` may replace the file
//! during its turn, and no process publishes into the former one.

use super::RefsError;
use crate::locks;
use crate::platform::{Inode, stat_at};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The right to change the database. While it lives, no other process changes the database or
/// replaces it.
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Takes the turn to change the database at `db`. Fails with [`RefsError::Busy`] if another
    /// process keeps it for longer than `patience`.
    pub fn take(db: &Path, patience: Duration) -> Result<Turn, RefsError> {
        let file = lock_of(db);
        match locks::take(&file, patience).map_err(|source| unlockable(&file, source))? {
            Ok(lock) => Ok(Turn { _lock: lock }),
            Err(holder) => Err(RefsError::Busy(holder)),
        }
    }

    /// Takes the turn; returns `None` if another process has it.
    pub fn try_take(db: &Path) -> Result<Option<Turn>, RefsError> {
        let file = lock_of(db);
        let lock = locks::try_take(&file).map_err(|source| unlockable(&file, source))?;
        Ok(lock.map(|lock| Turn { _lock: lock }))
    }
}

fn lock_of(db: &Path) -> PathBuf {
    db.with_extension("lock")
}

fn unlockable(file: &Path, source: std::io::Error) -> RefsError {
    RefsError::Lock {
        path: file.to_owned(),
        source,
    }
}

/// Returns which file is at `path`.
pub(super) fn file_at(path: &Path) -> Option<Inode> {
    Some(stat_at(path).ok()?.inode())
}

//! Whose turn it is to change the database.
//!
//! SQLite has a lock for that as well. This one can say who has it, is waited for in a fair way, and
//! is about the name `refs.db`, not about the file that happens to be open: `recover` may put
//! another file in its place while it has its turn, and nobody publishes into the former one.

use super::RefsError;
use crate::locks;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As long as this lives, nobody else changes the database or puts another in its place.
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits for the turn of changing the database at `db`. [`RefsError::Busy`]: another process did
    /// not give it up.
    pub fn take(db: &Path, patience: Duration) -> Result<Turn, RefsError> {
        let file = lock_of(db);
        match locks::take(&file, patience).map_err(|source| unlockable(&file, source))? {
            Ok(lock) => Ok(Turn { _lock: lock }),
            Err(holder) => Err(RefsError::Busy(holder)),
        }
    }

    /// The turn, unless another process has it.
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

/// Which file is at `path`.
pub(super) fn file_at(path: &Path) -> Option<(u64, u64)> {
    let stat = std::fs::metadata(path).ok()?;
    Some((stat.dev(), stat.ino()))
}

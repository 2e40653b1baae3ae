//! Whether anybody else has changed a repository since it was opened.

use super::{REFS_FILE, Repo};
use crate::store::DAMAGED_FILE;
use std::os::unix::fs::MetadataExt;

/// What shows that: as long as it is the same, opening the repository once more finds nothing new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Changes with each transaction of another.
    version: i64,
    /// Which file the database is: a recovery puts another in its place.
    database: (u64, u64),
    /// Which file names the damage that is known, and when it was written.
    damaged: Option<(u64, u64, i64, i64)>,
}

impl Repo {
    /// How the repository is now; `None`: that cannot be told.
    pub fn stamp(&self) -> Option<Stamp> {
        let found = |name| std::fs::metadata(self.dmv.join(name)).ok();
        let database = found(REFS_FILE)?;
        let damaged = found(DAMAGED_FILE);
        Some(Stamp {
            version: self.refs.version().ok()?,
            database: (database.dev(), database.ino()),
            damaged: damaged.map(|m| (m.ino(), m.len(), m.mtime(), m.mtime_nsec())),
        })
    }
}

//! Whether another command has changed a repository since it was opened.

use crate::platform::{FileTime, Inode, stat_at};
use crate::repo::base::layout::REFS_FILE;
use crate::repo::base::repo::Repo;
use crate::store::DAMAGED_FILE;
use std::path::Path;

/// The observable state of a repository. While it stays the same, opening the repository again
/// finds nothing new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Changes with each transaction of another process.
    version: i64,
    files: Files,
}

/// Files that can change without a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The inode of the database. A recovery replaces the file.
    database: Inode,
    /// The inode, size and time of the file that lists known damage.
    damaged: Option<(Inode, u64, FileTime)>,
}

impl Files {
    pub fn of(dmv: &Path) -> Option<Files> {
        let found = |name| stat_at(&dmv.join(name)).ok();
        let database = found(REFS_FILE)?;
        let damaged = found(DAMAGED_FILE);
        Some(Files {
            database: database.inode(),
            damaged: damaged.map(|m| (m.inode(), m.size, m.mtime)),
        })
    }
}

impl Repo {
    /// Returns the current state of the repository, or `None` if it cannot be determined.
    pub fn stamp(&self) -> Option<Stamp> {
        stamp_with(self, Files::of(&self.dmv)?)
    }
}

pub fn stamp_with(repo: &Repo, files: Files) -> Option<Stamp> {
    // In a read-only repository, the database is read as one that never changes. A table that could
    // not be opened may be readable the next time.
    if repo.refs.is_read_only() || repo.refs.is_copy() || !repo.store.current().is_open() {
        return None;
    }
    let version = repo.refs.version().ok()?;
    Some(Stamp { version, files })
}

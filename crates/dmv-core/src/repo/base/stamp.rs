//! Whether anybody else has changed a repository since it was opened.

use crate::platform::{FileTime, Inode, stat_at};
use crate::repo::base::handle::Handle;
use crate::repo::base::layout::REFS_FILE;
use crate::store::DAMAGED_FILE;
use std::path::Path;

/// What shows that: as long as it is the same, opening the repository once more finds nothing new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Changes with each transaction of another.
    version: i64,
    files: Files,
}

/// Files whose change no transaction shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repo) struct Files {
    /// Which file the database is: a recovery puts another in its place.
    database: Inode,
    /// Which file names the damage that is known, and when it was written.
    damaged: Option<(Inode, u64, FileTime)>,
}

impl Files {
    pub(in crate::repo) fn of(dmv: &Path) -> Option<Files> {
        let found = |name| stat_at(&dmv.join(name)).ok();
        let database = found(REFS_FILE)?;
        let damaged = found(DAMAGED_FILE);
        Some(Files {
            database: database.inode(),
            damaged: damaged.map(|m| (m.inode(), m.size, m.mtime)),
        })
    }
}

/// How the repository is now; `None`: that cannot be told.
pub(in crate::repo) fn stamp(repo: &Handle) -> Option<Stamp> {
    stamp_with(repo, Files::of(&repo.dmv)?)
}

pub(in crate::repo) fn stamp_with(repo: &Handle, files: Files) -> Option<Stamp> {
    // Where nothing can be written, the database is read as one that never changes. What did not
    // open may do so the next time.
    if repo.refs.is_read_only() || repo.refs.is_copy() || !repo.store.opened_all_tables() {
        return None;
    }
    let version = repo.refs.version().ok()?;
    Some(Stamp { version, files })
}

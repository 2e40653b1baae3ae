//! Whether anybody else has changed a repository since it was opened.

use super::{Place, REFS_FILE, Repo, RepoError};
use crate::store::DAMAGED_FILE;
use std::os::unix::fs::MetadataExt;
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
struct Files {
    /// Which file the database is: a recovery puts another in its place.
    database: (u64, u64),
    /// Which file names the damage that is known, and when it was written.
    damaged: Option<(u64, u64, i64, i64)>,
}

impl Files {
    fn of(dmv: &Path) -> Option<Files> {
        let found = |name| std::fs::metadata(dmv.join(name)).ok();
        let database = found(REFS_FILE)?;
        let damaged = found(DAMAGED_FILE);
        Some(Files {
            database: (database.dev(), database.ino()),
            damaged: damaged.map(|m| (m.ino(), m.len(), m.mtime(), m.mtime_nsec())),
        })
    }
}

impl Repo {
    /// Opens a repository, with how it was then.
    pub fn open_stamped(place: Place) -> Result<(Repo, Option<Stamp>), RepoError> {
        // What changes while it is opened has to show afterwards.
        let files = Files::of(&place.dmv);
        let repo = Repo::open_place(place)?;
        let stamp = files.and_then(|files| repo.stamp_with(files));
        Ok((repo, stamp))
    }

    /// How the repository is now; `None`: that cannot be told.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp_with(Files::of(&self.dmv)?)
    }

    fn stamp_with(&self, files: Files) -> Option<Stamp> {
        // Where nothing can be written, the database is read as one that never changes. What did not
        // open may do so the next time.
        if self.refs.is_read_only() || self.refs.is_copy() || !self.store.opened_all_tables() {
            return None;
        }
        let version = self.refs.version().ok()?;
        Some(Stamp { version, files })
    }
}

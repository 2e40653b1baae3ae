//! The file that tells which paths commits changed (docs/format/changed-paths.md).
//!
//! It is derived: whatever is wrong with it, the trees tell the same.

use crate::history::changed_paths::{ChangedPaths, MAX_FILE, Unusable};
use crate::object::name::RepoPath;
use crate::repo::base::repo::Repo;
use crate::vfs::{OsVfs, read_small};
use std::path::PathBuf;

/// Returns the path of the file.
pub fn path(repo: &Repo) -> PathBuf {
    repo.dmv.join("changed-paths")
}

/// Reads the file. Without one, the table is empty.
pub fn load(repo: &Repo) -> Result<ChangedPaths, Unusable> {
    match read_small(&OsVfs, &path(repo), MAX_FILE) {
        Ok(bytes) => ChangedPaths::decode(bytes),
        Err(_) => Ok(ChangedPaths::default()),
    }
}

impl Repo {
    /// Returns what is known about the commits that changed these paths, for a walk over their
    /// history. `repack` makes it known; before that, nothing is.
    pub fn changed_paths(&self, paths: &[RepoPath]) -> ChangedPaths {
        match paths {
            [] => ChangedPaths::default(),
            _ => load(self).unwrap_or_default(),
        }
    }
}

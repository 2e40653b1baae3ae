//! The file that tells which paths commits changed (docs/format/changed-paths.md).
//!
//! It is derived: whatever is wrong with it, the trees tell the same.

use crate::history::changed_paths::{ChangedPaths, MAX_FILE, Unusable};
use crate::object::name::RepoPath;
use crate::repo::base::handle::Handle;
use crate::vfs::{OsVfs, read_small};
use std::path::PathBuf;

/// Returns the path of the file.
pub fn path(repo: &Handle) -> PathBuf {
    repo.dmv.join("changed-paths")
}

/// Reads the file. Without one, the table is empty.
pub fn load(repo: &Handle) -> Result<ChangedPaths, Unusable> {
    match read_small(&OsVfs, &path(repo), MAX_FILE) {
        Ok(bytes) => ChangedPaths::decode(bytes),
        Err(_) => Ok(ChangedPaths::default()),
    }
}

/// Reads the file for a walk over the history of `paths`. What cannot be used counts as absent.
pub fn load_for(repo: &Handle, paths: &[RepoPath]) -> ChangedPaths {
    match paths {
        [] => ChangedPaths::default(),
        _ => load(repo).unwrap_or_default(),
    }
}

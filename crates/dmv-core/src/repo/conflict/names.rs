//! The names of the files that show a conflict.

use crate::limits::MAX_NAME_BYTES;
use crate::object::name::{RepoPath, SafeName};
use crate::repo::base::error::RepoError;
use crate::repo::base::path;

/// Returns the path with `ending` added to its last name. Cuts the name if it would be too long.
pub(in crate::repo) fn beside(path: &RepoPath, ending: &str) -> Result<RepoPath, RepoError> {
    let name = path.file_name().unwrap_or_default();
    let mut len = name.len().min(MAX_NAME_BYTES.saturating_sub(ending.len()));
    // Do not cut inside a character.
    while len > 0 && name.get(len).is_some_and(|b| b & 0xc0 == 0x80) {
        len -= 1;
    }
    let dir = path.parent().unwrap_or_default();
    let name = [&name[..len], ending.as_bytes()].concat();
    path::parse_path(&crate::worktree::join(dir.as_bytes(), &name))
}

/// Returns the last name of a path that is not the root.
pub(in crate::repo) fn last_name(path: &RepoPath) -> SafeName {
    let name = path.file_name().unwrap_or_default();
    SafeName::new(name).expect("a path consists of valid names")
}

/// Splits the last name of `path` into its stem and its extension, with the dot. The name of a
/// version beside a conflict has its label between the two.
pub(in crate::repo) fn stem_and_ending(path: &RepoPath) -> (&[u8], &[u8]) {
    let name = path.file_name().unwrap_or_default();
    let dot = name.iter().rposition(|b| *b == b'.').filter(|dot| *dot > 0);
    name.split_at(dot.unwrap_or(name.len()))
}

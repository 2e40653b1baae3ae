//! Paths as a user writes them.

use crate::object::name::RepoPath;
use crate::repo::base::error::{LookError, RepoError};
use crate::repo::base::repo::Repo;
use std::borrow::Cow;

impl Repo {
    /// Parses a path as a user writes it. Ignores `.` components and extra slashes.
    ///
    /// Fails with [`LookError::BadPath`](crate::repo::LookError::BadPath) if the result is not a valid
    /// path in a repository.
    pub fn parse_path(path: &[u8]) -> Result<RepoPath, RepoError> {
        let is_name = |part: &&[u8]| !part.is_empty() && *part != b".";
        let parts = path.split(|b| *b == b'/');
        let plain = if parts.clone().all(|part| is_name(&part)) {
            Cow::Borrowed(path)
        } else {
            parts.filter(is_name).collect::<Vec<_>>().join(&b'/').into()
        };
        RepoPath::parse(&plain).map_err(|e| {
            RepoError::Look(LookError::BadPath {
                path: path.into(),
                why: e.to_string(),
            })
        })
    }
}

//! Names of stashes: `stash@{N}` and N.

use crate::prelude::*;
use dmv_core::repo::{StashInfo, VerbError};

/// The number of a stash.
pub fn number(text: &str) -> Result<usize, String> {
    let inner = text
        .strip_prefix("stash@{")
        .and_then(|t| t.strip_suffix('}'));
    let parsed = inner.unwrap_or(text).parse();
    parsed.map_err(|_| "a stash is stash@{N} or N, such as stash@{0}".to_owned())
}

/// The stash with this number.
pub fn numbered(repo: &Repo, n: usize) -> Result<StashInfo, Failure> {
    let mut all = repo.stashes()?;
    let count = all.len();
    if n < count {
        Ok(all.swap_remove(n))
    } else {
        Err(RepoError::Verb(VerbError::NoStash { n, count }).into())
    }
}

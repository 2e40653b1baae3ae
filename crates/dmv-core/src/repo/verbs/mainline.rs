//! The parent that a commit's change is relative to.
//!
//! Revert, cherry-pick and rebase use it.

use crate::hash::ObjectId;
use crate::repo::base::error::{RepoError, VerbError};

/// Returns that parent of `commit`; `None` if it has no parents. For a merge commit, `mainline` names
/// the parent, counted from 1. For others it must be absent or name the only one.
pub fn mainline_parent(
    commit: ObjectId,
    parents: &[ObjectId],
    mainline: Option<usize>,
    verb: &'static str,
) -> Result<Option<ObjectId>, RepoError> {
    match (mainline, parents) {
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(*only)),
        (Some(n), parents) if n >= 1 && n <= parents.len() => Ok(Some(parents[n - 1])),
        (_, parents) => Err(VerbError::Mainline {
            commit,
            parents: parents.len(),
            verb,
        }
        .into()),
    }
}

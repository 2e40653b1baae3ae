//! Errors of naming branches and tags: `base::branch`.

use crate::refs::RefNameError;

/// A branch or tag cannot be used, created or removed.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// A name is not valid for a ref.
    #[error(transparent)]
    RefName(#[from] RefNameError),
    /// A new branch or tag would have the name of a remote branch.
    #[error(
        "'{name}' cannot be the name of a branch or tag: names that begin with '{remote}/' are those of the remote '{remote}'"
    )]
    NameOfRemote {
        /// The refused name.
        name: String,
        /// The remote.
        remote: String,
    },
    /// The ref already exists.
    #[error("{kind} '{name}' already exists")]
    RefExists {
        /// "branch" or "tag".
        kind: &'static str,
        /// The ref's name.
        name: String,
    },
    /// The ref does not exist.
    #[error("there is no {kind} '{name}'")]
    NoRef {
        /// "branch" or "tag".
        kind: &'static str,
        /// The ref's name.
        name: String,
    },
    /// A worktree is on the branch, or it is the default branch of a bare repository.
    #[error("branch '{name}' is {}", if at.is_empty() {
        "the default branch of this repository: clones start with it".to_owned()
    } else {
        format!("checked out at {at}")
    })]
    InUse {
        /// The branch's name.
        name: String,
        /// The worktree's path; empty for a bare repository.
        at: String,
    },
}

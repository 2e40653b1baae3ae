//! Why an import or export failed.

use crate::id::Algorithm;
use crate::map::MapError;
use crate::object::BadObject;
use crate::source::SourceError;
use dmv_core::RepoError;
use dmv_core::glob::GlobFault;
use dmv_core::job::{Cancelled, Job};
use dmv_core::object::ObjectError;
use dmv_core::store::StoreError;
use dmv_core::threads::NoThread;
use dmv_core::worktree::content::ContentError;
use std::io;

/// An import or export failed. What it has published stays, and running it again goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git cannot be read or written.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An object is not what Git writes.
    #[error("the object {id} of Git is damaged: {error}")]
    Damaged {
        /// The object.
        id: crate::id::GitId,
        /// What is wrong.
        error: BadObject,
    },
    /// An object is not what Git writes.
    #[error("Git has a damaged object: {0}")]
    Bad(#[from] BadObject),
    /// A pattern for branches can match nothing.
    #[error("the pattern '{pattern}' matches no branch: {fault}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        fault: GlobFault,
    },
    /// A pattern for branches matches none.
    #[error("no branch matches '{pattern}'")]
    NoBranch {
        /// The pattern.
        pattern: String,
        /// The branches that there are.
        there: Vec<String>,
    },
    /// The target's ids are of another algorithm than those of an imported commit.
    #[error("the commits came from Git with other ids than {} ids, which the target has", target.name())]
    Algorithm {
        /// The target's algorithm.
        target: Algorithm,
    },
    /// The map of ids cannot be read or written.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The map names what this repository does not have.
    #[error("the map of ids does not fit the repository")]
    Stale,
    /// The repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object could not be made or stored.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The system starts no thread.
    #[error(transparent)]
    Thread(#[from] NoThread),
    /// Reading or writing failed.
    #[error("{0}")]
    Read(#[source] io::Error),
    /// The user asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl GitError {
    /// Returns the error, or that the user asked to stop: Ctrl-C also ends Git, whose death is no news then.
    pub(crate) fn unless_cancelled(self, job: &Job) -> GitError {
        match self {
            GitError::Source(_) if job.is_cancelled() => GitError::Cancelled,
            e => e,
        }
    }
}

impl From<ContentError> for GitError {
    fn from(e: ContentError) -> GitError {
        match e {
            ContentError::Read(e) => GitError::Read(e),
            ContentError::Store(e) => e.into(),
        }
    }
}

impl From<Cancelled> for GitError {
    fn from(Cancelled: Cancelled) -> GitError {
        GitError::Cancelled
    }
}

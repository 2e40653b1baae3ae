//! Why work at a bucket failed.

use crate::files::FileFailure;
use dmv_core::hash::ObjectId;
use dmv_core::job::Cancelled;
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::repo::{Purge, RepoError};
use dmv_core::store::StoreError;
use dmv_net::trouble::Trouble;

/// Why a push failed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The store does not do its part.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// Objects that the push needs are neither here nor in the bucket.
    #[error("objects are absent")]
    Lacking(Vec<(ObjectType, ObjectId)>),
    /// The bucket has purged content that the push brings, and that is stored here.
    #[error("content was purged there")]
    Purged {
        /// The number of files.
        files: u64,
        /// Why one of them was purged.
        why: Box<Purge>,
    },
    /// The repository cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The repository cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The repository cannot be read.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The push has found out that the store is not fit for it.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
    /// The user has cancelled it.
    #[error("cancelled")]
    Cancelled,
}

impl From<Cancelled> for PushError {
    fn from(Cancelled: Cancelled) -> PushError {
        PushError::Cancelled
    }
}

impl From<std::io::Error> for PushError {
    fn from(e: std::io::Error) -> PushError {
        PushError::Trouble(Trouble::Other(e.to_string()))
    }
}

impl From<FileFailure> for PushError {
    fn from(failed: FileFailure) -> PushError {
        PushError::Trouble(match failed {
            FileFailure::Trouble(trouble) => trouble,
            FileFailure::Missing => Trouble::Cut("the store has given up an upload".to_owned()),
            FileFailure::Length | FileFailure::Unchanged | FileFailure::Refused => {
                Trouble::Other("an answer that does not belong to the request".to_owned())
            }
        })
    }
}

//! Why a command at a bucket failed.

use dmv_net::ops::{OpsError, SessionError};

/// Why a command at a bucket failed. `R` says why the bucket's own state does not allow it.
#[derive(Debug, thiserror::Error)]
pub enum AtBucketError<R> {
    /// The repository or the bucket cannot be read or written.
    #[error(transparent)]
    Failed(OpsError),
    /// Nothing was changed.
    #[error(transparent)]
    Refused(R),
}

impl<R> From<Box<SessionError>> for AtBucketError<R> {
    fn from(e: Box<SessionError>) -> AtBucketError<R> {
        AtBucketError::Failed(e.into())
    }
}

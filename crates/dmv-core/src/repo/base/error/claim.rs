//! Why claims cannot be made or kept.

use crate::claims::BookError;
use crate::object::name::escape;

/// Nothing was claimed or released.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The user has no key, or it cannot be used.
    #[error("cannot sign the claim: {0}")]
    Unsigned(String),
    /// A text of the claim breaks a limit or rule of the format.
    #[error("cannot claim: {0}")]
    Text(&'static str),
    /// There are too many claims.
    #[error("cannot claim: {0}")]
    Full(#[from] BookError),
    /// A path is the root.
    #[error("cannot claim the whole repository; name files or directories")]
    Root,
    /// The user has no claim on a path.
    #[error("you have no claim on '{}'", escape(.0))]
    None(Vec<u8>),
    /// A device has no claim on a path.
    #[error("that device has no claim on '{}'", escape(.0))]
    NoneOfDevice(Vec<u8>),
}

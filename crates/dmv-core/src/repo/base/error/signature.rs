//! Why a push is refused where only signed commits are taken.

use crate::hash::ObjectId;

/// A push brings a commit without a good signature. Nothing was pushed.
#[derive(Debug, thiserror::Error)]
#[error(
    "commit {} {why}, and only commits that a known device has signed are taken there; nothing was pushed",
    id.short(12)
)]
pub struct UntrustedCommit {
    /// The commit.
    pub id: ObjectId,
    /// What is wrong with its signature.
    pub why: String,
}

//! Why a push is refused where only signed commits are taken.

use crate::hash::ObjectId;
use crate::object::name::escape;

/// A push brings a commit without a good signature. Nothing was pushed.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} {why}, and only commits that a known device has signed are taken there; nothing was pushed",
    what(id, tag.as_deref())
)]
pub struct UntrustedCommit {
    /// The commit.
    pub id: ObjectId,
    /// The tag that it is pushed as. An annotated tag has a commit of its own, which no log shows.
    pub tag: Option<String>,
    /// What is wrong with its signature.
    pub why: String,
}

fn what(id: &ObjectId, tag: Option<&str>) -> String {
    match tag {
        Some(tag) => format!("the tag '{}'", escape(tag.as_bytes())),
        None => format!("commit {}", id.short(12)),
    }
}

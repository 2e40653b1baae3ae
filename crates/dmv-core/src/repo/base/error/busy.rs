//! Errors of waiting for other commands: `base::lock`, `keeping`, `refused`.

use crate::locks::{self, Holder};

/// Another command is in the way. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BusyError {
    /// Another command is changing this worktree.
    #[error("another dmv command is changing this worktree{}", locks::told(.0))]
    Worktree(Option<Holder>),
    /// Content that this command has stored was purged while it ran. Nothing was published.
    #[error(
        "content that this command was about to store was purged meanwhile; nothing was changed"
    )]
    PurgedMeanwhile,
    /// An undo runs beside `op expire`.
    #[error("another command is undoing an operation, or shortening what undo can reach{}", locks::told(.0))]
    Reaching(Option<Holder>),
    /// Another command is freeing space, or a peer relies on this repository not to free any.
    #[error("another command is freeing space, or a peer relies on objects of this repository{}", locks::told(.0))]
    Freeing(Option<Holder>),
}

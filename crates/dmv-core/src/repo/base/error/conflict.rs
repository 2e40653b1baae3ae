//! Errors of conflicts: room `conflict` and `verbs::resolve`.

use crate::object::name::escape;

/// A conflict cannot be stored, found or resolved.
#[derive(Debug, thiserror::Error)]
pub enum ConflictError {
    /// A choice for a conflict would overwrite a manual edit of its file.
    #[error(
        "{}{} not overwritten: {} by hand",
        escape(&paths[0]),
        match paths.len() {
            1 => " is".to_owned(),
            n => format!(" and {} more are", n - 1),
        },
        if *settled { "the conflict was settled" } else { "the file was edited" }
    )]
    EditedByHand {
        /// The conflicts, or the files that are in the way of a choice for them.
        paths: Vec<Vec<u8>>,
        /// Whether the conflicts no longer show in the files.
        settled: bool,
    },
    /// A conflict would have more sides than the format allows.
    #[error(
        "the conflict at '{}' would have too many sides; resolve the existing conflict first",
        escape(path)
    )]
    TooManySides {
        /// The path of the conflict.
        path: Vec<u8>,
    },
    /// There is no conflict at or under this path.
    #[error("there is no conflict at '{}'", escape(path))]
    NoConflict {
        /// The path.
        path: Vec<u8>,
    },
    /// The version that was to settle a conflict has conflicts of its own. The worktree cannot show
    /// them there.
    #[error(
        "the chosen version of '{}' has a conflict of its own at '{}'; nothing was changed",
        escape(path),
        escape(inner)
    )]
    NestedConflict {
        /// The path of the conflict.
        path: Vec<u8>,
        /// The path of the first conflict in the version.
        inner: Vec<u8>,
        /// Where the worktree shows the version, if it is one.
        shown_at: Option<Vec<u8>>,
    },
}

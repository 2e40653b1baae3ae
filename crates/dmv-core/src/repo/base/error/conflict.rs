//! Errors of conflicts: room `conflict` and `verbs::resolve`.

use crate::object::name::RepoPath;
use crate::path::DiskPath;

/// A conflict cannot be stored, found or resolved.
#[derive(Debug, thiserror::Error)]
pub enum ConflictError {
    /// A choice for a conflict would overwrite a manual edit of its file.
    #[error(
        "{}{} not overwritten: {} by hand",
        paths[0],
        match paths.len() {
            1 => " is".to_owned(),
            n => format!(" and {} more are", n - 1),
        },
        if *settled { "the conflict was settled" } else { "the file was edited" }
    )]
    EditedByHand {
        /// The conflicts, or the files that are in the way of a choice for them.
        paths: Vec<DiskPath>,
        /// Whether the conflicts no longer show in the files.
        settled: bool,
    },
    /// A conflict would have more sides than the format allows.
    #[error(
        "the conflict at '{path}' would have too many sides; resolve the existing conflict first"
    )]
    TooManySides {
        /// The path of the conflict.
        path: RepoPath,
    },
    /// A command would change files that show a conflict which is not settled.
    #[error("the stash changes '{path}', which has an unresolved conflict; nothing was changed")]
    Unresolved {
        /// The path of the conflict.
        path: RepoPath,
    },
    /// A conflict was put aside with its files.
    #[error(
        "the conflict at '{path}' is in stash {stash}, and its files are not here; nothing was changed"
    )]
    PutAside {
        /// The path of the conflict.
        path: RepoPath,
        /// The number of the stash, counted from the newest.
        stash: usize,
    },
    /// There is no conflict at or under this path.
    #[error("{}", no_conflict(path))]
    NoConflict {
        /// The path; the root's where all were meant.
        path: RepoPath,
    },
    /// The version that was to settle a conflict has conflicts of its own. The worktree cannot show
    /// them there.
    #[error(
        "the chosen version of '{path}' has a conflict of its own at '{inner}'; nothing was changed"
    )]
    NestedConflict {
        /// The path of the conflict.
        path: RepoPath,
        /// The path of the first conflict in the version.
        inner: RepoPath,
        /// Where the worktree shows the version, if it is one.
        shown_at: Option<RepoPath>,
    },
}

fn no_conflict(path: &RepoPath) -> String {
    if path.is_root() {
        "there are no conflicts".to_owned()
    } else {
        format!("there is no conflict at '{path}'")
    }
}

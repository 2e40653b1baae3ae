//! Errors of undoing operations: `verbs::undo`, `base::window`.

use crate::refs::Timestamp;
use std::path::PathBuf;

/// An operation cannot be undone or redone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// An operation id matches no operation, or several.
    #[error("{} '{id}'", if *ambiguous { "several operations start with" } else { "there is no operation" })]
    NoOperation {
        /// The id or its first digits, as given.
        id: String,
        /// Whether several operations match.
        ambiguous: bool,
    },
    /// This worktree has no operation to undo.
    #[error("there is nothing to undo in this worktree")]
    NothingToUndo,
    /// This worktree has no undone operation since its last one.
    #[error("there is nothing to redo in this worktree")]
    NothingToRedo,
    /// A later operation changed the same keys or files.
    #[error("operation {operation} {}", since(what, *undone, by.as_deref()))]
    ChangedSince {
        /// The operation that was to be undone.
        operation: String,
        /// What was changed again.
        what: String,
        /// Whether the later change was the undo of this operation.
        undone: bool,
        /// The last operation that changed it.
        by: Option<Box<LaterChange>>,
    },
    /// The operation added a worktree in which something was done since.
    #[error(
        "operation {operation} cannot be undone: the worktree at {} was used since it was added; nothing was undone",
        path.display()
    )]
    WorktreeUsed {
        /// The operation.
        operation: String,
        /// The directory of the worktree.
        path: PathBuf,
    },
    /// The operation cannot be undone in the current state.
    #[error("operation {operation} cannot be undone: {why}")]
    NotUndone {
        /// The operation.
        operation: String,
        /// Why not.
        why: String,
    },
    /// The operation added the worktree that the undo runs in.
    #[error(
        "operation {operation} added the worktree that this command runs in; nothing was undone"
    )]
    OwnWorktree {
        /// The operation.
        operation: String,
    },
    /// The operation added a worktree that is no longer at its place. Its files may be elsewhere.
    #[error("the worktree at {} was moved or deleted; nothing was undone", path.display())]
    WorktreeNotThere {
        /// Where it was last.
        path: PathBuf,
    },
    /// The last operation is a purge, which cannot be undone.
    #[error(
        "the last operation is a purge ({operation}), which cannot be undone; nothing was undone"
    )]
    UndoOfPurge {
        /// The purge.
        operation: String,
        /// The operation that the undo would otherwise take back, and its command.
        before: Option<(String, String)>,
    },
    /// The last operation overwrote files that were too large to keep.
    #[error(
        "the last operation ({operation}: {command}) cannot be undone: what it overwrote was too \
         large to keep; nothing was undone"
    )]
    UndoOfUnkept {
        /// The operation.
        operation: String,
        /// Its command line.
        command: String,
        /// The operation that the undo would otherwise take back, and its command.
        before: Option<(String, String)>,
    },
    /// Undo cannot reach the operation any more: what it named may be freed.
    #[error("operation {operation} is out of reach{}", out_since(by, at.as_ref()))]
    Expired {
        /// The operation.
        operation: String,
        /// The command that did it.
        by: &'static str,
        /// When it ran last.
        at: Option<Timestamp>,
    },
}

fn out_since(by: &str, at: Option<&Timestamp>) -> String {
    let on = at.map(|at| format!(" of {}", at.date()));
    format!(" since '{by}'{}", on.unwrap_or_default())
}

/// An operation that changed what another one had set.
#[derive(Debug)]
pub struct LaterChange {
    /// The operation.
    pub operation: String,
    /// Its command line.
    pub command: String,
    /// Where it was done, if that was in another worktree.
    pub at: Option<PathBuf>,
}

fn since(what: &str, undone: bool, by: Option<&LaterChange>) -> String {
    match by {
        Some(by) if undone => format!("was already undone by operation {}", by.operation),
        Some(LaterChange {
            operation, command, ..
        }) => {
            format!("cannot be undone: operation {operation} ({command}) changed {what} later")
        }
        None => format!("cannot be undone: {what} has changed since"),
    }
}

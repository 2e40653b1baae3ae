//! Three-way merge of trees, with conflicts as data.
//!
//! [`merge_commits`] brings two histories together, [`merge_trees`] does the same for three given
//! trees. A merge always completes: what it cannot decide becomes a conflict entry that keeps every
//! side by id. The walk enters only directories that both sides changed, and reads content only of
//! files that both sides changed; nothing recurses. Objects are read and written through traits:
//! where they lie, and what a worktree makes of a conflict, is not known here.
//!
//! Why it decides as it does: docs/decisions.md.

mod bases;
mod content;
mod edit;
mod rename;
mod terms;
mod text;
mod walk;

pub use bases::merge_commits;
pub use content::{is_text, read_text, unread, write_blob};
pub use edit::{Edits, edit_tree};
pub use terms::ConflictKind;
pub use text::{Marked, marked_text};
pub use walk::{entry_of, read_conflict};

use crate::diff::lines::Cancelled;
use crate::hash::ObjectId;
use crate::object::conflict::Conflict;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::TreeSummary;
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use rename::Moves;
use std::sync::atomic::AtomicBool;
use walk::Walk;

/// The three states of a merge; without a base everything was made by both sides.
#[derive(Clone, Copy, Debug)]
pub struct Trees {
    /// What both sides started from.
    pub base: Option<ObjectId>,
    /// The side that is merged into.
    pub ours: ObjectId,
    /// The side that is merged.
    pub theirs: ObjectId,
}

/// A conflict that a merge made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConflict {
    /// Where its entry is.
    pub path: RepoPath,
    /// The conflict object.
    pub id: ObjectId,
    /// What it holds.
    pub conflict: Conflict,
}

/// A file or directory that one side has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where the base has it.
    pub from: RepoPath,
    /// Where that side has it.
    pub to: RepoPath,
}

/// What a merge made.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The tree, with all its objects handed to the writer.
    pub tree: TreeSummary,
    /// Conflicts that were decided on here, in path order. Those that came with a side's unchanged
    /// directories are not among them.
    pub conflicts: Vec<NewConflict>,
    /// Moves of one side that the other side's changes were carried along.
    pub moves: Vec<Moved>,
    /// Whether there was too much to look for moves among all of it.
    pub moves_skipped: bool,
    /// Where texts are in conflict that differ too much to tell all changes apart.
    pub coarse: Vec<RepoPath>,
    /// Bytes of file content read.
    pub content_bytes: u64,
}

impl Merged {
    /// A tree that came about without a merge.
    pub fn of_tree(tree: TreeSummary) -> Merged {
        Merged {
            tree,
            conflicts: Vec::new(),
            moves: Vec::new(),
            moves_skipped: false,
            coarse: Vec::new(),
            content_bytes: 0,
        }
    }
}

/// Why a merge could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// An object could not be read or kept.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The caller wanted it.
    #[error("cancelled")]
    Cancelled,
    /// What both sides changed is not all here, so nothing was decided.
    #[error("what both sides changed is not all here")]
    Lacking(Vec<Lack>),
    /// A conflict would have more sides than its format holds.
    #[error("too many unresolved sides meet at '{path}'")]
    TooManySides {
        /// Where.
        path: RepoPath,
    },
}

impl From<Cancelled> for MergeError {
    fn from(Cancelled: Cancelled) -> MergeError {
        MergeError::Cancelled
    }
}

/// Merges three trees.
///
/// Objects are put into `writer`; they need not be readable through `reader` before the end.
pub fn merge_trees(
    reader: &dyn ObjectRead,
    writer: &mut dyn ObjectWrite,
    trees: Trees,
    cancel: &AtomicBool,
) -> Result<Merged, MergeError> {
    let none = Moves::default();
    let plain = Walk::new(reader, writer, &none, trees, cancel).run()?;
    if plain.sources.iter().all(Vec::is_empty) {
        return Ok(plain.merged);
    }
    // Something was deleted on one side and changed on the other. Perhaps it was only moved.
    let found = rename::find(reader, trees, &plain.sources, cancel)?;
    let mut best = plain.merged;
    if !found.moves.is_empty() {
        let moved = Walk::new(reader, writer, &found.moves, trees, cancel).run()?;
        let first_bytes = best.content_bytes;
        // A move into a place that turned out to be in conflict itself cannot be followed.
        if moved.followed == found.moves.len() {
            best = moved.merged;
            best.moves = found.moves.listed();
        }
        best.content_bytes += first_bytes;
    }
    best.moves_skipped = found.skipped;
    best.content_bytes += found.content_bytes;
    Ok(best)
}

#[cfg(test)]
mod tests;

//! Three-way merge of trees, with conflicts as data.
//!
//! [`merge_commits`] merges two histories, [`merge_trees`] merges three given trees. No conflict
//! stops a merge: what it cannot decide becomes a conflict entry that stores every side by id. The
//! walk enters only directories that both sides changed, and reads only files that both sides
//! changed. Nothing recurses.
//!
//! The room reads and writes objects through traits. It knows neither their place nor how a
//! worktree shows a conflict. `repo` uses it. The reasons for its decisions: docs/decisions/merging.md.

mod bases;
mod content;
mod edit;
mod rename;
mod terms;
mod text;
mod walk;

pub use bases::merge_commits;
pub use content::{is_text, read_text, unread, write_blob};
pub use edit::{
    EditSource, Edits, EditsOf, NewContent, borrow_edits, edit_stored_tree, edit_tree, edit_tree_of,
};
pub use terms::ConflictKind;
pub(crate) use text::{MergedText, any_marker_line, marked_text, marker_line};
pub use walk::entry_of;
pub(crate) use walk::read_conflict;

use crate::hash::ObjectId;
use crate::job::Cancelled;
use crate::object::conflict::Conflict;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::TreeSummary;
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use rename::Moves;
use std::sync::atomic::AtomicBool;
use walk::Walk;

/// The three states of a merge. Without a base, both sides added everything.
#[derive(Clone, Copy, Debug)]
pub struct Trees {
    /// The tree that both sides started from.
    pub base: Option<ObjectId>,
    /// The side that is merged into.
    pub ours: ObjectId,
    /// The side that is merged.
    pub theirs: ObjectId,
}

/// A conflict that a merge made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConflict {
    /// The path of its entry.
    pub path: RepoPath,
    /// The conflict object.
    pub id: ObjectId,
    /// The content of the conflict object.
    pub conflict: Conflict,
}

/// A file or directory that one side has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedEntry {
    /// Its path in the base.
    pub from: RepoPath,
    /// Its path on that side.
    pub to: RepoPath,
}

/// The result of a merge.
#[derive(Clone, Debug)]
pub struct MergeResult {
    /// The tree, with all its objects passed to the writer.
    pub tree: TreeSummary,
    /// Conflicts that this merge made, in path order. Conflicts in unchanged directories of a side
    /// are not included.
    pub conflicts: Vec<NewConflict>,
    /// Moves on one side to which the changes of the other side were applied.
    pub moves: Vec<MovedEntry>,
    /// Whether a limit kept some files from the search for moves.
    pub moves_skipped: bool,
    /// Conflicts of texts that differ too much to separate all changes.
    pub coarse: Vec<RepoPath>,
    /// Bytes of file content read.
    pub content_bytes: u64,
}

impl MergeResult {
    /// Returns the result for a tree that needed no merge.
    pub(crate) fn of_tree(tree: TreeSummary) -> MergeResult {
        MergeResult {
            tree,
            conflicts: Vec::new(),
            moves: Vec::new(),
            moves_skipped: false,
            coarse: Vec::new(),
            content_bytes: 0,
        }
    }
}

/// Why a merge failed.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// An object could not be read or stored.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The caller cancelled the merge.
    #[error("cancelled")]
    Cancelled,
    /// Content that both sides changed is partly absent, so nothing was decided.
    #[error("some content that the merge needs is absent")]
    Lacking {
        /// The absent content.
        lacks: Vec<Lack>,
        /// A tree with conflicts where nothing was decided. It only serves to find what further
        /// merges lack.
        undecided: TreeSummary,
    },
    /// A conflict would have more sides than its format allows.
    #[error("the conflict at '{path}' would have too many sides")]
    TooManySides {
        /// The path of the conflict.
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
/// Objects are put into `writer`. They need not be readable through `reader` before the end.
pub fn merge_trees(
    reader: &dyn ObjectRead,
    writer: &mut dyn ObjectWrite,
    trees: Trees,
    cancel: &AtomicBool,
) -> Result<MergeResult, MergeError> {
    let none = Moves::default();
    let plain = Walk::new(reader, writer, &none, trees, cancel).run()?;
    if plain.sources.iter().all(Vec::is_empty) {
        return Ok(plain.merged);
    }
    // One side deleted something that the other changed. It may only have been moved.
    let found = rename::find(reader, trees, &plain.sources, cancel)?;
    drop(plain.sources);
    let mut best = plain.merged;
    if !found.moves.is_empty() {
        let moved = Walk::new(reader, writer, &found.moves, trees, cancel).run()?;
        let first_bytes = best.content_bytes;
        // A move to a path that is itself in conflict cannot be followed.
        if moved.followed == found.moves.len() {
            best = moved.merged;
            best.moves = found.moves.into_list();
        }
        best.content_bytes += first_bytes;
    }
    best.moves_skipped = found.skipped;
    best.content_bytes += found.content_bytes;
    Ok(best)
}

#[cfg(test)]
mod tests;

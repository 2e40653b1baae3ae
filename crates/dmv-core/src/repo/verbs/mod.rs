//! Commands that make new history or undo operations: merge, revert, cherry-pick, rebase, resolve,
//! reset, bisect, undo.
//!
//! Uses `base`, `look`, `conflict` and `files`. Only the facade uses it.

pub(in crate::repo) mod bisect;
pub(in crate::repo) mod mainline;
pub(in crate::repo) mod merge;
pub(in crate::repo) mod moved;
pub(in crate::repo) mod pick;
pub(in crate::repo) mod replaced;
pub(in crate::repo) mod replay;
pub(in crate::repo) mod reset;
pub(in crate::repo) mod resolve;
pub(in crate::repo) mod stash;
pub(in crate::repo) mod undo;

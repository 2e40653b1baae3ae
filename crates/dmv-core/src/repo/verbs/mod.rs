//! Commands that make new history or take back operations: merge, revert, resolve, reset, undo.
//!
//! Uses `base`, `look`, `conflict` and `files`.

pub(in crate::repo) mod merge;
pub(in crate::repo) mod moved;
pub(in crate::repo) mod replaced;
pub(in crate::repo) mod resolve;
pub(in crate::repo) mod undo;

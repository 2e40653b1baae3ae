//! Commands that make new history or undo operations: merge, revert, cherry-pick, rebase, resolve,
//! reset, bisect, claim, tag, undo.
//!
//! Uses `base`, `look`, `conflict`, `files` and `peers`. No room uses it.

pub mod arrival;
pub mod bisect;
pub mod claim;
pub mod mainline;
pub mod merge;
pub mod moved;
pub mod onto;
pub mod pick;
pub mod replaced;
pub mod replay;
pub mod reset;
pub mod resolve;
pub mod stash;
pub mod tag;
pub mod undo;

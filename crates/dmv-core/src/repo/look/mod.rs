//! Reading commits and history, without a worktree and without changing anything.
//!
//! This room uses `base`. `conflict`, `files`, `verbs`, `peers` and `upkeep` use it.

pub(in crate::repo) mod changed;
pub(in crate::repo) mod content;
mod dated;
pub(in crate::repo) mod entries;
pub(in crate::repo) mod history;
pub(in crate::repo) mod history_use;
pub(in crate::repo) mod lack;
pub(in crate::repo) mod moved;
pub(in crate::repo) mod operations;
pub(in crate::repo) mod revision;
pub(in crate::repo) mod stats;
pub(in crate::repo) mod stored;

//! Reading commits and history, without a worktree and without changing anything.
//!
//! This room uses `base`. `conflict`, `files`, `verbs`, `peers` and `upkeep` use it.

pub mod ages;
pub mod changed;
pub mod content;
pub mod copies;
mod dated;
pub mod entries;
pub mod history;
pub mod history_use;
pub mod lack;
pub mod moved;
pub mod newer;
pub mod operations;
pub mod revision;
pub mod stats;
pub mod stored;

//! The conflicts of commits: where they are, how files show them, and which choices settle them.
//!
//! This room uses `base` and `look`. It reads files of a worktree and writes none.

pub mod at;
pub mod choice;
pub mod choices;
pub mod form;
pub mod names;
pub mod nested;
pub mod pending;
pub mod settle;

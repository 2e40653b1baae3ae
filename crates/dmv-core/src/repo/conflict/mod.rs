//! The conflicts of commits: where they are, how files show them, and which choices settle them.
//!
//! This room uses `base` and `look`. It reads files of a worktree and writes none.

pub(in crate::repo) mod at;
pub(in crate::repo) mod choice;
pub(in crate::repo) mod choices;
pub(in crate::repo) mod form;
pub(in crate::repo) mod names;
pub(in crate::repo) mod nested;
pub(in crate::repo) mod pending;
pub(in crate::repo) mod settle;

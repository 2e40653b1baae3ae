//! The pages. Each collects its values once and shows them as HTML or, with `?json`, as JSON with the
//! names that the commands use.

pub mod claims;
pub mod compare;
pub mod conflicts;
pub mod copies;
pub mod doing;
pub mod file;
pub mod layout;
pub mod log;
pub mod log_changes;
pub mod origins;
pub mod overview;
pub mod parts;
pub mod places;
pub mod present;
pub mod remotes;
pub mod tree;
pub mod undo;
pub mod view;
pub mod worktree;

//! What several commands print: each file is about one kind of report. Nothing here knows a command.

#[cfg(feature = "store")]
pub mod bucket_space;
pub mod changes;
pub mod checkout;
pub mod claims;
pub mod claims_told;
pub mod folded_directories;
pub mod freed_space;
pub mod keep_rules;
pub mod merge;
pub mod newer;
pub mod pull;
pub mod push;
pub mod refs;
pub mod replaced_branches;
pub mod replay;
pub mod signatures;
pub mod tags;
pub mod undo;
#[cfg(feature = "store")]
pub mod undo_at_bucket;
pub mod whereis;
pub mod worktree_state;

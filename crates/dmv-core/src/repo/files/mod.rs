//! The worktree: its differences from a commit, switches to another commit, commits and exports.
//!
//! Uses `base`, `look` and `conflict`. `verbs` and `upkeep` use it.

pub mod blame;
pub mod checkout;
pub mod commit;
pub mod diff;
pub mod dropped;
pub mod emptied;
pub mod export;
pub mod guarded;
pub mod ignored;
pub mod intake;
pub mod large;
pub mod lean;
pub mod moving;
pub mod named;
pub mod notes;
pub mod open_worktree;
pub mod path_state;
pub mod pending;
pub mod portable;
pub mod private;
pub mod record;
pub mod remove;
pub mod rename;
pub mod same;
pub mod saved;
pub mod seen;
pub mod snapshot_of;
pub mod states;
pub mod status;
pub mod steps;
pub mod stored;
pub mod unfinished;
pub mod untouched;
pub mod untrack;
pub mod untracked;
pub mod unwritten;
pub mod who;
pub mod worktrees;

//! The worktree: its differences from a commit, switches to another commit, commits and exports.
//!
//! Uses `base`, `look` and `conflict`. `verbs` and `upkeep` use it.

pub(in crate::repo) mod blame;
pub(in crate::repo) mod checkout;
pub(in crate::repo) mod commit;
pub(in crate::repo) mod diff;
pub(in crate::repo) mod dropped;
pub(in crate::repo) mod emptied;
pub(in crate::repo) mod export;
pub(in crate::repo) mod ignored;
pub(in crate::repo) mod intake;
pub(in crate::repo) mod large;
pub(in crate::repo) mod moving;
pub(in crate::repo) mod named;
pub(in crate::repo) mod notes;
pub(in crate::repo) mod open_worktree;
pub(in crate::repo) mod path_state;
pub(in crate::repo) mod pending;
pub(in crate::repo) mod portable;
pub(in crate::repo) mod private;
pub(in crate::repo) mod record;
pub(in crate::repo) mod remove;
pub(in crate::repo) mod rename;
pub(in crate::repo) mod same;
pub(in crate::repo) mod saved;
pub(in crate::repo) mod seen;
pub(in crate::repo) mod snapshot_of;
pub(in crate::repo) mod status;
pub(in crate::repo) mod steps;
pub(in crate::repo) mod stored;
pub(in crate::repo) mod unfinished;
pub(in crate::repo) mod untouched;
pub(in crate::repo) mod untrack;
pub(in crate::repo) mod untracked;
pub(in crate::repo) mod unwritten;
pub(in crate::repo) mod who;
pub(in crate::repo) mod worktrees;

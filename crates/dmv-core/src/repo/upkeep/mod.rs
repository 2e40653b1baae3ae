//! Checking, repairing and freeing space.
//!
//! Uses `base`, `look` and `files`. No other room uses it.

pub(in crate::repo) mod drop;
pub(in crate::repo) mod forks;
pub(in crate::repo) mod heal;
pub(in crate::repo) mod recover;
pub(in crate::repo) mod verify;

//! Verify, heal, recover, drop, gc, repack, keep rules, expire, op expire, op forget and purge: checks and repairs
//! of a repository, and freeing of space.
//!
//! Uses `base`, `look` and `files`. Only the facade uses it.

mod ages;
pub(in crate::repo) mod budget;
pub(in crate::repo) mod drop;
pub(in crate::repo) mod expire;
pub(in crate::repo) mod expire_log;
pub(in crate::repo) mod forget_log;
pub(in crate::repo) mod forks;
pub(in crate::repo) mod gc;
pub(in crate::repo) mod heal;
pub(in crate::repo) mod purge;
pub(in crate::repo) mod recover;
pub(in crate::repo) mod repack;
mod room;
pub(in crate::repo) mod roots;
pub(in crate::repo) mod rules;
pub(in crate::repo) mod verify;
mod versions;

//! Verify, heal, recover, drop, gc, repack, keep rules, expire, op expire, op forget and purge: checks and repairs
//! of a repository, and freeing of space.
//!
//! Uses `base`, `look` and `files`. No room uses it.

pub mod budget;
pub mod changed;
pub mod drop;
pub mod expire;
pub mod expire_log;
pub mod forget_log;
pub mod forks;
pub mod gc;
pub mod heal;
pub mod purge;
pub mod recover;
pub mod repack;
mod room;
pub mod roots;
pub mod rules;
pub mod verify;
mod versions;

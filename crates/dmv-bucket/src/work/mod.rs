//! Work at a bucket: what the state machines of `machines` leave to their caller.
//!
//! - [`access`]: what the work needs.
//! - `amend`: small changes of a root.
//! - [`ask`]: carries out the requests of the machines; [`drive`]: carries a machine to its end.
//! - [`unanswered`]: what a device notes of an operation that may have been published.
//! - [`mod@write`]: a push: what to upload, in packs, in parts, with a note for the next try.
//! - [`free`]: gc: what nothing needs any more.
//! - [`operations`]: the operations at a bucket; [`log`]: taking one back.
//! - [`error`]: why work at a bucket failed.
//! - [`recover`]: what is left when the root is lost, and a new root.
//! - [`cache`]: copies of what a device has read of a bucket.
//! - [`known`]: hints about where the objects of a bucket lie.
//!
//! The room uses threads, and files below the repository's own directory. It
//! knows no address and no connection: a transport gives it [`Files`](crate::files::Files).

pub mod access;
mod amend;
pub mod ask;
pub mod cache;
pub mod drive;
pub mod error;
pub mod free;
pub mod known;
pub mod log;
pub mod operations;
pub mod recover;
pub mod unanswered;
pub mod write;

#[cfg(test)]
mod troubles;

//! Work at a bucket: what the state machines of `machines` leave to their caller.
//!
//! - [`access`]: what the work needs.
//! - `amend`: small changes of a root.
//! - [`client`]: carries out the requests of the machines; [`drive`]: carries a machine to its end.
//! - [`attempt_note`]: what a device notes of an operation that may have been published.
//! - [`claims`]: telling claims.
//! - [`push`]: a push: what to upload, in packs, in parts, with a note for the next try.
//! - [`gc`]: gc: what nothing needs any more.
//! - [`log`]: the operations at a bucket; [`undo`]: taking one back.
//! - [`error`]: why work at a bucket failed.
//! - `parallel`: the same work on many items.
//! - [`recover`]: what is left when the root is lost, and a new root.
//! - [`cache`]: copies of what a device has read of a bucket.
//! - [`hints`]: hints about where the objects of a bucket lie.
//!
//! The room uses threads, and files below the repository's own directory. It
//! knows no address and no connection: a transport gives it [`Files`](crate::files::Files).

pub mod access;
mod amend;
pub mod attempt_note;
pub mod cache;
pub mod claims;
pub mod client;
pub mod drive;
pub mod error;
pub mod gc;
pub mod hints;
pub mod log;
mod parallel;
pub mod push;
pub mod recover;
pub mod undo;

#[cfg(test)]
mod refusing_store;

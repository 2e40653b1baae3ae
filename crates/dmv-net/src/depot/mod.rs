//! Work at a bucket: what the state machines of `bucket` leave to their caller.
//!
//! - [`ask`]: carries out the requests of the machines.
//! - [`mod@write`]: a push: what to upload, in packs, in parts, with a note for the next try.
//! - [`foresee`]: what a push would send.
//! - [`free`]: gc: what nothing needs any more.
//! - [`log`]: the operations at a bucket, and taking one back.
//! - [`recover`]: what is left when the root is lost, and a new root.
//! - [`cache`]: copies of what a device has read of a bucket.
//! - [`known`]: hints about where the objects of a bucket lie.
//!
//! The room uses threads, and files below the repository's own directory. It may use `bucket`. It
//! knows no address and no connection: a transport gives it [`Files`](crate::bucket::files::Files).

pub mod ask;
pub mod cache;
pub mod foresee;
pub mod free;
pub mod known;
pub mod log;
pub mod recover;
pub mod write;

#[cfg(test)]
mod troubles;

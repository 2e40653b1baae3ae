//! A repository in an object store with many writers and no server of ours: docs/format/bucket.md.
//!
//! The program (`dmv-cli`) uses this crate, and hands it to the commands of `dmv-net` as
//! [`Buckets`](dmv_net::ops::Buckets). Rooms from the bottom up:
//!
//! - `format`: the bytes of the files in a bucket. Each of them is hostile until it is decoded.
//! - [`machines`]: push, gc and fetch as state machines: each call takes the answer to the last request
//!   and returns the next one. They use no socket, file, clock or randomness, so a seed replays
//!   every run of their simulation.
//! - [`files`]: what the others ask of a transport for object stores.
//! - [`ranges`]: which byte ranges of which files to read for some wanted places.
//! - [`frames`]: what a reader knows of the packs, and how reads become frames.
//! - [`work`]: work at a bucket: it carries out the requests of the machines, uploads, frees and recovers,
//!   and notes on the device what it has seen.
//! - [`peer`]: a bucket as the other side of a session.
//! - `store`: the files of a bucket in S3 and the like.
//! - `ops`: complete commands at a bucket.

pub mod files;
pub mod format;
pub mod frames;
pub mod machines;
#[cfg(feature = "store")]
pub mod ops;
pub mod peer;
pub mod ranges;
#[cfg(feature = "store")]
pub mod store;
pub mod work;

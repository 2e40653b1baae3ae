//! A repository in an object store with many writers and no server of ours: docs/format/bucket.md.
//!
//! - [`mod@format`]: the bytes of the files in a bucket. Each of them is hostile until it is decoded.
//! - [`core`]: push, gc and fetch as state machines: each call takes the answer to the last request
//!   and returns the next one. They use no socket, file, clock or randomness, so a seed replays
//!   every run of their simulation.
//! - [`ranges`]: which byte ranges of which files to read for some wanted places.
//! - [`read`]: what a reader knows of the packs, and how reads become frames.
//! - [`files`]: what the engine asks of a transport for object stores.
//! - [`trouble`]: why a store does not do what it was asked.
//!
//! The room knows `dmv-core` and nothing else of this crate. It sends nothing itself: `depot` carries
//! out the requests, over a transport for object stores. It walks no objects either: what to upload
//! and what is still needed is the work that the machines give to their caller.

pub mod core;
pub mod files;
pub mod format;
#[cfg(test)]
pub(crate) mod mem;
pub mod ranges;
pub mod read;
pub mod trouble;

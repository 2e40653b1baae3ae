//! What a reader of a bucket knows of its packs, as values: where objects are, and how reads of byte
//! ranges become frames.
//!
//! Nothing here is trusted: tables and places only say where to look. A reader hashes what
//! is found.

mod cut;
mod tables;

pub use cut::{Cut, Cuts, Each, MAX_RECORD_BYTES};
pub use tables::Tables;

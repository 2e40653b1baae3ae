//! Bytes and names against the pages of docs/format.

pub mod claims;
mod names;
pub mod nasty;
mod vectors;

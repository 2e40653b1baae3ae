//! Bytes and names against the pages of docs/format.

mod names;
pub mod nasty;
mod vectors;

//! Bytes and names against the pages of docs/format.

mod names;
mod nasty;
mod vectors;

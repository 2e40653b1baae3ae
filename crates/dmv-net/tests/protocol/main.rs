//! The protocol's bytes, and how long it waits.

mod patience;
mod vectors;

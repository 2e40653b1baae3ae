//! The bytes of the protocol and of buckets, and how long the protocol waits.

mod bucket_vectors;
mod patience;
mod vectors;

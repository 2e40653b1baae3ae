//! The bytes of the protocol and of buckets, how long the protocol waits, and the files of a bucket.

mod bucket_vectors;
mod patience;
mod store;
mod vectors;

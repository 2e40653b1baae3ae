//! Seeded corpora for benchmarks.
//!
//! [`corpus`] and [`edit`] write input that depends on a seed alone.

pub mod corpus;
pub mod edit;
pub mod prng;

//! The test kit: a file layer that crashes, a seeded random source, scratch repositories.

pub mod crashlab;
pub mod rng;
pub mod scratch;
pub mod simfs;

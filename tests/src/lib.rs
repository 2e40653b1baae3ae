//! The test kit: a file layer that crashes, a seeded random source, scratch repositories, peers good and bad.

pub mod crashlab;
pub mod evil;
pub mod peers;
pub mod rng;
pub mod scratch;
pub mod simfs;

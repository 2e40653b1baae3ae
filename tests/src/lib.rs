//! The test kit: file layers that crash, that count and that fail, a seeded random source, scratch repositories, packs that share objects, peers good and bad,
//! somebody who edits while a command runs.

pub mod countvfs;
pub mod crashlab;
pub mod drops;
pub mod evil;
pub mod mutator;
pub mod packs;
pub mod peers;
pub mod rng;
pub mod scratch;
pub mod simfs;

//! The test kit of `tests/tests`. It may use `dmv-core` and `dmv-net`.
//!
//! - File layers: [`simfs`] crashes and fails, [`countvfs`] counts reads, [`hookvfs`] runs something
//!   before an operation. [`crashlab`] runs commits on a disk that crashes.
//! - Repositories: [`scratch`] makes them, [`packs`] makes packs that share objects, [`drops`]
//!   drops files, [`garbage`] makes objects that nothing names, [`freeing`] frees them.
//! - Peers: [`peers`] are honest, [`evil`] ones break the protocol.
//! - [`bucket`] is a bucket in memory, and writes packs to it.
//! - [`graph`] makes histories of any shape, for DMV and for Git.
//! - [`verbs`] is a model of all commands, which foretells what they do to files and commits.
//! - [`mutator`] edits a worktree while a command runs. [`rng`] is a seeded source of random
//!   numbers, which the tests of all crates use.

pub mod bucket;
pub mod countvfs;
pub mod crashlab;
pub mod drops;
pub mod evil;
pub mod freeing;
pub mod garbage;
pub mod graph;
pub mod hookvfs;
pub mod lab;
pub mod mutator;
pub mod packs;
pub mod peers;
pub mod scratch;
pub mod server;
pub mod simfs;
pub mod verbs;

pub use dmv_random as rng;

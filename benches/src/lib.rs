//! Seeded corpora and the comparison of DMV with other tools.
//!
//! [`corpus`] and [`edit`] write input that depends on a seed alone. [`peers`] is the table of
//! tools; [`measure`] times one step of one tool; [`session`] takes a tool through a data set;
//! [`report`] turns the records into tables. [`files`], [`usage`] and [`trash`] serve them.
//!
//! A library only so that the binary `compare` and the micro-benchmarks share it.

pub mod corpus;
pub mod edit;
pub mod files;
pub mod prng;

#[cfg(target_os = "linux")]
pub mod measure;
#[cfg(target_os = "linux")]
pub mod peers;
#[cfg(target_os = "linux")]
pub mod report;
#[cfg(target_os = "linux")]
pub mod runner;
#[cfg(target_os = "linux")]
pub mod session;
#[cfg(target_os = "linux")]
pub mod trash;
#[cfg(target_os = "linux")]
pub mod usage;

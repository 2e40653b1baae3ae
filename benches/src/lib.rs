//! Seeded corpora and the comparison of DMV with other tools.
//!
//! [`corpus`] and [`edit`] write input that depends on a seed alone. [`peers`] is the table of
//! tools; [`measure`] times one step of one tool; [`session`] takes a tool through a data set;
//! [`tables`] turns the records of `compare` into tables. [`files`], [`usage`], [`trash`] and
//! [`size`] serve them.
//!
//! The experiments about growth: [`scaling`] knows their data, [`results`] keeps what was measured,
//! [`machine`] describes where; [`page`] and [`plot`] draw from the results alone.
//!
//! A library only so that the binaries `compare` and `report` and the micro-benchmarks share it.

pub mod corpus;
pub mod edit;
pub mod files;
pub mod prng;
pub mod size;

#[cfg(target_os = "linux")]
pub mod machine;
#[cfg(target_os = "linux")]
pub mod measure;
#[cfg(target_os = "linux")]
pub mod page;
#[cfg(target_os = "linux")]
pub mod peers;
#[cfg(target_os = "linux")]
pub mod plot;
#[cfg(target_os = "linux")]
pub mod results;
#[cfg(target_os = "linux")]
pub mod runner;
#[cfg(target_os = "linux")]
pub mod scaling;
#[cfg(target_os = "linux")]
pub mod session;
#[cfg(target_os = "linux")]
pub mod tables;
#[cfg(target_os = "linux")]
pub mod trash;
#[cfg(target_os = "linux")]
pub mod usage;

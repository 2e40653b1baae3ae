//! The whole program, disturbed: killed, with system calls that fail, on a machine that loses power.
//!
//! Each trial copies a template, runs one command, disturbs it, and lets fresh processes look at
//! what is left: nothing acknowledged is lost, each thing is as before or as after, `verify` finds
//! nothing, the same command arrives when it is run again, and the next one works. The counts, and
//! how to run more of them: docs/reliability.md.

// A run says how much it tried, and what it could not try.
#![allow(clippy::print_stdout)]

mod cases;
mod faults;
mod flips;
mod kills;
mod powercut;
mod state;
mod trial;
pub mod world;

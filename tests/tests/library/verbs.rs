//! Random commands against a model of all of them, in the library (`dmv_tests::verbs`).
//!
//! `DMV_VERBS=100000 cargo test -p dmv-tests --test library -- verbs::` runs many: `DMV_VERBS` is the number of
//! commands, `DMV_SEED` the seed of the first story.

// A test prints what it has done.
#![allow(clippy::print_stdout)]

use dmv_tests::peers::Done;
use dmv_tests::verbs::{Driver, Library, run_stories};
use std::path::Path;

#[test]
fn every_command_does_what_the_model_says() -> Done {
    let driver =
        |dir: &Path| -> Done<Box<dyn Driver>> { Ok(Box::new(Library::new(dir.join("hub")))) };
    let counts = run_stories((30, 250), "DMV_VERBS", &driver)?;
    println!("harness verbs: {counts}");
    Ok(())
}

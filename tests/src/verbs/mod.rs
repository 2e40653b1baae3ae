//! A model of all commands: random edits and commands in several worktrees of two repositories that
//! exchange commits over a third, and plain maps that say what each command should do.
//!
//! - [`plain`] holds the files as maps, and what commands do to them; [`content`] makes contents and edits.
//! - [`verb`] is the table of commands; [`expect`] foretells their results.
//! - [`site`] reads what is there; [`story`] runs commands and compares.
//! - [`library`] runs the commands in this process. The tests of the program run them as processes.

pub mod content;
pub mod expect;
pub mod library;
pub mod plain;
pub mod site;
pub mod story;
pub mod verb;

pub use library::Library;
pub use story::{Counts, Driver, Ending, Story};
pub use verb::{Side, Verb};

use crate::peers::Done;
use crate::rng::{number, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// How many commands a story has.
const COMMANDS: u64 = 250;

/// How many stories may fail before a run ends.
const FAILURES: usize = 20;

/// Runs stories until there were as many commands as the variable says. `driver` makes what runs them, from
/// the directory of a story. Fails with the seeds and steps of the stories that failed.
pub fn run_stories(
    usual: (u64, u64),
    variable: &str,
    driver: &dyn Fn(&Path) -> Done<Box<dyn Driver>>,
) -> Done<Counts> {
    let (mut seed, commands) = (seed(usual.0), number(variable, usual.1));
    let (mut all, mut failures) = (Counts::default(), Vec::new());
    let most = match story::kept_copy() {
        // The copy is of the first story that fails.
        Some(_) => 1,
        None => FAILURES,
    };
    while all.commands < commands && failures.len() < most {
        let dir = Story::dir()?;
        let driver = driver(dir.path())?;
        let mut story = Story::new(seed, dir, &*driver)?;
        let length = COMMANDS.min(commands - all.commands);
        let done = catch_unwind(AssertUnwindSafe(|| {
            story.run(length).map_err(|e| e.to_string())
        }));
        if let Err(e) = done.unwrap_or_else(|_| Err("it panicked".into())) {
            let told = story.told();
            failures.push(format!(
                "{told}\nFAILED: {e}\nDMV_SEED={seed} {variable}={length}"
            ));
        }
        all.add(&story.counts);
        seed += 1;
    }
    if failures.is_empty() {
        return Ok(all);
    }
    let count = failures.len();
    let failures = failures.join("\n\n");
    Err(StoryFailure(format!("{failures}\n{count} stories failed: {all}")).into())
}

/// The steps of a story and how it failed, line by line also where a test shows it by `Debug`.
struct StoryFailure(String);

impl std::fmt::Debug for StoryFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for StoryFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoryFailure {}

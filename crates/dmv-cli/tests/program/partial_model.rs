//! Random commands in a repository that holds everything and in two clones that hold a part of it,
//! while the others are here or away, against a model in memory. A failure prints its seed.
//!
//! `DMV_PART_STORIES` sets how many stories (2 by default), `DMV_SEED` where the numbers begin.

#![allow(clippy::print_stdout)]

mod model;
mod rearrange;
mod steps;
mod story;

use crate::place::Outcome;
use dmv_random::{number, seed};
use story::Story;

/// Commands of a story.
const STEPS: usize = 60;

#[test]
fn parts_of_a_repository_do_what_the_model_says() -> Outcome {
    let first = seed(1);
    let (mut lacked, mut merged) = (0, 0);
    let stories = number("DMV_PART_STORIES", 1);
    for seed in first..first + stories {
        println!("seed {seed}: DMV_SEED={seed} DMV_PART_STORIES=1");
        let told = |e| format!("seed {seed}: {e}");
        let mut story = Story::new(seed).map_err(told)?;
        for _ in 0..STEPS {
            story.step().map_err(told)?;
        }
        story.end().map_err(told)?;
        lacked += story.lacked;
        merged += story.merged;
    }
    println!(
        "harness partial: {stories} stories from seed {first}, {lacked} commands that lacked something, {merged} merges"
    );
    Ok(())
}

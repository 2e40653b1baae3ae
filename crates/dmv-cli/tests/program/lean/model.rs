//! Random commands in a lean clone, while its remote is here or away, against a model in memory: no command
//! loses what was committed while the remote lives. A failure prints its seed.
//!
//! `DMV_LEAN_STORIES` sets how many stories (2 by default), `DMV_SEED` where the numbers begin.

#![allow(clippy::print_stdout)]

use super::is_away;
use crate::place::several::{several, tip};
use crate::place::{Outcome, Place};
use dmv_random::{Rng, number, seed};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Commands of a story.
const STEPS: u64 = 40;
/// The paths that the story uses.
const PATHS: [&str; 6] = ["a", "b", "c", "d/e", "d/f", "g"];
/// Exit codes of refusals: incomplete, conflicts, refused, absent, no repository, no connection, and names that
/// do not exist.
const REFUSALS: [i32; 7] = [3, 4, 5, 6, 10, 13, 20];

type Files = BTreeMap<String, Vec<u8>>;

struct Story {
    place: Place,
    rng: Rng,
    away: bool,
    /// What was committed, by the id of the commit.
    commits: BTreeMap<String, Files>,
    refused: u64,
}

impl Story {
    fn new(seed: u64) -> Outcome<Story> {
        let (place, mut rng) = (several()?, Rng::new(seed));
        for path in PATHS {
            place.write(format!("film/{path}"), content(&mut rng))?;
        }
        place.ok(&["-C", "film", "commit", "-m", "start"])?;
        place.ok(&["clone", "--copy", "--bare", "film", "nas"])?;
        place.ok(&["clone", "--lean", "nas", "lap"])?;
        let mut story = Story {
            place,
            rng,
            away: false,
            commits: BTreeMap::new(),
            refused: 0,
        };
        story.note_commit()?;
        Ok(story)
    }

    fn path(&mut self) -> &'static str {
        PATHS[self.rng.below(PATHS.len() as u64) as usize]
    }

    fn file(&self, path: &str) -> PathBuf {
        self.place.work().join("lap").join(path)
    }

    /// Runs a command, which may refuse. Whoever is refused hears why.
    fn run(&mut self, args: &[&str]) -> Outcome<bool> {
        let mut all = vec!["-C", "lap"];
        all.extend(args);
        let done = self.place.run(&all)?;
        let code = done.status.code().unwrap_or(-1);
        if code == 0 {
            return Ok(true);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        if !REFUSALS.contains(&code) || said.trim().is_empty() {
            return Err(format!("{args:?} ended with {code}: {said}").into());
        }
        self.refused += 1;
        Ok(false)
    }

    /// Notes what the present commit has, as the worktree shows it.
    fn note_commit(&mut self) -> Outcome {
        let id = tip(&self.place, "lap", "@")?;
        let mut files = Files::new();
        for path in PATHS {
            if let Ok(bytes) = fs::read(self.file(path)) {
                files.insert(path.to_owned(), bytes);
            }
        }
        self.commits.insert(id, files);
        Ok(())
    }

    fn commit(&mut self) -> Outcome {
        // A merge may have left conflicts, which the model does not follow.
        let clean = |place: &Place| -> Outcome<bool> {
            let status = place.json(&["-C", "lap", "status", "--json"])?;
            Ok(status["conflicts"].as_array().is_none_or(Vec::is_empty))
        };
        if !clean(&self.place)? {
            self.run(&["resolve", "--all", "--ours"])?;
        }
        if self.run(&["commit", "-m", "step"])? && clean(&self.place)? {
            self.note_commit()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Outcome {
        let path = self.path();
        match self.rng.below(16) {
            0..3 => {
                let bytes = match fs::read(self.file(path)) {
                    // Most of it stays, so that versions share chunks.
                    Ok(mut bytes) if !bytes.is_empty() && self.rng.one_in(2) => {
                        let at = self.rng.below(bytes.len() as u64) as usize;
                        bytes[at] ^= 1;
                        bytes
                    }
                    _ => content(&mut self.rng),
                };
                fs::create_dir_all(self.place.work().join("lap/d"))?;
                fs::write(self.file(path), bytes)?;
            }
            3 => drop(fs::remove_file(self.file(path))),
            4 => {
                let to = self.path();
                if to != path {
                    self.run(&["mv", path, to])?;
                }
            }
            5 => drop(self.run(&["rm", path])?),
            6..8 => self.commit()?,
            8 => drop(self.run(&["push", "--all", "--force"])?),
            9 => {
                let name = format!("b{}", self.rng.below(3));
                if !self.run(&["checkout", "-b", &name])? {
                    self.run(&["checkout", &name])?;
                }
            }
            10 => {
                let at = self.rng.below(self.commits.len() as u64) as usize;
                let id = self.commits.keys().nth(at).cloned().unwrap_or_default();
                let mut args = vec!["checkout", &id];
                if self.rng.one_in(3) {
                    args.push("-f");
                }
                self.run(&args)?;
            }
            11 => {
                let name = format!("b{}", self.rng.below(3));
                self.run(&["merge", &name])?;
            }
            12 => drop(self.run(&["undo"])?),
            13 => drop(self.run(&["lean", "on"])?),
            14 => {
                let other: &[&str] = match self.rng.below(5) {
                    0 => &["drop", path],
                    1 => &["lean", "off"],
                    2 => &["gc", "--grace", "0s"],
                    3 => &["restore", path],
                    _ => &["reset", "--hard", "@"],
                };
                self.run(other)?;
            }
            _ => {
                self.away = !self.away;
                is_away(&self.place, self.away)?;
            }
        }
        self.check_one()
    }

    /// Reads a committed file. It has the right bytes, or the remote is away.
    fn check_one(&mut self) -> Outcome {
        let at = self.rng.below(self.commits.len() as u64) as usize;
        let Some((id, files)) = self.commits.iter().nth(at) else {
            return Ok(());
        };
        let path = PATHS[self.rng.below(PATHS.len() as u64) as usize];
        self.check(id, path, files.get(path).map(Vec::as_slice))
    }

    fn check(&self, id: &str, path: &str, bytes: Option<&[u8]>) -> Outcome {
        let Some(bytes) = bytes else {
            return Ok(());
        };
        let at = format!("{id}:{path}");
        let done = self.place.run(&["-C", "lap", "cat", &at])?;
        match done.status.code() {
            Some(0) if done.stdout == bytes => Ok(()),
            Some(6) if self.away && done.stdout.is_empty() => Ok(()),
            code => {
                let said = String::from_utf8_lossy(&done.stderr);
                Err(format!("{at} is lost or wrong: {code:?}, {said}").into())
            }
        }
    }

    /// With the remote, everything that was committed can be read.
    fn end(mut self) -> Outcome<u64> {
        if self.away {
            self.away = false;
            is_away(&self.place, false)?;
        }
        self.place.ok(&["-C", "lap", "verify", "--full"])?;
        for (id, files) in &self.commits {
            for (path, bytes) in files {
                self.check(id, path, Some(bytes))?;
            }
        }
        Ok(self.refused)
    }
}

fn content(rng: &mut Rng) -> Vec<u8> {
    let len = 1 + rng.below(600_000) as usize;
    rng.bytes(len)
}

#[test]
fn a_lean_clone_loses_nothing_while_the_remote_lives() -> Outcome {
    let first = seed(1);
    let stories = number("DMV_LEAN_STORIES", 1);
    let mut refused = 0;
    for seed in first..first + stories {
        println!("seed {seed}: DMV_SEED={seed} DMV_LEAN_STORIES=1");
        let told = |e| format!("seed {seed}: {e}");
        let mut story = Story::new(seed).map_err(told)?;
        for _ in 0..STEPS {
            story.step().map_err(told)?;
        }
        refused += story.end().map_err(told)?;
    }
    println!("harness lean: {stories} stories from seed {first}, {refused} refusals");
    Ok(())
}

//! Whoever commits and pushes, and gives up what the hub has.

use super::Tally;
use super::network::{Ended, run};
use crate::place::Place;
use dmv_random::{Rng, noise};
use std::collections::BTreeMap;

/// A worktree with a user.
pub struct Worker {
    pub name: &'static str,
    /// The repository of the worktree.
    pub repo: &'static str,
}

/// All of them. Each has its own branch, and files of its own.
pub const WORKERS: [Worker; 3] = [
    Worker {
        name: "film",
        repo: "film",
    },
    Worker {
        name: "film2",
        repo: "film",
    },
    Worker {
        name: "laptop",
        repo: "laptop",
    },
];

/// Contents that are the same for all workers, so that one frees what another commits again.
const COMMON: u64 = 8;

/// Bytes of a file of which there are versions.
const VERSIONED: usize = 400_000;
/// How far apart the bytes lie in which versions differ.
const STEP: usize = 3_000;

/// What a file has.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// So many bytes, others for each seed.
    Noise { seed: u64, len: usize },
    /// A version of a file that changes here and there, of which repack stores the difference.
    Version(u8),
}

impl Content {
    fn any(rng: &mut Rng) -> Content {
        match rng.below(4) {
            0 => Content::Noise {
                seed: rng.word() | 1 << 63,
                len: rng.below(3_000) as usize,
            },
            1 => Content::Version(rng.below(20) as u8),
            _ => {
                let seed = rng.below(COMMON);
                // Of one chunk, and of many.
                let len = [900, 5_000, 40_000, 400_000][seed as usize % 4];
                Content::Noise { seed, len }
            }
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        match self {
            Content::Noise { seed, len } => noise(seed, len),
            Content::Version(version) => {
                let mut bytes = noise(COMMON, VERSIONED);
                for at in (usize::from(version)..VERSIONED).step_by(STEP) {
                    bytes[at] ^= version;
                }
                bytes
            }
        }
    }
}

/// A commit that was acknowledged.
pub struct Made {
    pub by: &'static str,
    pub id: String,
    pub files: BTreeMap<String, Content>,
    /// Where it was pushed to.
    pub pushed: Vec<&'static str>,
}

/// A worker at work.
pub struct Work<'a> {
    place: &'a Place,
    worker: &'a Worker,
    rng: Rng,
    /// The commit that the worktree is on.
    head: String,
    /// New branches until now.
    branches: u64,
    pub made: Vec<Made>,
    pub tally: Tally,
}

impl<'a> Work<'a> {
    pub fn new(place: &'a Place, worker: &'a Worker, seed: u64) -> Result<Work<'a>, String> {
        let mut work = Work {
            place,
            worker,
            rng: Rng::new(seed),
            head: String::new(),
            branches: 0,
            made: Vec::new(),
            tally: Tally::default(),
        };
        work.head = work.look()?.0;
        Ok(work)
    }

    /// Does `rounds` things.
    pub fn run(mut self, rounds: u64) -> Result<Work<'a>, String> {
        for _ in 0..rounds {
            match self.rng.below(12) {
                0..=4 => drop(self.commit()?),
                5 => self.take_back()?,
                6 => self.scratch()?,
                7 => self.merge()?,
                8 | 9 => drop(self.push()?),
                _ => self.push_and_drop()?,
            }
            let (head, _) = self.look()?;
            if head != self.head {
                return Err(format!("{head} is not {}", self.head));
            }
        }
        Ok(self)
    }

    fn at(&mut self, args: &[&str]) -> Result<Ended, String> {
        let args = [&["-C", self.worker.name], args].concat();
        let ended = run(self.place, &mut self.rng, &args)?;
        self.tally.count(&ended);
        Ok(ended)
    }

    /// The commit that the worktree is on, and its parents.
    fn look(&self) -> Result<(String, Vec<String>), String> {
        let args = ["-C", self.worker.name, "log", "-n", "1", "--json"];
        let record = self.place.json(&args).map_err(|e| e.to_string())?;
        let id = record["id"].as_str().ok_or("a commit has an id")?;
        let parents = record["parents"].as_array().into_iter().flatten();
        let parents = parents.filter_map(|id| id.as_str().map(str::to_owned));
        Ok((id.to_owned(), parents.collect()))
    }

    /// After something that may have ended anywhere: the branch is where it was, or one commit further.
    fn moved_at_most_by_one(&mut self) -> Result<(), String> {
        let (head, parents) = self.look()?;
        if head != self.head && !parents.contains(&self.head) {
            return Err(format!("{head} does not follow {}", self.head));
        }
        self.head = head;
        Ok(())
    }

    /// Commits some files. Returns whether that was acknowledged.
    fn commit(&mut self) -> Result<bool, String> {
        let mut files = BTreeMap::new();
        for _ in 0..1 + self.rng.below(3) {
            let path = format!("{}/f{}", self.worker.name, self.rng.below(4));
            let content = Content::any(&mut self.rng);
            let at = format!("{}/{path}", self.worker.name);
            let written = self.place.write(at, content.bytes());
            written.map_err(|e| e.to_string())?;
            files.insert(path, content);
        }
        let ended = self.at(&["commit", "-m", "more", "--json"])?;
        let record = serde_json::from_str::<serde_json::Value>(&ended.out).ok();
        let id = record.as_ref().and_then(|record| record["commit"].as_str());
        let Some(id) = id.filter(|_| ended.code == Some(0)) else {
            self.moved_at_most_by_one()?;
            return Ok(false);
        };
        self.head = id.to_owned();
        self.made.push(Made {
            by: self.worker.name,
            id: id.to_owned(),
            files,
            pushed: Vec::new(),
        });
        Ok(true)
    }

    /// Replaces a commit, or undoes one, so that it becomes garbage.
    fn take_back(&mut self) -> Result<(), String> {
        if !self.commit()? {
            return Ok(());
        }
        match self.rng.below(2) {
            0 => self.at(&["undo"])?,
            _ => self.at(&["commit", "--amend", "-m", "amended"])?,
        };
        self.head = self.look()?.0;
        Ok(())
    }

    /// Pushes a branch that is deleted again, here and there.
    fn scratch(&mut self) -> Result<(), String> {
        let before = self.head.clone();
        if !self.commit()? {
            return Ok(());
        }
        self.branches += 1;
        let name = format!("scratch-{}-{}", self.worker.name, self.branches);
        self.at(&["branch", &name])?;
        self.at(&["push", "hub", &name])?;
        self.at(&["reset", "--hard", &before])?;
        self.head = self.look()?.0;
        self.at(&["push", "hub", "--force", "--delete", &name])?;
        self.at(&["branch", "-d", &name])?;
        Ok(())
    }

    /// Takes in what another worker has pushed. Their files are not the same.
    fn merge(&mut self) -> Result<(), String> {
        self.at(&["fetch", "hub"])?;
        let branch = ["main", "film2", "laptop"][self.rng.below(3) as usize];
        let theirs = format!("hub/{branch}");
        self.at(&["merge", &theirs])?;
        self.head = self.look()?.0;
        // One that was cut off may have written files.
        self.at(&["reset", "--hard"])?;
        Ok(())
    }

    /// Pushes to the hub and then to the archive. Returns whether both have acknowledged it.
    fn push(&mut self) -> Result<bool, String> {
        for hub in super::HUBS {
            let ended = self.at(&["push", hub])?;
            if ended.said.contains("pull first") || ended.code == Some(5) {
                return self.new_branch();
            }
            if ended.code != Some(0) {
                return Ok(false);
            }
            self.note_pushed(hub)?;
        }
        Ok(true)
    }

    /// After an undo or a reset, what was pushed earlier stays there on the branch of this name.
    fn new_branch(&mut self) -> Result<bool, String> {
        self.branches += 1;
        let name = format!("{}-{}", self.worker.name, self.branches);
        self.at(&["checkout", "-b", &name])?;
        Ok(false)
    }

    fn note_pushed(&mut self, hub: &'static str) -> Result<(), String> {
        let args = ["-C", self.worker.name, "log", "--json"];
        let commits = self.place.records(&args).map_err(|e| e.to_string())?;
        for made in &mut self.made {
            let is_of_it = |commit: &serde_json::Value| commit["id"] == made.id.as_str();
            if !made.pushed.contains(&hub) && commits.iter().any(is_of_it) {
                made.pushed.push(hub);
            }
        }
        Ok(())
    }

    /// Gives up some content here once both hubs have the branch.
    fn push_and_drop(&mut self) -> Result<(), String> {
        if self.push()? {
            let path = format!("{}/f{}", self.worker.name, self.rng.below(4));
            match self.rng.below(4) {
                0 => self.at(&["expire"])?,
                1 => self.at(&["get", &path])?,
                _ => self.at(&["drop", &path])?,
            };
        }
        Ok(())
    }
}

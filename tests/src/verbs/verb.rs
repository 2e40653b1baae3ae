//! The commands of the stories, and the table that chooses among them.

// Each variant's comment says what its fields are.
#![allow(missing_docs)]

use super::plain::Path;
use super::site::{Site, WorkState, World};
use crate::rng::Rng;
use dmv_core::hash::ObjectId;
use std::path::PathBuf;

/// A command in one worktree. Commits are named by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Commits everything, or these paths.
    Commit { paths: Vec<Path>, amend: bool },
    /// Switches to a branch.
    Checkout { branch: String, force: bool },
    /// Switches to a commit.
    Detach { commit: ObjectId, force: bool },
    /// Makes a branch and switches to it.
    SwitchNew { branch: String, at: ObjectId },
    /// Makes a branch.
    Branch { name: String, at: ObjectId },
    /// Deletes a branch.
    DeleteBranch { name: String },
    /// Renames a branch.
    RenameBranch { from: String, to: String },
    /// Makes a tag.
    Tag { name: String, at: ObjectId },
    /// Deletes a tag.
    DeleteTag { name: String },
    /// Merges a commit.
    Merge { commit: ObjectId, forward: bool },
    /// Takes back a commit by a new one.
    Revert { commit: ObjectId },
    /// Makes a commit's change again.
    CherryPick { commit: ObjectId },
    /// Makes the own commits again on another one.
    Rebase { onto: ObjectId },
    /// Moves the branch, and makes the files equal if `hard`.
    Reset { to: ObjectId, hard: bool },
    /// Puts changes aside.
    Stash { paths: Vec<Path> },
    /// Brings back changes, and forgets the stash if `pop`.
    Unstash { number: usize, pop: bool },
    /// Forgets a stash.
    DropStash { number: usize },
    /// Puts files back.
    Restore {
        from: Option<ObjectId>,
        paths: Vec<Path>,
    },
    /// Moves a file or directory.
    Move { from: Path, to: Path, force: bool },
    /// Removes files.
    Remove { path: Path, force: bool },
    /// Stops tracking files.
    Untrack { path: Path },
    /// Sets the subset; nothing: everything.
    SetSubset { paths: Vec<Path> },
    /// Adds to the subset.
    AddSubset { path: Path },
    /// Takes out of the subset.
    RemoveSubset { path: Path },
    /// Settles a conflict.
    Resolve { path: Path, side: Side },
    /// Begins a search for a bad commit.
    BisectStart { bad: ObjectId, good: ObjectId },
    /// Judges the present commit.
    BisectNote { good: bool },
    /// Passes over the present commit.
    BisectSkip,
    /// Ends the search.
    BisectEnd,
    /// Makes a further worktree.
    AddWorktree {
        dir: PathBuf,
        at: Result<String, ObjectId>,
    },
    /// Removes a worktree.
    RemoveWorktree { dir: PathBuf, force: bool },
    /// Fetches from the hub.
    Fetch,
    /// Fetches from the hub and merges.
    Pull,
    /// Fetches from the hub and takes over its branch.
    PullReset,
    /// Sends branches to the hub.
    Push { branch: String, force: bool },
    /// Exchanges commits with the hub.
    Sync,
    /// Takes back the last operation.
    Undo,
    /// Repeats what the last undo took back.
    Redo,
    /// Frees space.
    Gc,
    /// Packs anew.
    Repack,
    /// Shortens what undo can reach.
    ExpireOperations,
    /// Checks everything that is stored.
    Verify,
    /// Rebuilds the database.
    Recover,
    /// Frees content that the hub has.
    Drop { path: Path },
    /// Fetches content.
    Get { path: Path },
    /// Frees what unchanged files have, too, and from then on reads it there; or stores it again.
    Lean { on: bool },
    /// Sets a rule for old versions.
    Keep { path: Path, last: u32 },
    /// Gives up old versions by the rules.
    Expire,
    /// Removes content from all history.
    Purge { path: Path },
}

/// A version of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that was merged into.
    Ours,
    /// The one that was merged.
    Theirs,
    /// The one that both come from.
    Base,
    /// All of them.
    Both,
}

impl Verb {
    /// Returns whether a single `undo` takes the command back, if it has done anything.
    pub fn can_be_undone(&self) -> bool {
        !matches!(
            self,
            Verb::Fetch
                | Verb::Push { .. }
                | Verb::Sync
                | Verb::Undo
                | Verb::Redo
                | Verb::Pull
                | Verb::PullReset
        ) && !self.is_upkeep()
    }

    /// Returns whether the command touches neither files nor branches.
    pub fn is_upkeep(&self) -> bool {
        matches!(
            self,
            Verb::Gc
                | Verb::Repack
                | Verb::ExpireOperations
                | Verb::Verify
                | Verb::Recover
                | Verb::Drop { .. }
                | Verb::Get { .. }
                | Verb::Lean { .. }
                | Verb::Keep { .. }
                | Verb::Expire
                | Verb::Purge { .. }
        )
    }
}

/// Names of branches and tags, few enough to meet again.
const BRANCHES: [&str; 4] = ["main", "side", "x/y", "other"];

/// What a choice can refer to.
pub struct Chooser<'a> {
    /// All numbers come from here.
    pub rng: &'a mut Rng,
    /// The site that the command runs at.
    pub site: &'a Site,
    /// The worktree that the command runs in.
    pub work: &'a WorkState,
    /// All commits.
    pub world: &'a World,
}

impl Chooser<'_> {
    fn commit(&mut self) -> Option<ObjectId> {
        let tips = self.site.tips();
        let mut at = *tips.get(self.rng.below(tips.len() as u64) as usize)?;
        // Some steps back.
        while self.rng.one_in(2) {
            let parents = &self.world.known(&at)?.parents;
            at = *parents.get(self.rng.below(parents.len() as u64) as usize)?;
        }
        Some(at)
    }

    fn branch(&mut self) -> String {
        BRANCHES[self.rng.below(BRANCHES.len() as u64) as usize].to_owned()
    }

    /// Returns a file of the worktree or its commit, or a directory above one.
    fn path(&mut self) -> Option<Path> {
        let base = self.work.base.and_then(|id| self.world.known(&id));
        let mut all: Vec<&Path> = self.work.disk.keys().collect();
        all.extend(base.iter().flat_map(|known| known.files.keys()));
        all.retain(|path| !path.starts_with(b".dmv"));
        let mut path = (*all.get(self.rng.below(all.len() as u64) as usize)?).clone();
        while self.rng.one_in(3) {
            let slash = path.iter().rposition(|b| *b == b'/');
            path.truncate(slash.unwrap_or(path.len()));
        }
        (!path.is_empty()).then_some(path)
    }

    fn paths(&mut self) -> Vec<Path> {
        if self.rng.one_in(2) {
            return Vec::new();
        }
        if self.rng.one_in(8) {
            return vec![Path::new()];
        }
        (0..1 + self.rng.below(2))
            .filter_map(|_| self.path())
            .collect()
    }

    fn new_path(&mut self) -> Path {
        super::content::Writer::new(self.rng.word()).path()
    }

    /// Returns the next command; `None` where there is nothing that it could refer to.
    pub fn verb(&mut self) -> Option<Verb> {
        let force = self.rng.one_in(3);
        if !self.work.conflicts.is_empty() && self.rng.one_in(3) {
            let paths: Vec<&Path> = self.work.conflicts.iter().collect();
            let path = paths[self.rng.below(paths.len() as u64) as usize].clone();
            let sides = [Side::Ours, Side::Theirs, Side::Base, Side::Both];
            let side = sides[self.rng.below(4) as usize];
            return Some(Verb::Resolve { path, side });
        }
        Some(match self.rng.below(100) {
            0..=15 => Verb::Commit {
                paths: self.paths(),
                amend: self.rng.one_in(6),
            },
            16..=24 => Verb::Checkout {
                branch: self.branch(),
                force,
            },
            25..=26 => Verb::Detach {
                commit: self.commit()?,
                force,
            },
            27..=28 => Verb::SwitchNew {
                branch: self.branch(),
                at: self.commit()?,
            },
            29 => Verb::Branch {
                name: self.branch(),
                at: self.commit()?,
            },
            30 => Verb::DeleteBranch {
                name: self.branch(),
            },
            31 => Verb::RenameBranch {
                from: self.branch(),
                to: self.branch(),
            },
            32 => Verb::Tag {
                name: self.branch(),
                at: self.commit()?,
            },
            33 => Verb::DeleteTag {
                name: self.branch(),
            },
            34..=41 => Verb::Merge {
                commit: self.commit()?,
                forward: self.rng.below(4) > 0,
            },
            42..=43 => {
                // The first commit brought the ignore rules.
                let commit = self.commit()?;
                let has_parents = self
                    .world
                    .known(&commit)
                    .is_some_and(|known| !known.parents.is_empty());
                Verb::Revert {
                    commit: has_parents.then_some(commit)?,
                }
            }
            44..=46 => Verb::CherryPick {
                commit: self.commit()?,
            },
            47..=48 => Verb::Rebase {
                onto: self.commit()?,
            },
            49..=52 => Verb::Reset {
                to: self.commit()?,
                hard: self.rng.one_in(2),
            },
            53..=58 => Verb::Stash {
                paths: self.paths(),
            },
            59..=64 => Verb::Unstash {
                number: self.rng.below(2) as usize,
                pop: self.rng.below(3) > 0,
            },
            65 => Verb::DropStash {
                number: self.rng.below(2) as usize,
            },
            66..=69 => {
                let from = if force { Some(self.commit()?) } else { None };
                let mut paths = self.paths();
                if paths.is_empty() {
                    paths.push(Vec::new());
                }
                Verb::Restore { from, paths }
            }
            70..=73 => Verb::Move {
                from: self.path()?,
                to: self.new_path(),
                force,
            },
            74..=75 => Verb::Remove {
                path: self.path()?,
                force,
            },
            76 => Verb::Untrack { path: self.path()? },
            77 => Verb::SetSubset {
                paths: self.paths(),
            },
            78 if !self.work.subset.is_everything() => Verb::AddSubset { path: self.path()? },
            78 | 79 => Verb::RemoveSubset { path: self.path()? },
            80 => Verb::BisectStart {
                bad: self.commit()?,
                good: self.commit()?,
            },
            81 => Verb::BisectNote { good: force },
            82 if force => Verb::BisectSkip,
            82 => Verb::BisectEnd,
            83 => {
                let at = if force {
                    Err(self.commit()?)
                } else {
                    Ok(self.branch())
                };
                Verb::AddWorktree {
                    dir: self.site.free_dir()?,
                    at,
                }
            }
            84 => Verb::RemoveWorktree {
                dir: self.site.other_dir(&self.work.dir)?,
                force,
            },
            85 => Verb::Fetch,
            86..=87 => Verb::Pull,
            88 if force => Verb::PullReset,
            88..=90 => Verb::Push {
                branch: self.branch(),
                force,
            },
            91 => Verb::Sync,
            92..=93 => Verb::Undo,
            94 => Verb::Redo,
            95 => Verb::Gc,
            96 => Verb::Verify,
            97 if force => Verb::Drop { path: self.path()? },
            97 if self.rng.one_in(2) => Verb::Get { path: self.path()? },
            97 => Verb::Lean {
                on: self.rng.below(4) > 0,
            },
            98 => Verb::Repack,
            _ => match self.rng.below(8) {
                0 => Verb::ExpireOperations,
                1 | 2 => Verb::Recover,
                3 => Verb::Expire,
                4 => Verb::Purge { path: self.path()? },
                5 => Verb::Drop { path: self.path()? },
                _ => Verb::Keep {
                    path: self.path()?,
                    last: 1 + u32::from(force),
                },
            },
        })
    }
}

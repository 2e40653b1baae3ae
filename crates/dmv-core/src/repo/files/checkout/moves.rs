//! Moved files: if the target has a file at another path, the switch moves it instead of writing it
//! again.

use crate::fsutil::{FileKind, fs_now};
use crate::hash::ObjectId;
use crate::job::{Job, Moment};
use crate::object::tree::{Attrs, Kind, TreeEntry};
use crate::repo::base::error::RepoError;
use crate::repo::files::checkout::dirs::{KnownDirs, sorted};
use crate::repo::files::checkout::switch::{Switch, checkout_error};
use crate::repo::files::saved::Return;
use crate::repo::files::seen::Expectation;
use crate::worktree::checkout::{Departure, Move, MovingFile, Plan, Removal, arrive, leave};
use crate::worktree::split_path;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// The most files that a switch moves. Limits memory. The other files are written.
const MAX_MOVES: usize = 32 << 10;

/// What two equal files have in common: the content's root id, whether the root is a list, the kind, and the
/// attributes.
type Same = (ObjectId, bool, Kind, Attrs);

fn same_of(entry: &TreeEntry) -> Option<Same> {
    let (kind, attrs) = (entry.kind, entry.attrs.clone());
    kind.is_blob()
        .then_some((entry.id, entry.is_list, kind, attrs))
}

impl Switch<'_> {
    /// Finds files that are removed, equal the base, and appear again at other paths.
    pub fn plan_moves(&mut self) -> Result<Vec<Move>, RepoError> {
        // Overwritten files, and those that an undo brings back, are restored one by one.
        let is_some = |brings: &Return| !brings.steps.is_empty() || !brings.stays.is_empty();
        let brings = self.request.brings.is_some_and(is_some);
        if self.request.tree.base.is_none() || brings || !self.decision.in_the_way.is_empty() {
            return Ok(Vec::new());
        }
        let mut gone: HashMap<Same, VecDeque<Vec<u8>>> = HashMap::new();
        let (mut count, mut come) = (0, Vec::new());
        self.differences().each(&mut |path, old, new| {
            match (old, new) {
                (Some(old), None) if count < MAX_MOVES => {
                    if let Some(same) = same_of(old) {
                        count += 1;
                        gone.entry(same)
                            .or_default()
                            .push_back(path.as_bytes().to_vec());
                    }
                }
                (None, Some(new)) if come.len() < MAX_MOVES => {
                    come.extend(same_of(new).map(|same| (path.as_bytes().to_vec(), same)));
                }
                _ => {}
            }
            Ok(())
        })?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let (mut moves, mut dirs) = (Vec::new(), KnownDirs::default());
        for (to, same) in come {
            let Some(sources) = gone.get_mut(&same) else {
                continue;
            };
            let is_taken = self.decision.unshown.contains(&to)
                || self.decision.given_up.has(&to)
                || self.is_of_others(&to);
            // A directory goes before the file arrives, or the file is written like others.
            let there = self.stat_in(&to, &mut dirs)?;
            if is_taken || there.is_some_and(|stat| stat.kind != FileKind::Dir) {
                continue;
            }
            while let Some(from) = sources.pop_front() {
                if self.is_of_others(&from) {
                    continue;
                }
                if let Expectation::This(expected) = self.expected(&from, None)? {
                    moves.push(Move { from, to, expected });
                    break;
                }
            }
        }
        Ok(moves)
    }

    /// Returns whether the path differs from the base.
    fn is_of_others(&self, path: &[u8]) -> bool {
        self.known.dirty.contains_key(path) || self.known.left.contains_key(path)
    }

    /// Takes files out of their places. A file that cannot be moved is removed, and written at its
    /// new path.
    pub fn leave(&mut self, moves: Vec<Move>) -> Result<Vec<MovingFile>, RepoError> {
        let (job, root) = (self.request.job, &self.request.tree.root);
        let reached = || job.reached(Moment::Replacing);
        let left = leave(
            root,
            moves,
            job.cancel_flag(),
            &reached,
            &self.progress.asides,
        );
        let Departure { moving, stay } = left.map_err(checkout_error)?;
        let remove = stay.into_iter().map(|Move { from, expected, .. }| Removal {
            path: from,
            expected,
        });
        let remove: Vec<Removal> = remove.collect();
        self.progress.removed += moving.len() as u64;
        if !remove.is_empty() {
            self.run(Plan {
                remove,
                ..Plan::default()
            })?;
        }
        Ok(moving)
    }

    /// Puts moved files in their new places, once everything that was there has gone. A file whose
    /// new name is not free is written like others.
    pub fn arrive(&mut self, moving: Vec<MovingFile>) -> Result<(), RepoError> {
        let (mut dirs, mut paths) = (BTreeSet::new(), Vec::with_capacity(moving.len()));
        for file in &moving {
            let dir = split_path(&file.to).map_or(&b""[..], |(dir, _)| dir);
            self.need_dirs(dir, &mut dirs);
            paths.push((file.from.clone(), file.to.clone()));
        }
        self.run(Plan {
            make_dirs: sorted(dirs),
            ..Plan::default()
        })?;
        let (job, root) = (self.request.job, &self.request.tree.root);
        let placed = arrive(root, moving, job.cancel_flag(), &self.progress.asides);
        let placed = placed.map_err(checkout_error)?;
        let ended = fs_now(&self.request.tree.own);
        for ((from, to), placed) in paths.into_iter().zip(placed) {
            let (Some(placed), Some((dir, name))) = (placed, split_path(&to)) else {
                continue;
            };
            self.request.repo.note_lean_move(&from, &to);
            let print = (name, placed.fingerprint(ended));
            self.progress
                .written
                .note(&self.request.tree.own, dir, std::iter::once(print));
            self.progress.files += 1;
            self.progress.bytes += placed.stat.size;
            Job::add(&job.progress.files, 1);
            Job::add(&job.progress.bytes, placed.stat.size);
            self.progress.moved.insert(to);
        }
        Ok(())
    }
}

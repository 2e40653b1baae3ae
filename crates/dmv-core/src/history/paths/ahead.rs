//! Stretches of history that are read before a walk reaches them.
//!
//! A stretch is a commit followed by its first parents. The commits must be read in turn, but not
//! the entries that their trees have at the paths, which is most of the work. Errors are dropped
//! here: the walk meets them again if it reaches them.

use super::super::load_commit;
use super::Trail;
use crate::hash::ObjectId;
use crate::object::ObjectRead;
use crate::object::commit::Commit;
use crate::threads::start_in;
use std::collections::{HashMap, HashSet};

/// Most commits in a stretch: about as many as share a frame with their trees.
const MAX_STRETCH: usize = 256;
/// Most commits kept in total. A history that leaves more of them unused is not suited to reading
/// ahead.
const MAX_KEPT: usize = 4 * MAX_STRETCH;
/// Commits that are worth a thread. Starting one costs as much as reading a few commits.
const PER_THREAD: usize = 32;
/// Most threads, including the caller's.
const MAX_THREADS: usize = 4;

/// Commits read ahead, each with its trails.
#[derive(Default)]
pub(super) struct Ahead {
    ready: HashMap<ObjectId, (Commit, Vec<Trail>)>,
    /// Length of the last stretch in commits.
    stretch: usize,
    /// How many of its commits the walk has used since.
    used: usize,
}

impl Ahead {
    /// Returns the commit `id` with its trails, which are like those of its child. Reads a further
    /// stretch from there if necessary. Returns `None` if the commit is absent or an error occurs.
    pub(super) fn take(
        &mut self,
        reader: &dyn ObjectRead,
        id: &ObjectId,
        like: &[Trail],
        seen: &HashSet<ObjectId>,
    ) -> Option<(Commit, Vec<Trail>)> {
        if !self.ready.contains_key(id) {
            self.read_on(reader, id, like, seen);
        }
        self.used += 1;
        self.ready.remove(id)
    }

    fn read_on(
        &mut self,
        reader: &dyn ObjectRead,
        from: &ObjectId,
        like: &[Trail],
        seen: &HashSet<ObjectId>,
    ) {
        // A walk that shows a few commits reads only a few. One that turns to other parents leaves
        // most of a stretch unused, and gets shorter ones.
        let next = match self.used >= self.stretch {
            true => self.stretch * 2,
            false => self.stretch / 2,
        };
        self.stretch = next.clamp(1, MAX_STRETCH);
        self.used = 0;
        if self.ready.len() + self.stretch > MAX_KEPT {
            self.ready.clear();
        }
        let mut line = Vec::with_capacity(self.stretch);
        let mut next = Some(*from);
        while let Some(id) = next.filter(|id| !seen.contains(id) && !self.ready.contains_key(id))
            && line.len() < self.stretch
            && let Ok(commit) = load_commit(reader, &id)
        {
            next = commit.parents.first().copied();
            line.push((id, commit));
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
        let part = line.len().div_ceil(threads).max(PER_THREAD);
        let mut parts = line.chunks(part);
        let first = parts.next().unwrap_or_default();
        let trails = std::thread::scope(|scope| {
            let others: Vec<_> = parts
                .map(|part| {
                    let walk = move || trails_of(reader, part, like);
                    (part, start_in(scope, walk))
                })
                .collect();
            let mut trails = trails_of(reader, first, like);
            for (part, other) in others {
                trails.extend(match other {
                    Ok(other) => {
                        (other.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    }
                    // Without a further thread, this one does the work.
                    Err(_) => trails_of(reader, part, like),
                });
            }
            trails
        });
        for ((id, commit), trails) in line.into_iter().zip(trails) {
            // Without trails here, the walk reads them itself.
            self.ready.insert(id, (commit, trails));
        }
    }
}

/// Returns the trails of each commit of a line, as far as they can be read.
fn trails_of(
    reader: &dyn ObjectRead,
    line: &[(ObjectId, Commit)],
    like: &[Trail],
) -> Vec<Vec<Trail>> {
    let mut out: Vec<Vec<Trail>> = Vec::with_capacity(line.len());
    for (_, commit) in line {
        let before = out.last().filter(|last| !last.is_empty());
        let like = before.map_or(like, |last| last);
        let walk = |like: &Trail| Trail::walk(reader, &commit.tree, &like.path, Some(like));
        let trails = like.iter().map(walk).collect::<Result<_, _>>();
        out.push(trails.unwrap_or_default());
    }
    out
}

//! Stretches of history that are read before a walk reaches them.
//!
//! A stretch is a commit followed by its first parents. The commits must be read in turn, but not
//! the entries that their trees have at the paths, which is most of the work. Errors are dropped
//! here: the walk meets them again if it reaches them.

use super::super::load_commit;
use super::{Source, Trail};
use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::threads::{cores, start_in};
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
    /// `heir`: the child, if this is its first parent.
    pub(super) fn take(
        &mut self,
        source: Source<'_>,
        id: &ObjectId,
        heir: Option<&ObjectId>,
        like: &[Trail],
        seen: &HashSet<ObjectId>,
    ) -> Option<(Commit, Vec<Trail>)> {
        if !self.ready.contains_key(id) {
            self.read_on(source, id, heir, like, seen);
        }
        self.used += 1;
        self.ready.remove(id)
    }

    fn read_on(
        &mut self,
        source: Source<'_>,
        from: &ObjectId,
        heir: Option<&ObjectId>,
        like: &[Trail],
        seen: &HashSet<ObjectId>,
    ) {
        // A walk that shows a few commits reads only a few. One that turns to other parents leaves
        // most of a stretch unused, and gets shorter ones.
        let next = if self.used >= self.stretch {
            self.stretch * 2
        } else {
            self.stretch / 2
        };
        self.stretch = next.clamp(1, MAX_STRETCH);
        self.used = 0;
        if self.ready.len() + self.stretch > MAX_KEPT {
            self.ready.clear();
        }
        let mut line = Vec::with_capacity(self.stretch);
        let mut heir = heir.copied();
        let mut next = Some(*from);
        while let Some(id) = next.filter(|id| !seen.contains(id) && !self.ready.contains_key(id))
            && line.len() < self.stretch
            && let Ok(commit) = load_commit(source.reader, &id)
        {
            next = commit.parents.first().copied();
            line.push(Ancestor { id, commit, heir });
            heir = Some(id);
        }
        let threads = cores().min(MAX_THREADS);
        let part = line.len().div_ceil(threads).max(PER_THREAD);
        let mut parts = line.chunks(part);
        let first = parts.next().unwrap_or_default();
        let trails = std::thread::scope(|scope| {
            let others: Vec<_> = parts
                .map(|part| {
                    let walk = move || trails_of(source, part, like, false);
                    (part, start_in(scope, walk))
                })
                .collect();
            let mut trails = trails_of(source, first, like, true);
            for (part, other) in others {
                trails.extend(match other {
                    Ok(other) => {
                        (other.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    }
                    // Without a further thread, this one does the work.
                    Err(_) => trails_of(source, part, like, false),
                });
            }
            trails
        });
        for (found, trails) in line.into_iter().zip(trails) {
            // Without trails here, the walk reads them itself.
            self.ready.insert(found.id, (found.commit, trails));
        }
    }
}

/// A commit of a stretch.
struct Ancestor {
    id: ObjectId,
    commit: Commit,
    /// The child whose first parent it is, if it was reached from there.
    heir: Option<ObjectId>,
}

/// Returns the trails of each commit of a line, as far as they can be read. `is_child`: `like` are
/// the trails of the child of the first commit, and not of a later descendant.
fn trails_of(
    source: Source<'_>,
    line: &[Ancestor],
    like: &[Trail],
    is_child: bool,
) -> Vec<Vec<Trail>> {
    let mut out: Vec<Vec<Trail>> = Vec::with_capacity(line.len());
    for (n, found) in line.iter().enumerate() {
        let before = out.last().filter(|last| !last.is_empty());
        let is_child = if n == 0 { is_child } else { before.is_some() };
        let heir = found.heir.as_ref().filter(|_| is_child);
        let like = before.map_or(like, |last| last);
        let walk = |like: &Trail| {
            let kept = heir.and_then(|heir| like.kept_by(source.changed, heir));
            kept.map_or_else(|| Trail::walk(source.reader, &found.commit.tree, like), Ok)
        };
        let trails = like.iter().map(walk).collect::<Result<_, _>>();
        out.push(trails.unwrap_or_default());
    }
    out
}

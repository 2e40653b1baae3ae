//! The commits that a walk has come to, greatest generation first, and where the walk ends.
//!
//! A commit that was taken off the queue never returns, because all its children were taken off before it. This
//! module knows nothing of filters: its caller decides which parents are wanted.

use super::claims::wrong_generation;
use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::collections::{BTreeSet, BinaryHeap, HashMap};

/// A commit in the queue: by generation, greatest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct QueueKey {
    generation: u64,
    id: ObjectId,
}

pub(super) struct QueuedCommit {
    pub hidden: bool,
    /// Number of commits from the nearest tip to this one, including both.
    pub distance: u32,
    /// Without its message.
    pub commit: Commit,
}

#[derive(Default)]
pub(super) struct CommitQueue {
    queue: BinaryHeap<QueueKey>,
    /// The commits in the queue.
    waiting: HashMap<ObjectId, QueuedCommit>,
    /// How many of them are not hidden.
    open: usize,
    /// Only with a limit of history: the commits taken off the queue, with their distance. A commit
    /// that was absent at first may later show that they are nearer to a tip.
    walked: HashMap<ObjectId, u32>,
    /// Unwanted commits where the filter ends history, each with the commits that name it as a
    /// parent.
    pub cut: HashMap<ObjectId, Vec<ObjectId>>,
    /// The filter's shallow commits whose parents the walk wanted.
    pub passed: BTreeSet<ObjectId>,
}

impl CommitQueue {
    /// Returns whether a commit in the queue is not hidden.
    pub fn are_open(&self) -> bool {
        self.open > 0
    }

    /// Returns the commits in the queue.
    pub fn waiting(&self) -> impl Iterator<Item = &Commit> {
        self.waiting.values().map(|queued| &queued.commit)
    }

    /// Returns the tree of a commit that is in the queue.
    pub fn tree_of(&self, id: &ObjectId) -> Option<ObjectId> {
        self.waiting.get(id).map(|queued| queued.commit.tree)
    }

    /// Queues a commit and returns its generation; `None` if it is absent.
    pub fn enqueue(
        &mut self,
        id: &ObjectId,
        hidden: bool,
        below: Option<u64>,
        distance: u32,
        objects: &dyn ObjectRead,
    ) -> Result<Option<u64>, ObjectError> {
        if !self.waiting.contains_key(id) {
            let Some(bytes) = objects.read(ObjectType::Commit, id)? else {
                return Ok(None);
            };
            let commit = Commit::decode(&bytes)
                .map_err(|e| ObjectError::undecodable(ObjectType::Commit, id, e))?;
            let generation = commit.generation;
            self.queue.push(QueueKey {
                generation,
                id: *id,
            });
            self.open += 1;
            // Histories can be wide and messages long, so they are not kept.
            let commit = Commit {
                message: String::new(),
                extras: Vec::new(),
                signature: None,
                ..commit
            };
            let queued = QueuedCommit {
                hidden: false,
                distance,
                commit,
            };
            self.waiting.insert(*id, queued);
        }
        let waiting = self.waiting.get_mut(id).expect("it was inserted above");
        waiting.distance = waiting.distance.min(distance);
        if hidden && !waiting.hidden {
            waiting.hidden = true;
            self.open -= 1;
        }
        let generation = waiting.commit.generation;
        if below.is_some_and(|child| generation >= child) {
            return Err(wrong_generation(id));
        }
        Ok(Some(generation))
    }

    /// Takes the commit with the greatest generation off the queue.
    pub fn pop(&mut self) -> Option<(ObjectId, QueuedCommit)> {
        let Some(QueueKey { id, .. }) = self.queue.pop() else {
            self.open = 0;
            return None;
        };
        let queued = self.waiting.remove(&id).expect("queued ones wait");
        self.cut.remove(&id);
        self.open -= usize::from(!queued.hidden);
        Some((id, queued))
    }

    /// Notes how far a commit is from a tip. Returns whether it is nearer than it was known to be.
    pub fn is_nearer(&mut self, id: ObjectId, distance: u32) -> bool {
        let before = self.walked.insert(id, distance);
        let Some(before) = before.filter(|before| *before <= distance) else {
            return true;
        };
        self.walked.insert(id, before);
        false
    }

    /// Notes that history ends at `parent` for its child, unless the walk comes there on another way.
    pub fn end_at(&mut self, parent: ObjectId, child: ObjectId) {
        if !self.waiting.contains_key(&parent) && !self.walked.contains_key(&parent) {
            self.cut.entry(parent).or_default().push(child);
        }
    }
}

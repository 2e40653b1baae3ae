//! The chunks that a walk has come to and not reported yet.
//!
//! Chunks are most of the objects. To look them up one by one takes longer than all else once the
//! tables of a store fit no cache. So a walk collects them, and they are looked up together.

use super::ReachedObject;
use crate::hash::ObjectId;
use crate::memory::LookUps;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::iter::Zip;
use std::vec::IntoIter;

/// A chunk, as the object above it names it.
pub(super) struct Chunk {
    pub(super) id: ObjectId,
    /// Its length in bytes.
    pub(super) len: u64,
    /// The object above it; `None` if the walk began with the chunk.
    pub(super) above: Option<ObjectId>,
}

impl Chunk {
    /// Returns it as the walk reports it.
    pub(super) fn found(self, here: bool) -> ReachedObject {
        ReachedObject {
            ty: ObjectType::Chunk,
            id: self.id,
            here,
            len: self.len,
            above: self.above,
        }
    }
}

/// Collected chunks, in the order of the walk.
pub(super) struct Chunks {
    waiting: Vec<Chunk>,
    answered: Zip<IntoIter<Chunk>, IntoIter<bool>>,
    look_ups: LookUps,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks {
            waiting: Vec::new(),
            answered: Vec::new().into_iter().zip(Vec::new()),
            look_ups: LookUps::default(),
        }
    }
}

impl Chunks {
    /// Adds a chunk.
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.waiting.push(chunk);
    }

    /// Returns whether enough chunks wait to be looked up.
    pub(super) fn are_many(&self) -> bool {
        self.waiting.len() >= self.look_ups.size()
    }

    /// Looks up the waiting chunks. Returns whether there were any.
    pub(super) fn look_up(&mut self, objects: &dyn ObjectRead) -> Result<bool, ObjectError> {
        self.look_ups.grow();
        let wanted = self
            .waiting
            .iter()
            .map(|chunk| (ObjectType::Chunk, chunk.id));
        let held = objects.holds_all(&wanted.collect::<Vec<_>>())?;
        let chunks = std::mem::take(&mut self.waiting);
        let any = !chunks.is_empty();
        self.answered = chunks.into_iter().zip(held);
        if !any {
            self.look_ups.shrink();
        }
        Ok(any)
    }

    /// Returns the next chunk that was looked up, and whether it is stored.
    pub(super) fn next(&mut self) -> Option<(Chunk, bool)> {
        self.answered.next()
    }
}

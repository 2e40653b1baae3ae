//! Reading the objects of an open repository: the stored ones, and those that only
//! show conflicts. Only this module combines both.

use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::repo::Repo;
use std::collections::HashSet;
use std::sync::Arc;

impl ObjectRead for Repo {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        if !self.made.is_empty()
            && let Some(bytes) = self.made.read(ty, id)?
        {
            return Ok(Some(bytes));
        }
        match self.store.read(ty, id)? {
            None if ty == ObjectType::Chunk => {
                let mut bytes = Vec::new();
                Ok(self.read_lean(id, &mut bytes).then(|| bytes.into()))
            }
            found => Ok(found),
        }
    }

    // What files of the worktree have is not stored. [`ReadableObjects`] includes it.
    // Walks ask this for every chunk of a transfer, so it does not read the bytes.
    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok((!self.made.is_empty() && self.made.holds(ty, id)?) || self.store.holds(ty, id)?)
    }

    fn holds_all(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<bool>, ObjectError> {
        let mut held = self.store.holds_all(objects)?;
        if !self.made.is_empty() {
            for (held, (ty, id)) in held.iter_mut().zip(objects) {
                *held = *held || self.made.holds(*ty, id)?;
            }
        }
        Ok(held)
    }

    fn reading_ranks(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<u32>, ObjectError> {
        self.store.reading_ranks(objects)
    }
}

/// The objects that can be read here: the stored ones, and content that files of the worktree have.
pub struct ReadableObjects<'r>(pub &'r Repo);

impl ObjectRead for ReadableObjects<'_> {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        self.0.read(ty, id)
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.0.holds(ty, id)? || ty == ObjectType::Chunk && self.0.is_in_lean_file(id))
    }
}

/// Returns whether an object can be read from a place that no check has found damaged.
pub fn is_whole(repo: &Repo, ty: ObjectType, id: &ObjectId) -> bool {
    repo.store.has_outside(id, &HashSet::new()).unwrap_or(false)
        && matches!(repo.store.read(ty, id), Ok(Some(_)))
}

impl Repo {
    /// Returns whether the root nodes of all these directories are stored. The content of a
    /// directory cannot be known without its root node.
    pub fn holds_trees(&self, roots: impl IntoIterator<Item = Option<ObjectId>>) -> bool {
        // A failed lookup counts as stored, so that the later read reports the error.
        let objects = self.objects();
        let held = |id: &ObjectId| objects.holds(ObjectType::Tree, id).unwrap_or(true);
        roots.into_iter().flatten().all(|id| held(&id))
    }
}

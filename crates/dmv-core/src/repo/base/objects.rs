//! Reading objects of an open repository: those that are stored, and those that were only made to be
//! looked at. This is the one place that knows both.

use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::handle::Handle;
use std::collections::HashSet;
use std::sync::Arc;

impl ObjectRead for Handle {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        if !self.made.is_empty()
            && let Some(bytes) = self.made.read(ty, id)?
        {
            return Ok(Some(bytes));
        }
        self.store.read(ty, id)
    }

    // Walks ask this of every chunk of a transfer: its bytes stay unread.
    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok((!self.made.is_empty() && self.made.holds(ty, id)?) || self.store.holds(ty, id)?)
    }
}

/// Whether an object can be read, from a place that no check has found damaged.
pub(in crate::repo) fn is_whole(repo: &Handle, ty: ObjectType, id: &ObjectId) -> bool {
    repo.store.has_outside(id, &HashSet::new()).unwrap_or(false)
        && matches!(repo.store.read(ty, id), Ok(Some(_)))
}

/// Whether the roots of directories are here; if not, nothing can be told of what is in them.
pub(in crate::repo) fn holds_trees(
    repo: &Handle,
    roots: impl IntoIterator<Item = Option<ObjectId>>,
) -> bool {
    // What cannot be looked up is read, so that the failure comes out.
    let objects = repo.objects();
    let held = |id: &ObjectId| objects.holds(ObjectType::Tree, id).unwrap_or(true);
    roots.into_iter().flatten().all(|id| held(&id))
}

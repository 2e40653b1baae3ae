//! Where marking begins: the objects that must stay, with everything below them.
//!
//! Everything that frees space uses this module, so that each knows the same roots. It does not know
//! what is below them.

use crate::hash::ObjectId;
use crate::object::{ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::repo::Repo;
use crate::repo::base::{window, worktree};
use crate::repo::files::{unfinished, unwritten};
use crate::store::Store;
use std::collections::BTreeSet;

/// An object that must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// An object of a known type.
    Object(ObjectType, ObjectId),
    /// Perhaps the id of an object: the value of a key of a later version.
    Perhaps(ObjectId),
}

impl Root {
    /// Returns the object, or `None` if it was no id of a stored object.
    pub fn object(self, store: &Store) -> Result<Option<(ObjectType, ObjectId)>, RepoError> {
        let id = match self {
            Root::Object(ty, id) => return Ok(Some((ty, id))),
            Root::Perhaps(id) => id,
        };
        for number in 1..=5 {
            if let Some(ty) = ObjectType::from_number(number)
                && store.holds(ty, &id)?
            {
                return Ok(Some((ty, id)));
            }
        }
        Ok(None)
    }
}

impl From<NamedObject> for Root {
    fn from(named: NamedObject) -> Root {
        match named {
            NamedObject::Commit(id) => Root::Object(ObjectType::Commit, id),
            NamedObject::Perhaps(id) => Root::Perhaps(id),
        }
    }
}

/// Visits what the view names. Some objects are visited several times.
pub fn of_view(repo: &Repo, visit: &mut dyn FnMut(Root)) -> Result<(), RepoError> {
    for (key, value) in repo.refs.with_prefix("")? {
        let named = named_by(&key, &value).into_iter();
        named.for_each(|named| visit(named.into()));
    }
    Ok(())
}

/// Visits what the operations that undo can reach name, by old and new values. Most objects are visited
/// several times.
pub fn of_window(repo: &Repo, visit: &mut dyn FnMut(Root)) -> Result<(), RepoError> {
    window::each_operation(repo, 0, &mut |operation| {
        window::each_named(operation, &mut |named| visit(named.into()));
    })
}

/// Visits what all operations with greater numbers than `after` name, by old and new values. The view
/// may still have their values although undo cannot reach them any more.
pub fn of_operations_after(
    repo: &Repo,
    after: u64,
    visit: &mut dyn FnMut(Root),
) -> Result<(), RepoError> {
    window::each_after(repo, after, &mut |operation| {
        window::each_named(operation, &mut |named| visit(named.into()));
    })
}

/// Returns what interrupted switches and unwritten paths of all worktrees note. If these objects went,
/// nothing would be lost, but files that a switch wrote would count as the user's.
pub fn of_courtesy(repo: &Repo) -> Result<BTreeSet<Root>, RepoError> {
    let mut out = BTreeSet::new();
    for own in worktree::own_dirs(repo)? {
        let trees = unfinished::noted_trees(&own)?.into_iter();
        out.extend(trees.map(|tree| Root::Object(ObjectType::Tree, tree)));
        let objects = unwritten::noted_objects(&own)?.into_iter();
        out.extend(objects.map(|(ty, id)| Root::Object(ty, id)));
    }
    Ok(out)
}

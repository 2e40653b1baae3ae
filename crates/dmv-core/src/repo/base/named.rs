//! The last check before the commit point: every object that a change names is stored and stays
//! stored.
//!
//! A commit that is in no segment of the catalogue would be lost when this process ends, and every
//! later command would fail. So this module looks up the place of each object, and the database
//! confirms the places in the transaction that moves the view.

use crate::hash::ObjectId;
use crate::refs::{Change, NamedPlace, RefsError};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::repo::Repo;
use crate::store::FinishedJob;

/// Returns the places of the objects that `changes` name for refs and worktrees.
pub fn places_named(
    repo: &Repo,
    changes: &[Change],
    sealed: Option<&FinishedJob>,
) -> Result<Vec<NamedPlace>, RepoError> {
    let mut places: Vec<NamedPlace> = Vec::new();
    for change in changes {
        for id in ids_of(change) {
            if places.iter().any(|named| named.id == id) {
                continue;
            }
            let key = change.key.clone();
            match repo.store.place_to_name(&id, sealed)? {
                Some((pack, place)) => places.push(NamedPlace {
                    key,
                    id,
                    pack,
                    offset: place.offset,
                }),
                None => {
                    repo.store.current().refuse_unreadable()?;
                    return Err(RefsError::NotStored { key, id }.into());
                }
            }
        }
    }
    Ok(places)
}

/// Returns the objects that a change of the view names. They are commits, so none of
/// them may be absent by choice. What a later version may mean by a value is not known.
fn ids_of(change: &Change) -> impl Iterator<Item = ObjectId> + use<> {
    let value = change.new.as_deref().unwrap_or_default();
    let named = named_by(&change.key, value).into_iter();
    named.filter_map(NamedObject::commit)
}

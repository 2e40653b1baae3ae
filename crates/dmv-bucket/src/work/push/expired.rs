//! Files that have expired at the bucket and that new tips need: a push brings them again.

use super::PushError;
use crate::format::{Expirations, View};
use crate::work::access::BucketAccess;
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::object::list::Blob;
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::reach::{Filter, Reach};
use dmv_core::refs::Change;
use dmv_core::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// The most trees with which that of a new tip is compared.
const MAX_BESIDES: usize = 16;
/// The most absent objects that are reported.
const MAX_LACKING: usize = 64;

/// Returns the ids of files that have expired.
pub fn ids_of(expired: &Expirations) -> BTreeSet<ObjectId> {
    expired.values().flatten().copied().collect()
}

/// Returns the expired files that the commits have which some changes make the tips of branches. `view` has
/// the tips that there are: none of them has such a file.
///
/// Fails with [`PushError::Lacking`] if a commit or one of its directories is absent here.
pub fn of_tips(
    with: &BucketAccess<'_>,
    view: &View,
    changes: &[Change],
    expired: &BTreeSet<ObjectId>,
) -> Result<BTreeMap<ObjectId, Blob>, PushError> {
    let mut found = BTreeMap::new();
    if expired.is_empty() {
        return Ok(found);
    }
    let mut besides = Vec::new();
    let old = changes.iter().filter_map(|change| change.old.as_ref());
    for value in old.chain(view.values()) {
        if let Some(commit) = commit_of(with.store, value)?
            && !besides.contains(&commit.tree)
            && besides.len() < MAX_BESIDES
        {
            besides.push(commit.tree);
        }
    }
    for value in changes.iter().filter_map(|change| change.new.as_ref()) {
        let Some(commit) = commit_of(with.store, value)? else {
            let ids = id_of(value).map(|id| (ObjectType::Commit, id));
            return Err(PushError::Lacking(ids.into_iter().collect()));
        };
        let filter = Filter {
            dropped: expired.clone(),
            ..Filter::default()
        };
        let mut reach = Reach::of_tree(&commit, besides.clone(), filter);
        let mut lacking = Vec::new();
        while let Some(next) = reach.next(with.store)? {
            with.job.check()?;
            // Content may be absent: the walk of the push sees to that.
            let is_directory = matches!(next.ty, ObjectType::Tree | ObjectType::Conflict);
            if !next.here && is_directory && lacking.len() < MAX_LACKING {
                lacking.push((next.ty, next.id));
            }
        }
        if !lacking.is_empty() {
            return Err(PushError::Lacking(lacking));
        }
        found.extend(reach.left_out());
    }
    Ok(found)
}

fn id_of(value: &[u8]) -> Option<ObjectId> {
    Some(ObjectId::from_bytes(value.try_into().ok()?))
}

/// Returns the commit that a value of the view names, if it is stored here.
fn commit_of(store: &Store, value: &[u8]) -> Result<Option<Commit>, PushError> {
    let Some(id) = id_of(value) else {
        return Ok(None);
    };
    let Some(bytes) = store.read(ObjectType::Commit, &id)? else {
        return Ok(None);
    };
    let commit = Commit::decode(&bytes);
    Ok(Some(commit.map_err(|e| {
        ObjectError::undecodable(ObjectType::Commit, &id, e)
    })?))
}

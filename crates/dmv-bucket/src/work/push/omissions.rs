//! What a push leaves out because it was purged, here or at the bucket, or because it has expired there.

use super::PushError;
use super::expired::{ids_of, of_tips};
use crate::format::{Name, Purges};
use crate::machines::{CollectEnd, MarkResult, Prepare, Stamp};
use crate::work::access::BucketAccess;
use crate::work::amend::amend;
use crate::work::cache::Cache;
use crate::work::client::BucketClient;
use dmv_core::hash::ObjectId;
use dmv_core::object::list::{Blob, ListNode};
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::repo::Purge;
use dmv_core::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a push leaves out.
pub struct Omissions {
    /// Files and chunks that the bucket has purged.
    there: BTreeMap<ObjectId, Arc<Purge>>,
    pieces: BTreeMap<ObjectId, Arc<Purge>>,
    /// Files that were purged on this device alone.
    here: BTreeMap<ObjectId, Arc<Purge>>,
    /// Files that have expired at the bucket, and stay so.
    expired: BTreeSet<ObjectId>,
    /// Those of them that the new tips need: the push brings them again.
    pub back: BTreeMap<ObjectId, Blob>,
}

impl Omissions {
    /// Reads what to leave out of a push. `None`: a page cannot be read.
    pub fn read(
        with: &BucketAccess<'_>,
        client: &mut BucketClient<'_>,
        prepare: &Prepare,
    ) -> Result<Option<Omissions>, PushError> {
        let (root, cache) = (&prepare.root, Cache::at(with.dir));
        let purges = client.purges(root, &cache);
        let Some((purges, expired)) = purges.zip(client.expired(root, &cache)) else {
            return Ok(None);
        };
        let mut left = Omissions::of_purges(with, purges);
        left.expired = ids_of(&expired);
        left.expired.retain(|id| !left.there.contains_key(id));
        left.back = of_tips(with, &prepare.view, &prepare.changes, &left.expired)?;
        left.back.retain(|id, _| !left.here.contains_key(id));
        left.expired.retain(|id| !left.back.contains_key(id));
        Ok(Some(left))
    }

    fn of_purges(with: &BucketAccess<'_>, purges: Purges) -> Omissions {
        let (mut there, mut pieces) = (BTreeMap::new(), BTreeMap::new());
        for (why, buried) in purges {
            let why = Arc::new(why);
            there.extend(buried.files.into_iter().map(|id| (id, why.clone())));
            pieces.extend(buried.pieces.into_iter().map(|id| (id, why.clone())));
        }
        let mut here = with.purged.clone();
        here.retain(|id, _| !there.contains_key(id));
        Omissions {
            there,
            pieces,
            here,
            expired: BTreeSet::new(),
            back: BTreeMap::new(),
        }
    }

    /// Returns the files.
    pub fn files(&self) -> BTreeSet<ObjectId> {
        let purged = self.there.keys().chain(self.here.keys());
        purged.chain(&self.expired).copied().collect()
    }

    /// Fails for a chunk that the bucket has purged: a file needs it that was not purged.
    pub fn check(&self, chunk: &ObjectId) -> Result<(), PushError> {
        match self.pieces.get(chunk) {
            None => Ok(()),
            Some(why) => Err(PushError::Purged {
                files: 1,
                why: Box::new(Purge::clone(why)),
            }),
        }
    }

    /// Returns what the bucket is told of files that were left out: why they are absent, unless its own
    /// commits, `hidden`, lead to them. Fails if the bucket has purged one that is stored here and was
    /// not purged here.
    pub fn judge(
        &self,
        with: &BucketAccess<'_>,
        left_out: &BTreeSet<ObjectId>,
        hidden: &[ObjectId],
    ) -> Result<Purges, PushError> {
        let (mut refused, mut told) = (None, Purges::new());
        let mut files = 0;
        for id in left_out {
            if let Some(why) = self.here.get(id) {
                let buried = told.entry(Purge::clone(why)).or_default();
                buried.files.insert(*id);
            } else if let Some(why) = self.there.get(id)
                && !with.purged.contains_key(id)
                && is_stored(with.store, id)?
            {
                files += 1;
                refused.get_or_insert_with(|| Box::new(Purge::clone(why)));
            }
        }
        match refused {
            Some(why) => Err(PushError::Purged { files, why }),
            None => without_known(with, told, hidden),
        }
    }
}

/// Returns `told` without the files that commits of the bucket lead to: the bucket has these, or knows why
/// not.
fn without_known(
    with: &BucketAccess<'_>,
    mut told: Purges,
    hidden: &[ObjectId],
) -> Result<Purges, PushError> {
    if told.is_empty() {
        return Ok(told);
    }
    let files = told.values().flat_map(|buried| &buried.files);
    let filter = Filter {
        dropped: files.copied().collect(),
        ..Filter::default()
    };
    let mut reach = Reach::filtered(hidden.iter().copied(), [], Detail::Metadata, filter);
    while reach.next(with.store)?.is_some() {
        with.job.check()?;
    }
    for buried in told.values_mut() {
        buried.files.retain(|id| !reach.left_out().contains_key(id));
    }
    told.retain(|_, buried| !buried.is_empty());
    Ok(told)
}

/// Returns whether any chunk of a file is stored.
fn is_stored(store: &Store, root: &ObjectId) -> Result<bool, PushError> {
    let mut found = store.holds(ObjectType::Chunk, root)?;
    if !found && store.holds(ObjectType::List, root)? {
        each_chunk(store, root, &mut |id, _| {
            found |= store.holds(ObjectType::Chunk, id)?;
            Ok(())
        })?;
    }
    Ok(found)
}

/// Calls `each` with the chunks below a list, and their lengths. Returns whether all lists are stored.
pub fn each_chunk(
    store: &Store,
    list: &ObjectId,
    each: &mut dyn FnMut(&ObjectId, u64) -> Result<(), PushError>,
) -> Result<bool, PushError> {
    let (mut open, mut is_whole) = (vec![*list], true);
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(bytes) = store.read(ObjectType::List, &id)? else {
            is_whole = false;
            continue;
        };
        let node = ListNode::decode(&bytes);
        let node = node.map_err(|e| ObjectError::undecodable(ObjectType::List, &id, e))?;
        for entry in &node.entries {
            match node.level {
                0 => each(&entry.id, entry.len)?,
                _ => open.push(entry.id),
            }
        }
    }
    Ok(is_whole)
}

/// Lets uploaded packs go that no root will list, and deletes them. Returns whether that has succeeded; what
/// stays is found by gc.
pub fn let_go(with: &BucketAccess<'_>, packs: &BTreeSet<Name>, stamp: &Stamp) -> bool {
    let ended = amend(with, stamp, &mut |_| MarkResult {
        listed: packs.clone(),
        ..MarkResult::default()
    });
    matches!(
        ended,
        Ok(CollectEnd::Freed {
            all_deleted: true,
            ..
        })
    )
}

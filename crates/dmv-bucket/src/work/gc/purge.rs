//! Purge at a bucket: docs/format/bucket.md, "Purge".

use super::{FreeOptions, FreeReport, NeededIds, NothingExpires, run};
use crate::format::{Purges, Root};
use crate::machines::{MarkResult, Stamp, Tag};
use crate::work::access::BucketAccess;
use crate::work::amend::amend;
use crate::work::push::{PushError, each_chunk};
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::repo::Purge;
use std::collections::{BTreeMap, BTreeSet};

/// How often a purge goes on with what it had to leave.
const ROUNDS: u32 = 10_000;

/// What was purged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files that were not purged there before.
    pub files: u64,
    /// Bytes of purged files that stay because other files need them.
    pub shared_bytes: u64,
    /// Files whose chunks are not known here, so that they cannot be found.
    pub unknown: u64,
    /// Purged chunks that packs still have.
    pub left: u64,
}

/// What is to be purged at a root.
pub(super) struct Plan {
    /// What the root does not say yet.
    pub new: Purges,
    /// All chunks that must not be stored.
    pub pieces: BTreeSet<ObjectId>,
    pub tally: Tally,
}

/// Returns the files that were purged.
pub(super) fn purged_files(there: &Purges) -> impl Iterator<Item = &ObjectId> {
    there.values().flat_map(|buried| &buried.files)
}

/// Finds out which chunks only purged files need. Without a wish, only those that the root names.
pub(super) fn plan(
    with: &BucketAccess<'_>,
    there: &Purges,
    wish: Option<&BTreeMap<ObjectId, Purge>>,
    needed: &NeededIds,
) -> Result<Plan, PushError> {
    let known = there.values().flat_map(|buried| &buried.pieces);
    let mut plan = Plan {
        new: Purges::new(),
        pieces: known.copied().collect(),
        tally: Tally::default(),
    };
    let Some(wish) = wish else {
        return Ok(plan);
    };
    let mut seen = BTreeSet::new();
    let noted = there.iter();
    let noted = noted.flat_map(|(why, buried)| buried.files.iter().map(move |id| (id, why, true)));
    let wished = wish.iter().map(|(id, why)| (id, why, false));
    for (id, why, is_noted) in noted.chain(wished) {
        with.job.check()?;
        if !seen.insert(*id) {
            continue;
        }
        if !is_noted {
            plan.tally.files += 1;
            plan.new.entry(why.clone()).or_default().files.insert(*id);
        }
        let is_wished = wish.contains_key(id);
        let mut shared = 0;
        let (mut gone, all, tally) = (Vec::new(), &plan.pieces, &mut plan.tally);
        let mut chunk = |chunk: &ObjectId, len: u64| {
            if needed.has(chunk) {
                shared += len;
            } else if !all.contains(chunk) {
                gone.push(*chunk);
            }
            Ok(())
        };
        let store = with.store;
        if store.holds(ObjectType::List, id)? {
            let is_whole = each_chunk(store, id, &mut chunk)?;
            tally.unknown += u64::from(!is_whole && is_wished);
        } else if store.refused().contains(id) || store.holds(ObjectType::Chunk, id)? {
            chunk(id, 0)?;
        } else {
            tally.unknown += u64::from(is_wished && !is_noted);
        }
        if is_wished {
            tally.shared_bytes += shared;
        }
        if !gone.is_empty() {
            plan.pieces.extend(&gone);
            plan.new.entry(why.clone()).or_default().pieces.extend(gone);
        }
    }
    Ok(plan)
}

/// Purges files at a bucket, as `options.purge` says, and removes all packs that have chunks of them. What
/// it returns adds up all rounds; `all_deleted` says whether nothing of it is left.
pub fn purge(
    with: &BucketAccess<'_>,
    mut known: Option<(Root, Tag)>,
    options: &FreeOptions,
) -> Result<FreeReport, PushError> {
    let mut sum = FreeReport::default();
    for round in 0..ROUNDS {
        let (done, purged) = run(with, known.take(), options, &mut NothingExpires)?;
        sum.packs += done.packs;
        sum.strays += done.strays;
        sum.bytes += done.bytes;
        if round == 0 {
            sum.buried = done.buried;
        }
        sum.buried.left = done.buried.left;
        (sum.kept, sum.kept_bytes) = (done.kept, done.kept_bytes);
        let Some(purged) = purged else {
            // There was nothing to do.
            sum.all_deleted = true;
            return Ok(sum);
        };
        if done.buried.left == 0 && done.all_deleted {
            // The purge has happened. If the root does not say so yet, the same command continues.
            sum.all_deleted = match settle(with, &options.stamp, purged) {
                Err(PushError::Cancelled) => return Err(PushError::Cancelled),
                settled => settled.unwrap_or(false),
            };
            return Ok(sum);
        }
        if done.packs + done.joined.packs + done.strays == 0 || !done.all_deleted {
            break;
        }
    }
    Ok(sum)
}

/// Notes in the root that nothing that was purged is left, unless something else was purged since: packs
/// with purged content only become fewer. Returns whether the root says so.
fn settle(with: &BucketAccess<'_>, stamp: &Stamp, purged: u64) -> Result<bool, PushError> {
    let mut is_settled = true;
    amend(with, stamp, &mut |mark| {
        is_settled = mark.root.purges.count == purged;
        MarkResult {
            unpurged: is_settled.then_some(0),
            ..MarkResult::default()
        }
    })?;
    Ok(is_settled)
}

#[cfg(test)]
mod tests;

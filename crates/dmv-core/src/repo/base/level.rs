//! Bringing the database level with the log pack (docs/format/layout.md, "The log pack and the
//! database").
//!
//! The database records the length of the log pack after its last operation. If the log pack is
//! longer, it has operations that the database lost: an older `refs.db` was restored, or a command
//! was killed between its record and its commit. These operations are added to the database before
//! anything else is published.

use crate::hash::ObjectId;
use crate::refs::{Change, DatabaseLock, Operation, Refs, RefsError};
use crate::repo::base::error::RepoError;
use crate::repo::base::keeping::try_keep;
use crate::repo::base::keys::{NamedObject, named_by};
use crate::store::{LogPack, Store, StoreError, add_closed_segments};
use crate::vfs::OpenMode;
use std::collections::HashMap;

/// Adds the operations that the database lacks, and returns their number.
///
/// Leaves the database unchanged if it fails:
///
/// - with [`RefsError::OtherLog`] if the log pack does not continue from the operations in the
///   database, or if the packs lack objects that it names
/// - with `BusyError::Freeing` if another command is freeing space, and objects that it names may
///   be in packs that a job uses
pub fn catch_up(store: &Store, refs: &Refs, lock: &DatabaseLock) -> Result<usize, RepoError> {
    let level = refs.log_position()?;
    let log = LogPack::open(
        &*store.files().vfs,
        store.packs_dir(),
        store.owners().own(),
        OpenMode::Read,
    )?;
    let end = log.len()?;
    if level.log_end == Some(end) {
        return Ok(0);
    }
    if level.log_end.is_some_and(|known| known > end) {
        return Err(RefsError::LogBehind(log.path().to_owned()).into());
    }
    let other = || RefsError::OtherLog(refs.path().to_owned());
    // Operations that another process has synced count. Unsynced ones may be lost.
    log.sync()?;
    let found = decoded(log.operations_within(level.log_end.unwrap_or(0), end)?)?;
    let last = level.last.as_ref();
    let found = match (level.log_end, last) {
        // An earlier version of dmv wrote this database: everything after its last operation is
        // new.
        (None, Some(last)) => {
            let at = found.iter().rposition(|op| op.id == last.id);
            found[at.ok_or_else(other)? + 1..].to_vec()
        }
        _ => found,
    };
    let mut new = Vec::new();
    for operation in found {
        if !refs.knows(&operation)? {
            new.push(operation);
        }
    }
    let last_id = last.map_or([0; 16], |op| op.id);
    let chain = following(last_id, new).ok_or_else(other)?;
    if chain.is_empty() {
        refs.roll_forward(lock, &[], &[], end)?;
        return Ok(0);
    }
    // A running job may use a pack that the killed command left. Without the lock on `keeping`,
    // such a pack cannot be told from one that is being removed.
    let kept = try_keep(refs.path().parent().unwrap_or(refs.path()))?;
    let (mut catalogue, packs) = (refs.catalogue()?, store.packs_dir());
    // The database lock is held, so none is taken out of use meanwhile.
    let (is_kept, leaving) = (kept.is_ok(), refs.leaving()?);
    let segments = add_closed_segments(
        &*store.files().vfs,
        packs,
        store.owners(),
        &mut catalogue,
        &leaving,
        is_kept,
    )?;
    store.load(catalogue)?;
    for id in chain.iter().flat_map(commits_of) {
        if store.pack_of(&id)?.is_none() {
            return Err(kept.err().unwrap_or_else(|| other().into()));
        }
    }
    refs.roll_forward(lock, &segments, &chain, end)?;
    Ok(chain.len())
}

/// Returns the operations among `payloads`. Payloads that do not decode were cut off.
pub fn decoded(payloads: Vec<Vec<u8>>) -> Result<Vec<Operation>, RepoError> {
    let mut known = Vec::new();
    for bytes in payloads {
        match Operation::decode(&bytes) {
            Ok(operation) => known.push(operation),
            // Without this operation, the view would be older than the one that the user left.
            Err(e) if e.is_too_new() => return Err(RefsError::NewerOperation.into()),
            Err(_) => {}
        }
    }
    Ok(known)
}

/// Returns the operations after `last` up to the newest of `found`, or `None` if the newest does
/// not descend from `last`. Leaves out operations that no later one builds on.
fn following(last: [u8; 16], found: Vec<Operation>) -> Option<Vec<Operation>> {
    let mut by_id: HashMap<[u8; 16], Operation> = HashMap::new();
    let mut next = found.last().map_or(last, |op| op.id);
    by_id.extend(found.into_iter().map(|op| (op.id, op)));
    let mut chain = Vec::new();
    while next != last {
        let operation = by_id.remove(&next)?;
        next = operation.previous;
        chain.push(operation);
    }
    chain.reverse();
    Some(chain)
}

/// Returns the commits that the new values of an operation name.
pub fn commits_of(operation: &Operation) -> impl Iterator<Item = ObjectId> + use<'_> {
    let named = |change: &Change| named_by(&change.key, change.new.as_deref().unwrap_or_default());
    let named = operation.changes.iter().flat_map(named);
    named.filter_map(NamedObject::commit)
}

/// Opens the log pack. A missing log pack is reported as [`RefsError::LogBehind`], because it can
/// be rebuilt from the database.
pub fn open_log(store: &Store, how: OpenMode) -> Result<LogPack, RepoError> {
    match LogPack::open(
        &*store.files().vfs,
        store.packs_dir(),
        store.owners().own(),
        how,
    ) {
        Err(StoreError::Io(e)) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(RefsError::LogBehind(e.path.to_path_buf()).into())
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::Timestamp;

    fn operation(seq: u64, id: u8, previous: u8) -> Operation {
        Operation {
            seq,
            id: [id; 16],
            previous: [previous; 16],
            time: Timestamp {
                seconds: 0,
                nanos: 0,
                tz_minutes: 0,
            },
            who: String::new(),
            command: String::new(),
            undoes: 0,
            origin: None,
            changes: Vec::new(),
        }
    }

    #[test]
    fn what_follows_the_last_operation_is_taken_and_nothing_else() {
        let ids = |found: &[(u64, u8, u8)]| {
            let found = found
                .iter()
                .map(|(seq, id, prev)| operation(*seq, *id, *prev));
            let chain = following([2; 16], found.collect())?;
            Some(chain.iter().map(|op| op.id[0]).collect::<Vec<_>>())
        };
        assert_eq!(ids(&[]), Some(vec![]));
        assert_eq!(ids(&[(3, 3, 2), (4, 4, 3)]), Some(vec![3, 4]));
        // A failed command left operation 9.
        assert_eq!(ids(&[(3, 9, 2), (3, 3, 2)]), Some(vec![3]));
        assert_eq!(ids(&[(3, 3, 1)]), None);
        assert_eq!(ids(&[(3, 3, 2), (4, 4, 9)]), None);
        // A cycle does not loop forever.
        assert_eq!(ids(&[(3, 3, 4), (4, 4, 3)]), None);
    }
}

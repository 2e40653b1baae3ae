//! Ways around the commit point, for tests and benchmarks that play another process or a damaged
//! repository. Not part of the library's interface.
//!
//! A program changes a repository only through `Repo`, which passes the commit point. The functions
//! below can leave names without objects, or free objects that are in use.

use super::{
    CondemnResult, DatabaseLock, NamedPlace, NewOperation, Operation, Refs, RefsError,
    SeenOperation,
};
use crate::hash::ObjectId;
use crate::store::{
    Catalogue, FinishedJob, IndexId, LogPack, PackId, PackRow, SegmentRow, Store, StoreError,
    StoreWriter, UnregisteredIndex,
};
use std::collections::{BTreeSet, HashSet};

/// Begins a job that adds objects.
pub fn writer(store: &Store) -> Result<StoreWriter<'_>, StoreError> {
    store.writer()
}

/// Begins a job that copies objects out of the packs `leaving`.
pub fn mover(store: &Store, leaving: HashSet<PackId>) -> Result<StoreWriter<'_>, StoreError> {
    store.mover(leaving)
}

/// Stores again the objects of some frames of a pack for which `stays` holds.
pub fn move_out(
    store: &Store,
    pack: PackId,
    leaving: &HashSet<PackId>,
    frames: &BTreeSet<u64>,
    stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
) -> Result<FinishedJob, StoreError> {
    let job = store.move_out(pack, leaving, frames, stays, &mut |_| true)?;
    Ok(job.expect("nothing stops it"))
}

/// Writes a merged index that no catalogue lists yet.
pub fn merge_tables(
    store: &Store,
    catalogue: &Catalogue,
) -> Result<Option<UnregisteredIndex>, StoreError> {
    store.merge_tables(catalogue)
}

/// Takes the objects of a job into use.
pub fn adopt(store: &Store, job: &FinishedJob) {
    store.adopt(job);
}

/// Takes a catalogue into use.
pub fn load(store: &Store, catalogue: Catalogue) -> Result<(), StoreError> {
    store.load(catalogue)
}

/// Removes the files of merged indexes.
pub fn remove_indexes(store: &Store, ids: &[IndexId]) {
    store.remove_indexes(ids);
}

/// Changes the view. The objects that it names are not checked.
pub fn publish(
    refs: &Refs,
    operation: NewOperation,
    log: &LogPack,
) -> Result<Operation, RefsError> {
    let named: &[NamedPlace] = &[];
    refs.publish(operation, &[], &[], named, log)
}

/// Lists segments whose objects nothing names.
pub fn add_segments(
    refs: &Refs,
    segments: &[SegmentRow],
    relied: &[PackId],
) -> Result<(), RefsError> {
    refs.add_segments(segments, relied, None)
}

/// Takes packs out of use.
pub fn condemn(
    refs: &Refs,
    lock: &DatabaseLock,
    log: &LogPack,
    packs: &[PackRow],
    seen: SeenOperation,
    dissolved: &[IndexId],
) -> Result<CondemnResult, RefsError> {
    refs.condemn(lock, log, packs, seen, dissolved)
}

/// Forgets packs that are out of use.
pub fn forget_leaving(refs: &Refs, lock: &DatabaseLock, packs: &[PackId]) -> Result<(), RefsError> {
    refs.forget_leaving(lock, packs)
}

/// Takes merged indexes out of use.
pub fn forget_indexes(refs: &Refs, indexes: &[IndexId]) -> Result<(), RefsError> {
    refs.forget_indexes(indexes)
}

/// Takes a merged index into use.
pub fn register_merged(refs: &Refs, merged: &UnregisteredIndex) -> Result<bool, RefsError> {
    refs.register_merged(merged)
}

/// Takes over segments and the end of the log pack.
pub fn roll_forward(refs: &Refs, segments: &[SegmentRow], log_end: u64) -> Result<(), RefsError> {
    refs.roll_forward(&refs.lock_database()?, segments, &[], log_end)
}

/// Appends a record to the log pack durably, and returns the end of the file.
pub fn append(log: &LogPack, payload: &[u8]) -> Result<u64, StoreError> {
    log.append(payload)
}

/// Shortens the log pack.
pub fn take_back(log: &LogPack, len: u64) -> Result<(), StoreError> {
    log.take_back(len)
}

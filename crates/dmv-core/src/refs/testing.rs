//! Ways around the commit point, for tests and benchmarks that play another process or a damaged
//! repository. Not part of the library's interface.
//!
//! A program changes a repository only through `Repo`, which passes the commit point. The methods
//! below can leave names without objects, or free objects that are in use.

use super::{
    CondemnResult, DatabaseLock, NamedPlace, NewOperation, Operation, Refs, RefsError,
    SeenOperation,
};
use crate::hash::ObjectId;
use crate::store::{
    Catalogue, FinishedJob, FrameEncoder, FrameObject, IndexId, LogPack, PackId, PackKind, PackRow,
    SegmentRow, Store, StoreError, StoreWriter, UnregisteredIndex,
};
use std::collections::{BTreeSet, HashSet};

/// Writes to a store without a command.
pub trait StoreBypass {
    /// Begins a job that adds objects.
    fn writer(&self) -> Result<StoreWriter<'_>, StoreError>;

    /// Begins a job that copies objects out of the packs `leaving`.
    fn mover(&self, leaving: HashSet<PackId>) -> Result<StoreWriter<'_>, StoreError>;

    /// Stores again what `stays` of a pack; `None` if `moved` ended the work.
    fn move_out(
        &self,
        pack: PackId,
        leaving: &HashSet<PackId>,
        frames: &BTreeSet<u64>,
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<FinishedJob>, StoreError>;

    /// Takes the objects of a job into use.
    fn adopt(&self, job: &FinishedJob);

    /// Takes a catalogue into use.
    fn load(&self, catalogue: Catalogue) -> Result<(), StoreError>;

    /// Writes a merged index that no catalogue lists yet.
    fn merge_tables(&self, catalogue: &Catalogue) -> Result<Option<UnregisteredIndex>, StoreError>;

    /// Removes the files of merged indexes.
    fn remove_indexes(&self, ids: &[IndexId]);
}

impl StoreBypass for Store {
    fn writer(&self) -> Result<StoreWriter<'_>, StoreError> {
        Store::writer(self)
    }

    fn mover(&self, leaving: HashSet<PackId>) -> Result<StoreWriter<'_>, StoreError> {
        Store::mover(self, leaving)
    }

    fn move_out(
        &self,
        pack: PackId,
        leaving: &HashSet<PackId>,
        frames: &BTreeSet<u64>,
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<FinishedJob>, StoreError> {
        Store::move_out(self, pack, leaving, frames, stays, moved)
    }

    fn adopt(&self, job: &FinishedJob) {
        Store::adopt(self, job);
    }

    fn load(&self, catalogue: Catalogue) -> Result<(), StoreError> {
        Store::load(self, catalogue)
    }

    fn merge_tables(&self, catalogue: &Catalogue) -> Result<Option<UnregisteredIndex>, StoreError> {
        Store::merge_tables(self, catalogue)
    }

    fn remove_indexes(&self, ids: &[IndexId]) {
        Store::remove_indexes(self, ids);
    }
}

/// Writes with a writer of a store.
pub trait WriterBypass: Sized {
    /// Returns whether the caller must write `id`.
    fn claim(&self, id: &ObjectId) -> Result<bool, StoreError>;

    /// Appends a frame.
    fn append(
        &self,
        kind: PackKind,
        encoder: &mut FrameEncoder,
        raw: &[u8],
        objects: &[FrameObject],
    ) -> Result<(), StoreError>;

    /// Ends the segments and makes everything durable.
    fn finish(self) -> Result<FinishedJob, StoreError>;
}

impl WriterBypass for StoreWriter<'_> {
    fn claim(&self, id: &ObjectId) -> Result<bool, StoreError> {
        StoreWriter::claim(self, id)
    }

    fn append(
        &self,
        kind: PackKind,
        encoder: &mut FrameEncoder,
        raw: &[u8],
        objects: &[FrameObject],
    ) -> Result<(), StoreError> {
        StoreWriter::append(self, kind, encoder, raw, objects)
    }

    fn finish(self) -> Result<FinishedJob, StoreError> {
        StoreWriter::finish(self)
    }
}

/// Writes to the database without a command.
pub trait RefsBypass {
    /// Changes the view.
    fn publish(
        &self,
        operation: NewOperation,
        segments: &[SegmentRow],
        relied: &[PackId],
        named: &[NamedPlace],
        log: &LogPack,
    ) -> Result<Operation, RefsError>;

    /// Lists segments whose objects nothing names.
    fn add_segments(
        &self,
        segments: &[SegmentRow],
        relied: &[PackId],
        at: Option<i64>,
    ) -> Result<(), RefsError>;

    /// Takes packs out of use.
    fn condemn(
        &self,
        lock: &DatabaseLock,
        log: &LogPack,
        packs: &[PackRow],
        seen: SeenOperation,
        dissolved: &[IndexId],
    ) -> Result<CondemnResult, RefsError>;

    /// Forgets packs that are out of use.
    fn forget_leaving(&self, lock: &DatabaseLock, packs: &[PackId]) -> Result<(), RefsError>;

    /// Takes merged indexes out of use.
    fn forget_indexes(&self, indexes: &[IndexId]) -> Result<(), RefsError>;

    /// Takes a merged index into use.
    fn register_merged(&self, merged: &UnregisteredIndex) -> Result<bool, RefsError>;

    /// Takes over operations of the log pack.
    fn roll_forward(
        &self,
        lock: &DatabaseLock,
        segments: &[SegmentRow],
        operations: &[Operation],
        log_end: u64,
    ) -> Result<(), RefsError>;
}

impl RefsBypass for Refs {
    fn publish(
        &self,
        operation: NewOperation,
        segments: &[SegmentRow],
        relied: &[PackId],
        named: &[NamedPlace],
        log: &LogPack,
    ) -> Result<Operation, RefsError> {
        Refs::publish(self, operation, segments, relied, named, log)
    }

    fn add_segments(
        &self,
        segments: &[SegmentRow],
        relied: &[PackId],
        at: Option<i64>,
    ) -> Result<(), RefsError> {
        Refs::add_segments(self, segments, relied, at)
    }

    fn condemn(
        &self,
        lock: &DatabaseLock,
        log: &LogPack,
        packs: &[PackRow],
        seen: SeenOperation,
        dissolved: &[IndexId],
    ) -> Result<CondemnResult, RefsError> {
        Refs::condemn(self, lock, log, packs, seen, dissolved)
    }

    fn forget_leaving(&self, lock: &DatabaseLock, packs: &[PackId]) -> Result<(), RefsError> {
        Refs::forget_leaving(self, lock, packs)
    }

    fn forget_indexes(&self, indexes: &[IndexId]) -> Result<(), RefsError> {
        Refs::forget_indexes(self, indexes)
    }

    fn register_merged(&self, merged: &UnregisteredIndex) -> Result<bool, RefsError> {
        Refs::register_merged(self, merged)
    }

    fn roll_forward(
        &self,
        lock: &DatabaseLock,
        segments: &[SegmentRow],
        operations: &[Operation],
        log_end: u64,
    ) -> Result<(), RefsError> {
        Refs::roll_forward(self, lock, segments, operations, log_end)
    }
}

/// Writes to the log pack without a command.
pub trait LogBypass {
    /// Appends a record durably, and returns the end of the file.
    fn append(&self, payload: &[u8]) -> Result<u64, StoreError>;

    /// Shortens the file.
    fn take_back(&self, len: u64) -> Result<(), StoreError>;
}

impl LogBypass for LogPack {
    fn append(&self, payload: &[u8]) -> Result<u64, StoreError> {
        LogPack::append(self, payload)
    }

    fn take_back(&self, len: u64) -> Result<(), StoreError> {
        LogPack::take_back(self, len)
    }
}

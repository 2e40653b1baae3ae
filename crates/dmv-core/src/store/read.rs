//! Reading objects: find a copy, read its frame, hash the object, compare, return it.
//!
//! An object may have several copies. [`CopySource`] names where the store looks for one, in order. A read
//! takes the first copy that is intact. Bytes that do not hash to the requested id never leave this module.
//!
//! A frame may need bases, the chunks whose bytes are needed to decode it (docs/format/pack.md, "Frames with
//! bases"). A base is read from a frame that needs no base itself. So a read touches at most one layer of bases,
//! whatever a pack says.

use super::cache::RecordKey;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::frame::FrameTable;
use super::index_entry::Place;
use super::layout::Encoding;
use super::pack_reader::{Frame, FrameUse, KEPT_RECORDS_BYTES};
use super::pack_store::Store;
use super::random_id::PackId;
use crate::hash::ObjectId;
use crate::limits::MAX_BASE_BYTES;
use crate::memory::Budget;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Least length in bytes of a chunk of a raw frame that is read alone.
const DIRECT_BYTES: u32 = 8 << 10;

/// Where the bytes of an object come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesFrom {
    /// They were read just now from a pack, which has them as they are.
    Pack {
        /// The pack.
        pack: PackId,
        /// Their offset there.
        at: u64,
    },
    /// They were decoded, or read before.
    Memory,
}

/// Where the store looks for a copy of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopySource {
    /// The place that was found first: in a table, among unpublished objects, or in a transfer.
    Found,
    /// Any table in use: two jobs at the same time may both have stored the object.
    Tables,
    /// A newer catalogue: another process may have removed the pack meanwhile.
    NewerCatalogue,
    /// The tables of segments that merged indexes replace. A merged index names one place of each object.
    HiddenTables,
}

impl CopySource {
    const ALL: [CopySource; 4] = [
        CopySource::Found,
        CopySource::Tables,
        CopySource::NewerCatalogue,
        CopySource::HiddenTables,
    ];
}

type Copies<'c> = Box<dyn Iterator<Item = (PackId, Place)> + 'c>;

impl Store {
    /// Returns the copies of an object from one source. `found` is the place that was found first.
    fn copies<'c>(
        &'c self,
        source: CopySource,
        id: &'c ObjectId,
        found: Option<(PackId, Place)>,
    ) -> Result<Copies<'c>, StoreError> {
        Ok(match source {
            CopySource::Found => Box::new(found.into_iter()),
            // A table that cannot be read does not hide the others.
            CopySource::Tables => {
                let copies = self.index.copies(id).flatten();
                Box::new(copies.filter(move |copy| Some(*copy) != found))
            }
            CopySource::NewerCatalogue => Box::new(self.locate(id)?.into_iter()),
            CopySource::HiddenTables => Box::new(
                self.hidden_tables()?
                    .filter_map(move |table| table.lookup(id, &Budget::none()).ok()?),
            ),
        })
    }

    /// Appends the verified bytes of an object to `out`. Returns `false` if it is not stored here.
    pub fn read_into(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        Ok(self.read_from(ty, id, out)?.is_some())
    }

    /// Appends the verified bytes of an object to `out`, and returns where they come from. Returns `None` if
    /// it is not stored here.
    pub(crate) fn read_from(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        out: &mut Vec<u8>,
    ) -> Result<Option<BytesFrom>, StoreError> {
        if ty != ObjectType::Chunk {
            self.metadata_requests.fetch_add(1, Ordering::Relaxed);
        }
        // Another thread may load a newer catalogue meanwhile.
        let before = self.current().number;
        let mut found = self.locate_or_wait(id)?;
        if found.is_none() {
            // An absent object is normal in a partial repository, but a damaged table would look
            // the same.
            self.check_tables_once()?;
            found = self.locate(id)?;
        }
        let Some((pack, place)) = found else {
            return Ok(None);
        };
        let mut first = None;
        for source in CopySource::ALL {
            if source == CopySource::NewerCatalogue {
                let is_gone = first.as_ref().is_some_and(StoreError::is_not_found);
                if !is_gone || !self.refresh()? && self.current().number == before {
                    continue;
                }
                if self.locate(id)?.is_none() {
                    return Ok(None);
                }
            }
            for (at, copy) in self.copies(source, id, found)? {
                let (pack, place) = (at, copy);
                let wanted = WantedCopy {
                    ty,
                    id,
                    pack,
                    place,
                };
                match self.read_copy(wanted, FrameUse::Object, out) {
                    Ok(from) => return Ok(Some(from)),
                    Err(e) => first = first.or(Some(e)),
                }
            }
            // The caller may have asked for a commit by the id of a tree. If the tree is intact,
            // there is no such commit.
            let is_other_type = source == CopySource::Found && place.ty != ty;
            if is_other_type && self.can_read_at(id, pack, place) {
                return Ok(None);
            }
        }
        match first {
            Some(e) if !e.is_not_found() => Err(e),
            _ => Err(self.lost_pack(pack)),
        }
    }

    fn lost_pack(&self, pack: PackId) -> StoreError {
        let path = self.pack_path(pack);
        StoreError::LostPack { pack, path }
    }

    fn check_tables_once(&self) -> Result<(), StoreError> {
        let checked = &self.freshness.tables_checked;
        if checked.get().is_none() {
            self.check_tables()?;
            let _ = checked.set(());
        }
        Ok(())
    }

    /// Reads and checks every table in use. Only if all are intact is an object that the store does
    /// not find really absent.
    pub fn check_tables(&self) -> Result<(), StoreError> {
        let current = self.current();
        current.refuse_unreadable()?;
        if let Some(lost) = current.lost.first() {
            return Err(self.lost_pack(lost.id));
        }
        match current.damaged_tables().into_iter().next() {
            Some(why) => Err(StoreError::DamagedTable { why }),
            None => Ok(()),
        }
    }

    /// Appends the verified bytes of an object at a place. Appends nothing if that fails.
    pub(super) fn read_at_place(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        pack: PackId,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let wanted = WantedCopy {
            ty,
            id,
            pack,
            place,
        };
        self.read_copy(wanted, FrameUse::Object, out).map(drop)
    }

    fn read_copy(
        &self,
        wanted: WantedCopy<'_>,
        frame_use: FrameUse,
        out: &mut Vec<u8>,
    ) -> Result<BytesFrom, StoreError> {
        let WantedCopy {
            ty,
            id,
            pack,
            place,
        } = wanted;
        let damaged = |why: &str| StoreError::DamagedObject {
            id: *id,
            ty,
            pack: self.pack_path(pack),
            offset: place.offset,
            why: why.to_owned(),
        };
        let offset = place.offset;
        let key = RecordKey { pack, offset };
        if let Some(record) = self.following.as_ref().and_then(|other| other.handed(key))
            && let Some(bytes) = record.object(place.ordinal, ty, id)
        {
            out.extend_from_slice(bytes);
            return Ok(BytesFrom::Memory);
        }
        let as_object = |e| match e {
            StoreError::DamagedFile { why, .. } => damaged(why),
            other => other,
        };
        let (start, mut from) = (out.len(), BytesFrom::Memory);
        if let Some(frame) = self.reader.cached(key) {
            let range = object_range(&frame.table, place, ty).map_err(damaged)?;
            out.extend_from_slice(frame.part(&range));
        } else {
            let table = self.reader.table(pack, place.offset).map_err(as_object)?;
            let range = object_range(&table, place, ty).map_err(damaged)?;
            if is_read_alone(&table, ty, range.end - range.start) {
                let at = self.reader.read_alone(key, &table.header, &range, out)?;
                from = BytesFrom::Pack { pack, at };
            } else if let Some(bytes) = self.reader.overflowed(key, &range)
                && ty.id_of(&bytes) == *id
            {
                out.extend_from_slice(&bytes);
                return Ok(from);
            } else {
                let frame = self.decode(key, table).map_err(as_object)?;
                out.extend_from_slice(frame.part(&range));
                self.reader.keep(key, &frame, frame_use);
            }
        }
        if ty.id_of(&out[start..]) != *id {
            out.truncate(start);
            return Err(damaged("stored bytes do not hash to the id"));
        }
        Ok(from)
    }

    /// Returns whether the bytes at a place are those of `id`.
    pub(super) fn can_read_at(&self, id: &ObjectId, pack: PackId, place: Place) -> bool {
        let read = self.read_at_place(place.ty, id, pack, place, &mut Vec::new());
        read.is_ok()
    }

    /// Reads and checks a complete frame.
    pub(super) fn whole_frame(&self, pack: PackId, offset: u64) -> Result<Arc<Frame>, StoreError> {
        let table = self.reader.table(pack, offset)?;
        self.decode(RecordKey { pack, offset }, table)
    }

    /// Returns the pack that has the bytes of a chunk as they are, and their offset there, without reading them.
    /// `None` if no pack has them so, as far as this store knows, or if their number is not `len`.
    pub(crate) fn raw_place(&self, id: &ObjectId, len: u64) -> Option<(PackId, u64)> {
        let (pack, place) = self.locate(id).ok()??;
        let table = self.reader.table(pack, place.offset).ok()?;
        let range = object_range(&table, place, ObjectType::Chunk).ok()?;
        let found = range.end - range.start;
        let is_raw = is_read_alone(&table, ObjectType::Chunk, found) && u64::from(found) == len;
        is_raw.then(|| (pack, table.header.part_at(place.offset, &range)))
    }

    fn decode(&self, key: RecordKey, table: Arc<FrameTable>) -> Result<Arc<Frame>, StoreError> {
        let bases = |table: &FrameTable| self.base_bytes(table, key.pack, key.offset);
        self.reader.decode(key, table, &bases)
    }

    /// Reads, decodes and hashes a frame. Returns it with the bytes of its bases in a row.
    pub(super) fn checked_at(
        &self,
        pack: PackId,
        offset: u64,
    ) -> Result<(CheckedRecord, Vec<u8>), StoreError> {
        let table = self.reader.table(pack, offset)?;
        let record = self
            .reader
            .record(RecordKey { pack, offset }, &table.header)?;
        let prefix = self.base_bytes(&table, pack, offset)?;
        let record = CheckedRecord::with_prefix(record, &prefix);
        let record = record.map_err(|why| self.files().damaged(pack, offset, why))?;
        Ok((record.read_at(RecordKey { pack, offset }), prefix))
    }

    /// Returns the bytes of a frame's bases in a row. `pack` and `offset` are the frame's place.
    pub(super) fn base_bytes(
        &self,
        table: &FrameTable,
        pack: PackId,
        offset: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let mut out = Vec::new();
        for id in &table.base {
            self.read_base(id, pack, offset, &mut out)?;
            if out.len() > MAX_BASE_BYTES {
                let why = "base objects are too large together";
                return Err(self.files().damaged(pack, offset, why));
            }
        }
        Ok(out)
    }

    /// Appends the bytes of a base. The place that is found first may be damaged, or in another frame with
    /// bases.
    fn read_base(
        &self,
        id: &ObjectId,
        pack: PackId,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut first = None;
        let found = self.locate_or_wait(id)?;
        for source in CopySource::ALL {
            if source != CopySource::NewerCatalogue {
                for (at, copy) in self.copies(source, id, found)? {
                    match self.read_plain(id, at, copy, out) {
                        Ok(()) => return Ok(()),
                        Err(e) if source == CopySource::Found => first = Some(e),
                        Err(_) => {}
                    }
                }
            }
        }
        let why = first.map_or("is missing".to_owned(), |e| format!("cannot be read: {e}"));
        Err(StoreError::DamagedObject {
            id: *id,
            ty: ObjectType::Chunk,
            pack: self.pack_path(pack),
            offset,
            why: format!("a base object of the frame {why}"),
        })
    }

    /// Appends the verified bytes of a chunk at a place whose frame needs no base. So reading a
    /// base never leads to another one.
    pub(super) fn read_plain(
        &self,
        id: &ObjectId,
        pack: PackId,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let table = self.reader.table(pack, place.offset)?;
        if table.header.encoding == Encoding::ZstdWithBase {
            let why = "a base object has a base itself";
            return Err(self.files().damaged(pack, place.offset, why));
        }
        let ty = ObjectType::Chunk;
        let wanted = WantedCopy {
            ty,
            id,
            pack,
            place,
        };
        self.read_copy(wanted, FrameUse::Base, out).map(drop)
    }

    /// Appends the verified bytes of a chunk of which there is an intact copy in a frame without bases. Returns
    /// whether there is one. A frame with bases is never decoded for it.
    pub fn read_without_bases(&self, id: &ObjectId, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        for found in self.index.copies(id) {
            let (pack, place) = found?;
            if place.ty == ObjectType::Chunk && self.read_plain(id, pack, place, out).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the bytes that an object takes in its pack: its share of a frame that is compressed or
    /// stored as a difference. `None`: it is not stored, as far as this store knows.
    pub fn stored_len(&self, id: &ObjectId) -> Result<Option<u64>, StoreError> {
        let Some((pack, place)) = self.locate(id)? else {
            return Ok(None);
        };
        let table = self.reader.table(pack, place.offset)?;
        Ok(Some(table.stored_share(place.ordinal)))
    }

    /// Returns for each of many objects the bytes that it takes in its pack. Reads the tables of their frames
    /// in the order of packs. Objects that are not stored, or whose frame is damaged, take nothing.
    pub fn stored_lens(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<u64>, StoreError> {
        let mut places: Vec<(PackId, u64, u16, u32)> = Vec::with_capacity(objects.len());
        self.locate_all(objects, &mut |n, pack, place| {
            places.push((pack, place.offset, place.ordinal, n));
        })?;
        places.sort_unstable();
        let mut lens = vec![0; objects.len()];
        for (pack, offset, ordinal, n) in places {
            match self.reader.table(pack, offset) {
                Ok(table) => lens[n as usize] = table.stored_share(ordinal),
                Err(StoreError::DamagedFile { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(lens)
    }
}

/// An object at a place.
struct WantedCopy<'w> {
    ty: ObjectType,
    id: &'w ObjectId,
    pack: PackId,
    place: Place,
}

/// Returns whether an object of `len` bytes is read alone, without the rest of its frame.
fn is_read_alone(table: &FrameTable, ty: ObjectType, len: u32) -> bool {
    // All nodes of a large file are in one frame, and two of them show what has changed in the
    // file.
    let is_large = table.header.record_len() > KEPT_RECORDS_BYTES as u64;
    table.header.encoding == Encoding::Raw
        && (len >= DIRECT_BYTES || table.objects.len() == 1 || ty != ObjectType::Chunk && is_large)
}

fn object_range(
    table: &FrameTable,
    place: Place,
    ty: ObjectType,
) -> Result<Range<u32>, &'static str> {
    let (found, range) = table
        .objects
        .get(usize::from(place.ordinal))
        .ok_or("index names no object of its frame")?;
    if *found != ty || place.ty != ty {
        return Err("object is of another type");
    }
    Ok(range.clone())
}

impl ObjectRead for Store {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        let mut out = Vec::new();
        Ok(self.read_into(ty, id, &mut out)?.then(|| out.into()))
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        let place = self.locate_or_wait(id)?;
        if place.is_none() {
            self.current().refuse_unreadable()?;
        }
        Ok(place.is_some_and(|(_, place)| place.ty == ty))
    }

    fn holds_all(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<bool>, ObjectError> {
        let mut held = vec![false; objects.len()];
        self.locate_all(objects, &mut |n, _, place| {
            let n = n as usize;
            held[n] = place.ty == objects[n].0;
        })?;
        if !held.iter().all(|held| *held) {
            self.current().refuse_unreadable()?;
        }
        Ok(held)
    }

    fn reading_ranks(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<u32>, ObjectError> {
        let mut found: Vec<(PackId, u64, u32)> = Vec::with_capacity(objects.len());
        self.locate_all(objects, &mut |n, pack, place| {
            found.push((pack, place.offset, n))
        })?;
        found.sort_unstable();
        let mut ranks = vec![0; objects.len()];
        for ((.., n), rank) in found.into_iter().zip(0..) {
            ranks[n as usize] = rank;
        }
        Ok(ranks)
    }
}

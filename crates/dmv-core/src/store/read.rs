//! Reading objects: find the place, read the frame, hash the object, compare, return it.
//!
//! If the first place is damaged, other copies are tried: at the places of other tables, then at
//! places that merged indexes hide.

use super::cache::{Cache, Key};
use super::damage::refusal;
use super::error::StoreError;
use super::frame::{FrameTable, decode_payload};
use super::layout::{Encoding, PAYLOAD_CHECK_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordType};
use super::overflow::Overflow;
use super::random_id::PackId;
use super::table::Place;
use super::{Store, read};
use crate::hash::ObjectId;
use crate::memory::Budget;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::path::{PathContext, PathError};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of decoded frames that are cached: enough for a few readers that each follow a stream.
const CACHED_BYTES: usize = 24 << 20;
/// Bytes of decoded frames with bases that are cached besides: those of the last dozens of frames. A reader
/// goes on in other frames, and comes back to these.
const CACHED_BASES_BYTES: usize = 24 << 20;
/// Approximate memory of a cached frame apart from its bytes and its list of objects.
const FRAME_OVERHEAD_BYTES: usize = 512;
/// Bytes of frame tables that are cached, so that single chunks of raw frames are read without
/// their headers: the tables of a hundred frames with a thousand objects each, or of one frame of
/// any size.
const KEPT_TABLES_BYTES: usize = 1 << 20;
/// Least length in bytes of a chunk of a raw frame that is read alone.
const DIRECT_BYTES: u32 = 8 << 10;
/// Bytes that are read together with a record header. They contain most tables, and the complete
/// frame of a small commit, so that no second read is needed. More bytes would often be read in
/// vain.
const HEAD_GUESS_BYTES: usize = 1 << 10;
/// Bytes of records that are cached as stored. A transfer reads the metadata of a few commits to
/// learn what to send, and then sends these records, so it does not read them twice.
const KEPT_RECORDS_BYTES: usize = 256 << 10;

/// A frame with its decoded bytes.
pub(super) struct Frame {
    table: Arc<FrameTable>,
    raw: Vec<u8>,
}

impl Frame {
    /// Returns whether only the ids of its objects show whether its bytes are intact.
    pub(super) fn has_no_check(&self) -> bool {
        self.table.header.encoding == Encoding::Raw
    }

    /// Returns its objects in order: their types and bytes.
    pub(super) fn objects(&self) -> impl Iterator<Item = (ObjectType, &[u8])> {
        let objects = self.table.objects.iter();
        objects.map(|(ty, range)| (*ty, &self.raw[range.start as usize..range.end as usize]))
    }

    /// Returns the approximate memory that it takes.
    fn size(&self) -> usize {
        let objects = std::mem::size_of_val(&*self.table.objects);
        self.raw.len() + objects + FRAME_OVERHEAD_BYTES
    }
}

/// Recently used frames, frame tables, and the parts of records that were read.
pub(super) struct FrameCache {
    frames: Cache<Frame>,
    /// Frames of which a chunk was needed as a base.
    bases: Cache<Frame>,
    tables: Cache<FrameTable>,
    records: Cache<Vec<u8>>,
    overflow: Overflow,
}

impl FrameCache {
    /// Forgets everything of some packs.
    pub(super) fn forget_packs(&self, packs: &HashSet<PackId>) {
        self.frames.forget_packs(packs);
        self.bases.forget_packs(packs);
        self.tables.forget_packs(packs);
        self.records.forget_packs(packs);
    }
}

impl Default for FrameCache {
    fn default() -> FrameCache {
        FrameCache {
            frames: Cache::sharing(CACHED_BYTES, Budget::for_frames()),
            bases: Cache::sharing(CACHED_BASES_BYTES, Budget::for_frames()),
            tables: Cache::new(KEPT_TABLES_BYTES),
            records: Cache::new(KEPT_RECORDS_BYTES),
            overflow: Overflow::default(),
        }
    }
}

impl Store {
    /// Appends the verified bytes of an object to `out`. Returns `false` if it is not stored here.
    pub fn read_into(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        if ty != ObjectType::Chunk {
            self.metadata_requests.fetch_add(1, Ordering::Relaxed);
        }
        // Another thread may load a newer catalogue meanwhile.
        let loads = self.loads.load(Ordering::Acquire);
        let mut place = self.locate_or_wait(id)?;
        if place.is_none() {
            // An absent object is normal in a partial repository, but a damaged table would look
            // the same.
            self.check_tables_once()?;
            place = self.locate(id)?;
        }
        let Some((pack, place)) = place else {
            return Ok(false);
        };
        let start = out.len();
        let first = self.read_at_place(ty, id, pack, place, out);
        if first.is_ok() {
            return Ok(true);
        }
        // Two jobs at the same time may both have stored it; the other copy is as good.
        let tables = read(&self.tables).clone();
        for table in &tables {
            if let Ok(Some((other, at))) = table.lookup(id, &self.budget)
                && (other, at.offset) != (pack, place.offset)
            {
                out.truncate(start);
                if self.read_at_place(ty, id, other, at, out).is_ok() {
                    return Ok(true);
                }
            }
        }
        out.truncate(start);
        // The caller may have asked for a commit by the id of a tree. If the tree is intact, there
        // is no such commit.
        if place.ty != ty && self.read_at_place(place.ty, id, pack, place, out).is_ok() {
            out.truncate(start);
            return Ok(false);
        }
        out.truncate(start);
        if let Err(StoreError::Io(e)) = &first
            && e.kind() == std::io::ErrorKind::NotFound
            && (self.refresh()? || self.loads.load(Ordering::Acquire) != loads)
        {
            // Another process has removed its pack meanwhile.
            let Some((pack, place)) = self.locate(id)? else {
                return Ok(false);
            };
            if self.read_at_place(ty, id, pack, place, out).is_ok() {
                return Ok(true);
            }
            out.truncate(start);
        }
        if self.read_hidden(ty, id, out)? {
            return Ok(true);
        }
        match first {
            Err(StoreError::Io(e)) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(self.lost_pack(pack))
            }
            first => first.map(|()| true),
        }
    }

    fn lost_pack(&self, pack: PackId) -> StoreError {
        let path = self.pack_path(pack);
        StoreError::LostPack { pack, path }
    }

    fn check_tables_once(&self) -> Result<(), StoreError> {
        if self.tables_checked.get().is_none() {
            self.check_tables()?;
            let _ = self.tables_checked.set(());
        }
        Ok(())
    }

    /// Reads and checks every table in use. Only if all are intact is an object that the store does
    /// not find really absent.
    pub fn check_tables(&self) -> Result<(), StoreError> {
        self.refuse_unreadable()?;
        if let Some(lost) = read(&self.lost).first() {
            return Err(self.lost_pack(lost.id));
        }
        if let Some(why) = self.damaged_tables().into_iter().next() {
            return Err(StoreError::DamagedTable { why });
        }
        Ok(())
    }

    /// Fails if this process may not read a table. Such a table is not damaged, and what it lists is not
    /// absent.
    pub(crate) fn refuse_unreadable(&self) -> Result<(), StoreError> {
        for broken in read(&self.broken).iter() {
            if let StoreError::Io(e) = broken
                && let Some(source) = refusal(&e.source)
            {
                return Err(PathError::new(e.op, e.path.clone(), source).into());
            }
        }
        Ok(())
    }

    pub(super) fn read_at_place(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        pack: PackId,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        self.read_through(&self.cache.frames, (ty, id), (pack, place), out)
    }

    /// Like [`read_at_place`](Self::read_at_place), for a chunk that is needed as a base.
    pub(super) fn read_base_at_place(
        &self,
        id: &ObjectId,
        pack: PackId,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let object = (ObjectType::Chunk, id);
        self.read_through(&self.cache.bases, object, (pack, place), out)
    }

    /// Appends the verified bytes of an object at a place. Caches its frame in `cache`.
    fn read_through(
        &self,
        cache: &Cache<Frame>,
        (ty, id): (ObjectType, &ObjectId),
        (pack, place): (PackId, Place),
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let damaged = |why: &str| StoreError::DamagedObject {
            id: *id,
            ty,
            pack: self.pack_path(pack),
            offset: place.offset,
            why: why.to_owned(),
        };
        let start = out.len();
        let key = (pack, place.offset);
        if let Some(record) = self.following.as_ref().and_then(|other| other.handed(key))
            && let Some(bytes) = record.object(place.ordinal, ty, id)
        {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let cached = self.cache.frames.get(key);
        if let Some(frame) = cached.or_else(|| self.cache.bases.get(key)) {
            let range = object_range(&frame.table, place, ty).map_err(damaged)?;
            out.extend_from_slice(&frame.raw[range.start as usize..range.end as usize]);
        } else {
            let table = self.frame_table(pack, place.offset).map_err(|e| match e {
                StoreError::DamagedFile { why, .. } => damaged(why),
                other => other,
            })?;
            let range = object_range(&table, place, ty).map_err(damaged)?;
            if is_read_alone(&table, ty, range.end - range.start) {
                let at = place.offset + table.header.payload_at() + u64::from(range.start);
                out.resize(start + (range.end - range.start) as usize, 0);
                self.read_bytes(pack, &mut out[start..], at)?;
            } else if let Some(bytes) = self.cache.overflow.read(key, &range)
                && ty.id_of(&bytes) == *id
            {
                out.extend_from_slice(&bytes);
                return Ok(());
            } else {
                let frame = self.load_frame(key, table).map_err(|e| match e {
                    StoreError::DamagedFile { why, .. } => damaged(why),
                    other => other,
                })?;
                out.extend_from_slice(&frame.raw[range.start as usize..range.end as usize]);
                let size = frame.size();
                cache.keep(key, &frame, size);
                self.cache
                    .overflow
                    .decoded(key, &frame.raw, &|| self.vfs.unnamed(&self.packs_dir).ok());
            }
        }
        if ty.id_of(&out[start..]) != *id {
            out.truncate(start);
            return Err(damaged("stored bytes do not hash to the id"));
        }
        Ok(())
    }

    pub(super) fn read_bytes(
        &self,
        pack: PackId,
        buf: &mut [u8],
        at: u64,
    ) -> Result<(), StoreError> {
        let file = self.pack_file(pack)?;
        let n = file
            .read_at(buf, at)
            .context("read", &self.pack_path(pack))
            .map_err(StoreError::Io)?;
        if n < buf.len() {
            let why = "file ends too soon";
            return Err(StoreError::DamagedFile {
                path: self.pack_path(pack),
                offset: at,
                why,
            });
        }
        Ok(())
    }

    pub(super) fn frame_table(
        &self,
        pack: PackId,
        offset: u64,
    ) -> Result<Arc<FrameTable>, StoreError> {
        let key = (pack, offset);
        if let Some(table) = self.cache.tables.get(key) {
            return Ok(table);
        }
        let file = self.pack_file(pack)?;
        let damaged = |why| StoreError::DamagedFile {
            path: self.pack_path(pack),
            offset,
            why,
        };
        let mut head = vec![0; HEAD_GUESS_BYTES];
        let n = file
            .read_at(&mut head, offset)
            .context("read", &self.pack_path(pack))
            .map_err(StoreError::Io)?;
        head.truncate(n);
        let header = RecordHeader::decode(&head).map_err(damaged)?;
        if header.ty != RecordType::Frame {
            return Err(damaged("index names a record that is not a frame"));
        }
        let table_end = RECORD_HEADER_BYTES + header.table_len as usize;
        if n < table_end {
            head.resize(table_end, 0);
            self.read_bytes(pack, &mut head[n..], offset + n as u64)?;
        }
        let table = &head[RECORD_HEADER_BYTES..table_end];
        if !header.check_table(table) {
            return Err(damaged("frame header fails its check"));
        }
        let table = Arc::new(FrameTable::decode(header, table).map_err(damaged)?);
        let size = std::mem::size_of_val(&*table.objects) + FRAME_OVERHEAD_BYTES;
        self.cache.tables.keep(key, &table, size);
        head.truncate(header.record_len() as usize);
        self.keep_record(key, head);
        Ok(table)
    }

    /// Returns the record of a frame, without reading the cached part again.
    pub(super) fn record(
        &self,
        (pack, offset): Key,
        header: &RecordHeader,
    ) -> Result<Vec<u8>, StoreError> {
        let mut record = match self.cache.records.get((pack, offset)) {
            Some(begun) => begun.to_vec(),
            None => Vec::new(),
        };
        let begun = record.len();
        record.resize(header.record_len() as usize, 0);
        if let Some(missing) = record.get_mut(begun..).filter(|m| !m.is_empty()) {
            self.read_bytes(pack, missing, offset + begun as u64)?;
        }
        Ok(record)
    }

    fn keep_record(&self, key: Key, begun: Vec<u8>) {
        let size = begun.len();
        if size <= KEPT_RECORDS_BYTES {
            self.cache.records.keep(key, &Arc::new(begun), size);
        }
    }

    /// Reads and checks a complete frame.
    pub(super) fn whole_frame(&self, pack: PackId, offset: u64) -> Result<Arc<Frame>, StoreError> {
        let table = self.frame_table(pack, offset)?;
        self.load_frame((pack, offset), table)
    }

    fn load_frame(&self, key: Key, table: Arc<FrameTable>) -> Result<Arc<Frame>, StoreError> {
        let (pack, offset) = key;
        let header = table.header;
        let record = self.record(key, &header)?;
        let damaged = |why| StoreError::DamagedFile {
            path: self.pack_path(pack),
            offset,
            why,
        };
        let payload_at = header.payload_at() as usize;
        let (body, sum) = record.split_at(record.len() - PAYLOAD_CHECK_BYTES);
        let stored = &body[payload_at..];
        if header.payload_check(stored) != sum {
            return Err(damaged("frame payload fails its check"));
        }
        let base = self.base_bytes(&table, pack, offset)?;
        let raw = decode_payload(&header, stored, &base).map_err(damaged)?;
        let raw = raw.into_owned();
        if table.objects.iter().all(|(ty, _)| *ty != ObjectType::Chunk) {
            self.keep_record(key, record);
        }
        Ok(Arc::new(Frame { table, raw }))
    }

    /// Returns the bytes that an object takes in its pack: its share of a frame that is compressed or
    /// stored as a difference. `None`: it is not stored, as far as this store knows.
    pub fn stored_len(&self, id: &ObjectId) -> Result<Option<u64>, StoreError> {
        let Some((pack, place)) = self.locate(id)? else {
            return Ok(None);
        };
        let table = self.frame_table(pack, place.offset)?;
        Ok(Some(table.stored_share(place.ordinal)))
    }

    /// Returns the same for many objects, and reads the tables of their frames in the order of packs.
    /// Those that are not stored, or whose frame is damaged, take nothing.
    pub fn stored_lens(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<u64>, StoreError> {
        let mut places: Vec<(PackId, u64, u16, u32)> = Vec::with_capacity(objects.len());
        self.locate_all(objects, &mut |n, pack, place| {
            places.push((pack, place.offset, place.ordinal, n));
        })?;
        places.sort_unstable();
        let mut lens = vec![0; objects.len()];
        for (pack, offset, ordinal, n) in places {
            match self.frame_table(pack, offset) {
                Ok(table) => lens[n as usize] = table.stored_share(ordinal),
                Err(StoreError::DamagedFile { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(lens)
    }
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
) -> Result<std::ops::Range<u32>, &'static str> {
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
            self.refuse_unreadable()?;
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
            self.refuse_unreadable()?;
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

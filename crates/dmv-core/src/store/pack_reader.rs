//! Reading frames of packs, through caches.
//!
//! A cached table or frame has passed its checks, except that nothing but the ids of its objects protects a
//! raw frame: code that takes an object out of one compares its id. Each cache has a lock of its own, which
//! is held for single steps only. This module does not know where an object lies, and gets the bases of a
//! frame from its caller.

use super::cache::{Cache, RecordKey};
use super::error::StoreError;
use super::frame::{FrameTable, decode_payload};
use super::layout::{Encoding, PAYLOAD_CHECK_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordType};
use super::overflow::Overflow;
use super::random_id::PackId;
use super::store_files::StoreFiles;
use crate::memory::Budget;
use crate::object::ObjectType;
use crate::path::PathContext;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

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
/// Bytes that are read together with a record header. They contain most tables, and the complete
/// frame of a small commit, so that no second read is needed. More bytes would often be read in
/// vain.
const HEAD_GUESS_BYTES: usize = 1 << 10;
/// Bytes of records that are cached as stored. A transfer reads the metadata of a few commits to
/// learn what to send, and then sends these records, so it does not read them twice.
pub(super) const KEPT_RECORDS_BYTES: usize = 256 << 10;

/// A frame with its decoded bytes.
pub(super) struct Frame {
    pub table: Arc<FrameTable>,
    raw: Vec<u8>,
}

impl Frame {
    /// Returns whether only the ids of its objects show whether its bytes are intact.
    pub fn has_no_check(&self) -> bool {
        self.table.header.encoding == Encoding::Raw
    }

    /// Returns its objects in order: their types and bytes.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectType, &[u8])> {
        let objects = self.table.objects.iter();
        objects.map(|(ty, range)| (*ty, self.part(range)))
    }

    /// Returns a part of its decoded bytes.
    pub fn part(&self, range: &Range<u32>) -> &[u8] {
        &self.raw[range.start as usize..range.end as usize]
    }

    /// Returns the approximate memory that it takes.
    fn size(&self) -> usize {
        let objects = std::mem::size_of_val(&*self.table.objects);
        self.raw.len() + objects + FRAME_OVERHEAD_BYTES
    }
}

/// For which use a frame is decoded, which decides how long it is cached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameUse {
    Object,
    /// A chunk in it is needed as a base.
    Base,
}

/// The files of a store, with recently used frames, frame tables, and the parts of records that were read.
pub(super) struct PackReader {
    pub files: StoreFiles,
    frames: Cache<Frame>,
    bases: Cache<Frame>,
    tables: Cache<FrameTable>,
    records: Cache<Vec<u8>>,
    overflow: Overflow,
}

impl PackReader {
    /// Returns a reader without anything in its caches.
    pub fn new(files: StoreFiles) -> PackReader {
        PackReader {
            files,
            frames: Cache::sharing(CACHED_BYTES, Budget::for_frames()),
            bases: Cache::sharing(CACHED_BASES_BYTES, Budget::for_frames()),
            tables: Cache::new(KEPT_TABLES_BYTES),
            records: Cache::new(KEPT_RECORDS_BYTES),
            overflow: Overflow::default(),
        }
    }

    /// Forgets packs that are out of use, and closes their files.
    pub fn forget(&self, packs: &HashSet<PackId>) {
        if !packs.is_empty() {
            self.files.close(packs);
            self.frames.forget_packs(packs);
            self.bases.forget_packs(packs);
            self.tables.forget_packs(packs);
            self.records.forget_packs(packs);
        }
    }

    /// Returns the table of the frame at `offset`. Its check and its limits hold.
    pub fn table(&self, pack: PackId, offset: u64) -> Result<Arc<FrameTable>, StoreError> {
        let key = RecordKey { pack, offset };
        if let Some(table) = self.tables.get(key) {
            return Ok(table);
        }
        let damaged = |why| self.files.damaged(pack, offset, why);
        let mut head = vec![0; HEAD_GUESS_BYTES];
        let read = self.files.pack(pack)?.read_at(&mut head, offset);
        let n = read.context("read", &self.files.pack_path(pack))?;
        head.truncate(n);
        let header = RecordHeader::decode(&head).map_err(damaged)?;
        if header.ty != RecordType::Frame {
            return Err(damaged("index names a record that is not a frame"));
        }
        let table_end = RECORD_HEADER_BYTES + header.table_len as usize;
        if n < table_end {
            head.resize(table_end, 0);
            self.files.read(pack, &mut head[n..], offset + n as u64)?;
        }
        let table = &head[RECORD_HEADER_BYTES..table_end];
        if !header.check_table(table) {
            return Err(damaged("frame header fails its check"));
        }
        let table = Arc::new(FrameTable::decode(header, table).map_err(damaged)?);
        let size = std::mem::size_of_val(&*table.objects) + FRAME_OVERHEAD_BYTES;
        self.tables.keep(key, &table, size);
        head.truncate(header.record_len() as usize);
        self.keep_record(key, head);
        Ok(table)
    }

    /// Returns whether the frame at `offset` needs no bases.
    pub fn is_plain(&self, pack: PackId, offset: u64) -> bool {
        let table = self.table(pack, offset);
        table.is_ok_and(|table| table.base.is_empty())
    }

    /// Returns the record of a frame as stored, without reading the cached part again. Nothing of its payload
    /// is checked.
    pub fn record(&self, key: RecordKey, header: &RecordHeader) -> Result<Vec<u8>, StoreError> {
        let RecordKey { pack, offset } = key;
        let begun = self.records.get(key);
        let mut record = begun.map_or_else(Vec::new, |begun| begun.to_vec());
        let begun = record.len();
        record.resize(header.record_len() as usize, 0);
        if let Some(missing) = record.get_mut(begun..).filter(|m| !m.is_empty()) {
            self.files.read(pack, missing, offset + begun as u64)?;
        }
        Ok(record)
    }

    fn keep_record(&self, key: RecordKey, begun: Vec<u8>) {
        let size = begun.len();
        if size <= KEPT_RECORDS_BYTES {
            self.records.keep(key, &Arc::new(begun), size);
        }
    }

    /// Returns a frame that is cached.
    pub fn cached(&self, key: RecordKey) -> Option<Arc<Frame>> {
        self.frames.get(key).or_else(|| self.bases.get(key))
    }

    /// Returns a part of a frame that came back too often to stay in memory. The bytes may be damaged.
    pub fn overflowed(&self, key: RecordKey, part: &Range<u32>) -> Option<Vec<u8>> {
        self.overflow.read(key, part)
    }

    /// Caches a frame.
    pub fn keep(&self, key: RecordKey, frame: &Arc<Frame>, frame_use: FrameUse) {
        let cache = match frame_use {
            FrameUse::Object => &self.frames,
            FrameUse::Base => &self.bases,
        };
        cache.keep(key, frame, frame.size());
        let files = &self.files;
        let create = || files.vfs.unnamed(&files.packs_dir).ok();
        self.overflow.decoded(key, &frame.raw, &create);
    }

    /// Reads, checks and decodes a frame. `bases` returns the bytes of its bases in a row.
    pub fn decode(
        &self,
        key: RecordKey,
        table: Arc<FrameTable>,
        bases: &dyn Fn(&FrameTable) -> Result<Vec<u8>, StoreError>,
    ) -> Result<Arc<Frame>, StoreError> {
        let header = table.header;
        let record = self.record(key, &header)?;
        let damaged = |why| self.files.damaged(key.pack, key.offset, why);
        let payload_at = header.payload_at() as usize;
        let (body, sum) = record.split_at(record.len() - PAYLOAD_CHECK_BYTES);
        let stored = &body[payload_at..];
        if header.payload_check(stored) != sum {
            return Err(damaged("frame payload fails its check"));
        }
        let raw = decode_payload(&header, stored, &bases(&table)?).map_err(damaged)?;
        let raw = raw.into_owned();
        if table.objects.iter().all(|(ty, _)| *ty != ObjectType::Chunk) {
            self.keep_record(key, record);
        }
        Ok(Arc::new(Frame { table, raw }))
    }

    /// Reads a part of a raw frame alone, without the rest of it, and returns its offset in the pack. Nothing of
    /// it is checked.
    pub fn read_alone(
        &self,
        key: RecordKey,
        header: &RecordHeader,
        part: &Range<u32>,
        out: &mut Vec<u8>,
    ) -> Result<u64, StoreError> {
        let start = out.len();
        out.resize(start + part.len(), 0);
        let at = header.part_at(key.offset, part);
        let read = self.files.read(key.pack, &mut out[start..], at);
        read.inspect_err(|_| out.truncate(start))?;
        Ok(at)
    }
}

//! A pack that is being appended to: where the next record goes, and the entries of the open segment.
//!
//! Its caller holds the lock of the file. This module writes the ends of segments, and no frames.

use super::catalogue::SegmentRow;
use super::error::StoreError;
use super::index_entry::{Entry, MAX_GAPS};
use super::layout::PackKind;
use super::random_id::PackId;
use super::segment::SegmentEnd;
use crate::limits::MAX_SEGMENT_ENTRIES;
use crate::path::PathContext;
use crate::platform::{BLOCK_BYTES, Origin, write_shared};
use crate::vfs::VfsFile;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of objects at which a segment is closed: less than half of the format's limit. Until then
/// all of them, and the claimed ids, are in memory. This number fills a hash table; a few more
/// would double its size.
pub(super) const SEGMENT_ENTRIES: usize = MAX_SEGMENT_ENTRIES / 16 * 7;

/// The file of a pack, locked for a job that appends to it.
pub(super) struct LockedPack {
    pub id: PackId,
    pub path: PathBuf,
    pub file: Arc<dyn VfsFile>,
    /// Whether the catalogue does not list it yet.
    pub is_unlisted: bool,
    /// Whether this job has made it.
    pub is_own: bool,
}

impl LockedPack {
    /// Returns a pack that the catalogue lists.
    pub fn listed(id: PackId, path: PathBuf, file: Arc<dyn VfsFile>) -> LockedPack {
        LockedPack {
            id,
            path,
            file,
            is_unlisted: false,
            is_own: false,
        }
    }

    /// Writes bytes at an offset.
    pub fn write(&self, bytes: &[u8], at: u64) -> Result<(), StoreError> {
        let written = self.file.write_at(bytes, at);
        Ok(written.context("write to", &self.path)?)
    }

    /// Writes bytes at an offset. If `origin` has the same bytes, the file shares its blocks where it can.
    pub fn write_shared(
        &self,
        bytes: &[u8],
        at: u64,
        origin: Option<Origin<'_>>,
    ) -> Result<(), StoreError> {
        match origin.zip(self.file.system()) {
            Some((origin, file)) => {
                let written = write_shared(file, bytes, at, origin);
                Ok(written.context("write to", &self.path)?)
            }
            None => self.write(bytes, at),
        }
    }
}

/// A pack that a job appends to.
pub(super) struct OpenPack {
    pub pack: Arc<LockedPack>,
    /// Offset of the next record.
    pub offset: u64,
    /// Offset up to which the system was asked to write to the medium.
    pub writeback: u64,
    segment_start: u64,
    previous_end: u64,
    /// Stretches without usable records: of a torn tail, or left before a record. The segment's index names
    /// them.
    pub gaps: Vec<(u64, u64)>,
    /// Objects in the open segment.
    pub entries: Vec<Entry>,
}

impl OpenPack {
    /// Returns a pack that is continued at `offset`, without entries.
    pub fn resume(
        pack: LockedPack,
        offset: u64,
        segment_start: u64,
        previous_end: u64,
    ) -> OpenPack {
        OpenPack {
            pack: Arc::new(pack),
            offset,
            writeback: offset,
            segment_start,
            previous_end,
            gaps: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Moves the place of the next record, whose payload begins after `head` bytes, so that the payload lies as
    /// `origin` does within a block. The segment's index names the gap. Returns its length in bytes.
    pub fn leave_gap(&mut self, head: u64, origin: u64) -> u64 {
        let ahead = (self.offset + head) % BLOCK_BYTES;
        let gap = (origin % BLOCK_BYTES + BLOCK_BYTES - ahead) % BLOCK_BYTES;
        if gap == 0 || self.gaps.len() >= MAX_GAPS {
            return 0;
        }
        self.gaps.push((self.offset, self.offset + gap));
        self.offset += gap;
        gap
    }

    /// Reserves memory for more entries, but not for more than a segment has.
    pub fn make_room_for(&mut self, more: usize) {
        let need = self.entries.len() + more;
        if need > self.entries.capacity() {
            let room = (2 * need).min(SEGMENT_ENTRIES).max(need);
            self.entries.reserve_exact(room - self.entries.len());
        }
    }

    /// Ends the open segment with its index and trailer. Returns the segment with its entries;
    /// `None` if it is empty.
    pub fn write_segment(
        &mut self,
        kind: PackKind,
    ) -> Result<Option<(SegmentRow, Vec<Entry>)>, StoreError> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let gaps = std::mem::take(&mut self.gaps);
        let end = SegmentEnd::new(
            &mut self.entries,
            self.segment_start,
            self.previous_end,
            &gaps,
            self.offset,
        );
        let mut at = self.offset;
        for part in end.parts() {
            self.pack.write(part, at)?;
            at += part.len() as u64;
        }
        let row = SegmentRow {
            pack: self.pack.id,
            kind,
            start: self.segment_start,
            end: at,
            entries: self.entries.len() as u32,
        };
        (self.offset, self.segment_start, self.previous_end) = (at, at, at);
        Ok(Some((row, std::mem::take(&mut self.entries))))
    }
}

//! The fixed parts of a pack file: header, record header and trailer (docs/format/pack.md). The
//! functions work on bytes in memory; readers and writers of the store use them.

use super::random_id::{PackId, RepositoryId};
use crate::hash::check;
use crate::limits::{MAX_FRAME_BYTES, MAX_OP_BYTES, MAX_SEGMENT_ENTRIES, MAX_TABLE_BYTES};
use std::ops::Range;

/// Length in bytes of a pack's header.
pub const PACK_HEADER_BYTES: u64 = 64;
/// Length in bytes of a record's header, without the table after it.
pub const RECORD_HEADER_BYTES: usize = 32;
/// Length in bytes of the check after a record's payload.
pub const PAYLOAD_CHECK_BYTES: usize = 8;
/// Length in bytes of a segment's trailer.
pub const TRAILER_BYTES: usize = 32;
/// Length in bytes of one entry in a segment's index.
pub const ENTRY_BYTES: usize = 41;

pub(crate) const PACK_MAGIC: &[u8; 8] = b"DMVPACK\n";
pub(crate) const RECORD_MAGIC: &[u8; 4] = b"DMVr";
pub(crate) const TRAILER_MAGIC: &[u8; 4] = b"DMVt";
const PACK_VERSION: u16 = 1;
/// Greatest length of an index payload: fixed part, gaps, fan-out and entries at their limits.
const MAX_INDEX_BYTES: usize = 23 + (16 << 16) + (4 << 16) + MAX_SEGMENT_ENTRIES * ENTRY_BYTES;
/// Greatest length of a record of places.
const MAX_PLACES_BYTES: usize = 64 << 20;

/// The kind of a pack: which records it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PackKind {
    /// Chunks of files.
    Data = 1,
    /// Lists, trees, conflicts and commits.
    Meta = 2,
    /// Operation records.
    Log = 3,
}

impl PackKind {
    /// Returns the kind with this number; `None` if there is none.
    pub fn from_number(n: u8) -> Option<PackKind> {
        [PackKind::Data, PackKind::Meta, PackKind::Log]
            .into_iter()
            .find(|k| *k as u8 == n)
    }
}

/// The first 64 bytes of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackHeader {
    /// The kind of the pack.
    pub kind: PackKind,
    /// The repository it was written for.
    pub repo: RepositoryId,
    /// The pack's own id.
    pub id: PackId,
}

/// Why a fixed part does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutError {
    /// The bytes are not from a DMV pack, or they are damaged.
    Bad(&'static str),
    /// The version is greater than this program knows.
    TooNew(u16),
}

impl PackHeader {
    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; PACK_HEADER_BYTES as usize] {
        encode_header(self.kind as u8, self.repo, self.id)
    }

    /// Decodes and checks a header.
    pub fn decode(b: &[u8]) -> Result<PackHeader, LayoutError> {
        let (kind, repo, id) = decode_header(b)?;
        let kind = PackKind::from_number(kind).ok_or(LayoutError::Bad("unknown pack kind"))?;
        Ok(PackHeader { kind, repo, id })
    }
}

/// Returns the header of a pack whose kind has this number.
pub(super) fn encode_header(
    kind: u8,
    repo: RepositoryId,
    id: PackId,
) -> [u8; PACK_HEADER_BYTES as usize] {
    let mut out = [0; PACK_HEADER_BYTES as usize];
    out[..8].copy_from_slice(PACK_MAGIC);
    out[8..10].copy_from_slice(&PACK_VERSION.to_le_bytes());
    out[10] = kind;
    out[16..32].copy_from_slice(repo.as_bytes());
    out[32..48].copy_from_slice(id.as_bytes());
    let sum = check(&[&out[..56]]);
    out[56..].copy_from_slice(&sum);
    out
}

/// Decodes and checks a header, but for the number of its kind.
pub(super) fn decode_header(b: &[u8]) -> Result<(u8, RepositoryId, PackId), LayoutError> {
    if b.len() < PACK_HEADER_BYTES as usize || &b[..8] != PACK_MAGIC {
        return Err(LayoutError::Bad("no pack header"));
    }
    if b[56..64] != check(&[&b[..56]]) {
        return Err(LayoutError::Bad("pack header check fails"));
    }
    let version = u16::from_le_bytes([b[8], b[9]]);
    if version != PACK_VERSION {
        return Err(LayoutError::TooNew(version));
    }
    if b[11..16] != [0; 5] || b[48..56] != [0; 8] {
        return Err(LayoutError::Bad("pack header has unknown fields"));
    }
    Ok((
        b[10],
        RepositoryId::from_bytes(array(&b[16..32])),
        PackId::from_bytes(array(&b[32..48])),
    ))
}

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// A frame: objects.
    Frame = 1,
    /// The index of a segment.
    Index = 2,
    /// An operation.
    Operation = 3,
    /// Places of children, in packs of buckets only (docs/format/bucket.md).
    Places = 4,
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// As it is, not compressed.
    Raw = 0,
    /// One zstd frame.
    Zstd = 1,
    /// One zstd frame that needs the bytes of other objects as its prefix.
    ZstdWithBase = 2,
}

/// The first 32 bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The type of the record.
    pub ty: RecordType,
    /// How its payload is stored.
    pub encoding: Encoding,
    /// Number of objects in a frame; 0 for other records.
    pub count: u16,
    /// Length in bytes of the decoded payload.
    pub raw_len: u32,
    /// Length in bytes of the payload in the file.
    pub stored_len: u32,
    /// Length in bytes of the table after the header.
    pub table_len: u32,
    /// The check over header and table.
    check: [u8; 8],
}

impl RecordHeader {
    /// Returns the header, with its check, of a record with this table.
    pub fn new(
        ty: RecordType,
        encoding: Encoding,
        count: u16,
        raw_len: u32,
        stored_len: u32,
        table: &[u8],
    ) -> RecordHeader {
        let table_len = u32::try_from(table.len()).expect("tables are bounded by MAX_TABLE_BYTES");
        let mut header = RecordHeader {
            ty,
            encoding,
            count,
            raw_len,
            stored_len,
            table_len,
            check: [0; 8],
        };
        header.check = check(&[&header.encode()[..24], table]);
        header
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        out[..4].copy_from_slice(RECORD_MAGIC);
        out[4] = self.ty as u8;
        out[5] = self.encoding as u8;
        out[6..8].copy_from_slice(&self.count.to_le_bytes());
        out[8..12].copy_from_slice(&self.raw_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.stored_len.to_le_bytes());
        out[16..20].copy_from_slice(&self.table_len.to_le_bytes());
        out[24..].copy_from_slice(&self.check);
        out
    }

    /// Decodes a header and applies the limits. Its check covers the table, too: see
    /// [`check_table`](Self::check_table).
    pub fn decode(b: &[u8]) -> Result<RecordHeader, &'static str> {
        if b.len() < RECORD_HEADER_BYTES || &b[..4] != RECORD_MAGIC {
            return Err("no record here");
        }
        let ty = match b[4] {
            1 => RecordType::Frame,
            2 => RecordType::Index,
            3 => RecordType::Operation,
            4 => RecordType::Places,
            _ => return Err("unknown record type"),
        };
        let encoding = match b[5] {
            0 => Encoding::Raw,
            1 => Encoding::Zstd,
            2 => Encoding::ZstdWithBase,
            _ => return Err("unknown encoding"),
        };
        let word = |at: usize| u32::from_le_bytes(array(&b[at..at + 4]));
        let header = RecordHeader {
            ty,
            encoding,
            count: u16::from_le_bytes([b[6], b[7]]),
            raw_len: word(8),
            stored_len: word(12),
            table_len: word(16),
            check: array(&b[24..32]),
        };
        let max = match ty {
            RecordType::Frame => MAX_FRAME_BYTES,
            RecordType::Index => MAX_INDEX_BYTES,
            RecordType::Operation => MAX_OP_BYTES,
            RecordType::Places => MAX_PLACES_BYTES,
        };
        let plain = ty != RecordType::Frame;
        if word(20) != 0
            || header.raw_len as usize > max
            || header.stored_len as usize > max
            || header.table_len as usize > MAX_TABLE_BYTES
            || (encoding == Encoding::Raw && header.raw_len != header.stored_len)
            || (plain && (encoding != Encoding::Raw || header.count != 0 || header.table_len != 0))
            || (!plain && header.count == 0)
        {
            return Err("record header out of bounds");
        }
        Ok(header)
    }

    /// Returns whether header and table match their check.
    pub fn check_table(&self, table: &[u8]) -> bool {
        table.len() == self.table_len as usize
            && check(&[&self.encode()[..24], table]) == self.check
    }

    /// Returns the length in bytes of the complete record.
    pub fn record_len(&self) -> u64 {
        self.payload_at() + u64::from(self.stored_len) + PAYLOAD_CHECK_BYTES as u64
    }

    /// Returns the offset of the payload within the record.
    pub fn payload_at(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + u64::from(self.table_len)
    }

    /// Returns the offset in the pack of a part of the payload. `offset` is that of the record.
    pub fn part_at(&self, offset: u64, part: &Range<u32>) -> u64 {
        offset + self.payload_at() + u64::from(part.start)
    }

    /// Returns the check that follows `payload`.
    pub fn payload_check(&self, payload: &[u8]) -> [u8; 8] {
        match (self.ty, self.encoding) {
            // The objects' ids already protect a raw frame. Hashing it again would cost as much as
            // storing it.
            (RecordType::Frame, Encoding::Raw) => [0; 8],
            _ => check(&[payload]),
        }
    }
}

/// The last 32 bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Offset of the index record.
    pub index_at: u64,
    /// Offset of the segment's first record.
    pub start: u64,
}

impl Trailer {
    /// Returns the trailer's bytes.
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut out = [0; TRAILER_BYTES];
        out[..4].copy_from_slice(TRAILER_MAGIC);
        out[8..16].copy_from_slice(&self.index_at.to_le_bytes());
        out[16..24].copy_from_slice(&self.start.to_le_bytes());
        let sum = check(&[&out[..24]]);
        out[24..].copy_from_slice(&sum);
        out
    }

    /// Decodes a trailer; `None` if it fails its check.
    pub fn decode(b: &[u8]) -> Option<Trailer> {
        let ok = b.len() == TRAILER_BYTES
            && &b[..4] == TRAILER_MAGIC
            && b[4..8] == [0; 4]
            && b[24..] == check(&[&b[..24]]);
        let word = |at: usize| u64::from_le_bytes(array(&b[at..at + 8]));
        ok.then(|| Trailer {
            index_at: word(8),
            start: word(16),
        })
    }
}

/// Copies a slice of known length into an array.
pub(crate) fn array<const N: usize>(b: &[u8]) -> [u8; N] {
    b.try_into().expect("the caller sliced exactly N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let header = PackHeader {
            kind: PackKind::Meta,
            repo: RepositoryId::from_bytes([1; 16]),
            id: PackId::from_bytes([2; 16]),
        };
        let good = header.encode();
        assert_eq!(PackHeader::decode(&good), Ok(header));
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(PackHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_record_header_table_or_trailer_is_noticed() {
        let table = [1u8, 5, 1, 9];
        let good = RecordHeader::new(RecordType::Frame, Encoding::Zstd, 2, 14, 10, &table);
        let bytes = [good.encode().as_slice(), &table].concat();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let noticed = RecordHeader::decode(&bad).map(|h| h.check_table(&bad[32..])) != Ok(true);
            assert!(noticed, "bit {bit}");
        }
        let trailer = Trailer {
            index_at: 99,
            start: 64,
        };
        assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));
        for bit in 0..TRAILER_BYTES * 8 {
            let mut bad = trailer.encode();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Trailer::decode(&bad), None, "bit {bit}");
        }
    }
}

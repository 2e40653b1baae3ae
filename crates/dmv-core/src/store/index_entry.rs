//! The entries of index tables, and the payload of a segment's index, as bytes (docs/format/pack.md and
//! docs/format/index.md). This module knows bytes in memory only, no files.

use super::layout::{ENTRY_BYTES, array};
use crate::hash::ObjectId;
use crate::object::ObjectType;

/// Intended number of entries per fan-out slot: about one read of 4 KiB.
const ENTRIES_PER_SLOT: usize = 64;

/// The place of an object within a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of its frame's record.
    pub offset: u64,
    /// Its number in the frame.
    pub ordinal: u16,
    /// Its type.
    pub ty: ObjectType,
}

impl Place {
    /// Decodes the last nine bytes of an entry; `None` if they name an unknown type.
    pub(super) fn decode(bytes: &[u8]) -> Option<Place> {
        let mut offset = [0; 8];
        offset[..6].copy_from_slice(&bytes[..6]);
        Some(Place {
            offset: u64::from_le_bytes(offset),
            ordinal: u16::from_le_bytes(array(&bytes[6..8])),
            ty: ObjectType::from_number(bytes[8])?,
        })
    }
}

/// One entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The id of the object.
    pub id: ObjectId,
    /// Its place.
    pub place: Place,
}

impl Entry {
    pub(super) fn encode(&self, pack: Option<u16>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        if let Some(pack) = pack {
            out.extend_from_slice(&pack.to_le_bytes());
        }
        out.extend_from_slice(&self.place.offset.to_le_bytes()[..6]);
        out.extend_from_slice(&self.place.ordinal.to_le_bytes());
        out.push(self.place.ty as u8);
    }
}

/// Returns the slot of an id in a fan-out of `bits` bits.
pub(super) fn slot(id: &[u8], bits: u8) -> usize {
    let first = usize::from(id[0]) << 8 | usize::from(id[1]);
    first >> (16 - u32::from(bits))
}

pub(super) fn fanout_bits(n: usize) -> u8 {
    let slots = (n / ENTRIES_PER_SLOT).max(1);
    slots.ilog2().min(16) as u8
}

fn put_fanout(ids: impl Iterator<Item = ObjectId>, bits: u8, out: &mut Vec<u8>) {
    let mut counts = vec![0u32; 1 << bits];
    for id in ids {
        counts[slot(id.as_bytes(), bits)] += 1;
    }
    let mut sum = 0;
    for count in counts {
        sum += count;
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

/// Length in bytes of a segment's index payload before its gaps.
pub(super) const SEGMENT_FIXED_BYTES: usize = 23;
/// Most gaps that one segment can name.
pub const MAX_GAPS: usize = 4096;

/// Returns the payload of a segment's index record. `entries` must be sorted by id, without
/// duplicates.
pub fn encode_segment_index(
    entries: &[Entry],
    start: u64,
    previous_end: u64,
    gaps: &[(u64, u64)],
) -> Vec<u8> {
    debug_assert!(entries.windows(2).all(|w| w[0].id < w[1].id));
    let bits = fanout_bits(entries.len());
    let mut out =
        Vec::with_capacity(SEGMENT_FIXED_BYTES + (4 << bits) + entries.len() * ENTRY_BYTES);
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&previous_end.to_le_bytes());
    let n = u32::try_from(entries.len()).expect("segments are bounded by MAX_SEGMENT_ENTRIES");
    out.extend_from_slice(&n.to_le_bytes());
    out.push(bits);
    let g = u16::try_from(gaps.len()).expect("callers keep to MAX_GAPS");
    out.extend_from_slice(&g.to_le_bytes());
    for (from, to) in gaps {
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&to.to_le_bytes());
    }
    put_fanout(entries.iter().map(|e| e.id), bits, &mut out);
    for entry in entries {
        entry.encode(None, &mut out);
    }
    out
}

/// Returns the gaps that a segment's index payload names. The payload's check must have been
/// verified.
pub fn gaps_of(payload: &[u8]) -> Vec<(u64, u64)> {
    if payload.len() < SEGMENT_FIXED_BYTES {
        return Vec::new();
    }
    let g = usize::from(u16::from_le_bytes([payload[21], payload[22]]));
    let word = |b: &[u8]| u64::from_le_bytes(array(b));
    let gaps = payload[SEGMENT_FIXED_BYTES..].chunks_exact(16).take(g);
    gaps.map(|gap| (word(&gap[..8]), word(&gap[8..]))).collect()
}

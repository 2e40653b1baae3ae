//! The end of a segment, as bytes: its index record and its trailer (docs/format/pack.md, "Segment").
//!
//! Local packs and the packs of a bucket share it. It knows bytes in memory only, no files.

use super::index_entry::{Entry, Place, SEGMENT_FIXED_BYTES, encode_segment_index};
use super::layout::{
    ENTRY_BYTES, Encoding, PAYLOAD_CHECK_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordType,
    TRAILER_BYTES, Trailer, array,
};
use crate::hash::{ID_BYTES, ObjectId};
use crate::limits::MAX_SEGMENT_ENTRIES;

/// The bytes that end a segment, in three parts: the index can be large.
pub(super) struct SegmentEnd {
    head: [u8; RECORD_HEADER_BYTES],
    payload: Vec<u8>,
    tail: [u8; PAYLOAD_CHECK_BYTES + TRAILER_BYTES],
}

impl SegmentEnd {
    /// Returns the end of the segment that began at `start` and whose index record is at `index_at`.
    /// Sorts the entries, and removes those whose id came before.
    pub fn new(
        entries: &mut Vec<Entry>,
        start: u64,
        previous_end: u64,
        gaps: &[(u64, u64)],
        index_at: u64,
    ) -> SegmentEnd {
        sort_entries(entries);
        let payload = encode_segment_index(entries, start, previous_end, gaps);
        let len = u32::try_from(payload.len()).expect("bounded by MAX_SEGMENT_ENTRIES");
        let header = RecordHeader::new(RecordType::Index, Encoding::Raw, 0, len, len, &[]);
        let mut tail = [0; PAYLOAD_CHECK_BYTES + TRAILER_BYTES];
        tail[..PAYLOAD_CHECK_BYTES].copy_from_slice(&header.payload_check(&payload));
        tail[PAYLOAD_CHECK_BYTES..].copy_from_slice(&Trailer { index_at, start }.encode());
        SegmentEnd {
            head: header.encode(),
            payload,
            tail,
        }
    }

    /// Returns its bytes.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, &self.payload, &self.tail]
    }
}

/// Puts entries in the order of a table.
pub(super) fn sort_entries(entries: &mut Vec<Entry>) {
    entries.sort_unstable_by_key(|e| e.id);
    entries.dedup_by_key(|e| e.id);
}

/// What stands after the last frame of a segment in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentTail {
    /// The payload of the record of places, if there is one.
    pub places: Option<Vec<u8>>,
    /// Where the segment begins.
    pub start: u64,
    /// The table: sorted by id. The number of an entry is its ordinal for the places.
    pub entries: Vec<Entry>,
    /// Where the segment ends.
    pub end: u64,
}

impl SegmentTail {
    /// Decodes `bytes`, which stand at offset `at` of a pack, from the end of the last frame of a
    /// segment to the segment's end, or further.
    pub fn decode(bytes: &[u8], at: u64) -> Result<SegmentTail, &'static str> {
        let (mut places, mut from) = (None, 0);
        let first = record(bytes, 0)?;
        if first.header.ty == RecordType::Places {
            places = Some(first.payload.to_vec());
            from = first.end;
        }
        let index = record(bytes, from)?;
        if index.header.ty != RecordType::Index {
            return Err("the index of a segment is missing");
        }
        let index_at = at + from as u64;
        let trailer = bytes.get(index.end..index.end + TRAILER_BYTES);
        let trailer = trailer.and_then(Trailer::decode).ok_or("no trailer")?;
        if trailer.index_at != index_at || trailer.start > at {
            return Err("trailer of another segment");
        }
        Ok(SegmentTail {
            places,
            start: trailer.start,
            entries: entries(index.payload, trailer.start, at)?,
            end: at + (index.end + TRAILER_BYTES) as u64,
        })
    }
}

/// A record without a table, in memory.
struct Plain<'b> {
    header: RecordHeader,
    payload: &'b [u8],
    end: usize,
}

fn record(bytes: &[u8], at: usize) -> Result<Plain<'_>, &'static str> {
    let bytes = bytes.get(at..).ok_or("a record is missing")?;
    let header = RecordHeader::decode(bytes)?;
    if !header.check_table(&[]) {
        return Err("record header fails its check");
    }
    let end = header.payload_at() as usize + header.stored_len as usize;
    let payload = bytes.get(header.payload_at() as usize..end);
    let sum = bytes.get(end..end + PAYLOAD_CHECK_BYTES);
    let (payload, sum) = payload.zip(sum).ok_or("a record ends too soon")?;
    if header.payload_check(payload) != sum {
        return Err("record payload fails its check");
    }
    Ok(Plain {
        header,
        payload,
        end: at + end + PAYLOAD_CHECK_BYTES,
    })
}

/// Decodes the index of a segment without gaps whose frames are in `start..end`.
fn entries(payload: &[u8], start: u64, end: u64) -> Result<Vec<Entry>, &'static str> {
    let bad = "the index of a segment does not decode";
    let fixed = payload.get(..SEGMENT_FIXED_BYTES).ok_or(bad)?;
    let word = |at: usize| u64::from_le_bytes(array(&fixed[at..at + 8]));
    let count = u32::from_le_bytes(array(&fixed[16..20])) as usize;
    if word(0) != start || count > MAX_SEGMENT_ENTRIES || payload.len() < count * ENTRY_BYTES {
        return Err(bad);
    }
    let mut out: Vec<Entry> = Vec::with_capacity(count);
    for entry in payload[payload.len() - count * ENTRY_BYTES..].chunks_exact(ENTRY_BYTES) {
        let (id, rest) = entry.split_at(ID_BYTES);
        let id = ObjectId::from_bytes(array(id));
        let place = Place::decode(rest).ok_or(bad)?;
        let entry = Entry { id, place };
        let is_sorted = out.last().is_none_or(|last| last.id < entry.id);
        if !is_sorted || !(start..end).contains(&entry.place.offset) {
            return Err(bad);
        }
        out.push(entry);
    }
    // The fan-out follows from the ids.
    if encode_segment_index(&out, start, word(8), &[]) == payload {
        Ok(out)
    } else {
        Err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectType::Chunk;
    use crate::store::frame::EncodedFrame;
    use crate::store::index_entry::gaps_of;
    use crate::store::layout::{PACK_HEADER_BYTES, PackHeader, PackKind};
    use crate::store::scan::{ScannedPart, scan};
    use crate::store::{FrameBuilder, FrameEncoder, PackId, RepositoryId};
    use crate::vfs::{OpenMode, OsVfs, Vfs};
    use std::path::Path;

    /// Zero bytes before the frame, so that its payload begins at a multiple of 256.
    const PAYLOAD_AT: usize = 256;

    /// A pack with one frame behind a gap.
    fn pack_with_gap() -> (Vec<u8>, u64) {
        let header = PackHeader {
            kind: PackKind::Data,
            repo: RepositoryId::from_bytes([1; 16]),
            id: PackId::from_bytes([2; 16]),
        };
        let mut pack = header.encode().to_vec();
        let (mut frame, mut encoder) = (FrameBuilder::default(), FrameEncoder::default());
        frame.push(Chunk.id_of(b"raw bytes"), Chunk, b"raw bytes");
        let EncodedFrame {
            head,
            payload,
            check,
            ..
        } = encoder.encode(&frame.raw, &frame.objects).expect("memory");
        let offset = (PAYLOAD_AT - head.len()) as u64;
        pack.resize(offset as usize, 0);
        for part in [&head[..], payload, &check] {
            pack.extend_from_slice(part);
        }
        let mut entries = vec![Entry {
            id: frame.objects[0].id,
            place: Place {
                offset,
                ordinal: 0,
                ty: Chunk,
            },
        }];
        let gaps = [(PACK_HEADER_BYTES, offset)];
        let index_at = pack.len() as u64;
        let end = SegmentEnd::new(&mut entries, PACK_HEADER_BYTES, 0, &gaps, index_at);
        end.parts()
            .iter()
            .for_each(|part| pack.extend_from_slice(part));
        (pack, index_at)
    }

    /// Returns where the frame is, by the end of the gap in the index.
    fn pack_offset(pack: &[u8], index_at: u64) -> u64 {
        let index = record(pack, index_at as usize).expect("an index");
        let gaps = gaps_of(index.payload);
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].0, PACK_HEADER_BYTES);
        gaps[0].1
    }

    /// If `DMV_WRITE_VECTORS` is set, the test writes the file instead of comparing it.
    #[test]
    fn a_pack_with_a_gap_has_these_bytes() -> Result<(), Box<dyn std::error::Error>> {
        const FILE: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/format/vectors/local-packs.txt"
        );
        let (pack, index_at) = pack_with_gap();
        let text = format!("# name, file\ngap {}\n", crate::hash::encode_hex(&pack));
        if std::env::var_os("DMV_WRITE_VECTORS").is_some() {
            std::fs::write(FILE, &text)?;
        }
        assert_eq!(std::fs::read_to_string(FILE)?, text);
        assert_eq!(&pack[PAYLOAD_AT..PAYLOAD_AT + 9], b"raw bytes");
        let offset = pack_offset(&pack, index_at);
        // A scan finds the frame without the index, behind what it takes for garbage.
        let place = tempfile::tempdir()?;
        let path = place.path().join("pack");
        std::fs::write(&path, &pack)?;
        let file = OsVfs.open(&path, OpenMode::Read)?;
        let mut found = Vec::new();
        scan(
            &*file,
            Path::new("pack"),
            0,
            pack.len() as u64,
            &mut |at, part| {
                found.push(match part {
                    ScannedPart::Garbage(to) => format!("{at}: garbage to {to}"),
                    ScannedPart::Frame(table) => format!("{at}: {} objects", table.objects.len()),
                    ScannedPart::Index(_) => format!("{at}: index"),
                    ScannedPart::Trailer(_) => format!("{at}: trailer"),
                    ScannedPart::Operation(_) => format!("{at}: operation"),
                });
                Ok(())
            },
        )?;
        let trailer_at = pack.len() - TRAILER_BYTES;
        assert_eq!(
            found,
            [
                format!("{PACK_HEADER_BYTES}: garbage to {offset}"),
                format!("{offset}: 1 objects"),
                format!("{index_at}: index"),
                format!("{trailer_at}: trailer"),
            ]
        );
        Ok(())
    }
}

//! Packs that are complete when they are written: those of buckets (docs/format/bucket.md, "Packs").
//!
//! A [`SealedWriter`] writes one from its first byte to its last, to any `Write`, and holds only the
//! entries of the open segment. It knows no store: its caller decides what goes in. Local stores do
//! not accept the kinds and records that only buckets have.

use super::checked_record::CheckedRecord;
use super::frame::{EncodedFrame, FrameEncoder, FrameObject};
use super::index_entry::{Entry, Place};
use super::layout::{
    Encoding, LayoutError, PACK_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordType,
    decode_header, encode_header,
};
use super::random_id::{PackId, RepositoryId};
use super::segment::{SegmentEnd, sort_entries};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use std::io::{self, Write};

/// What a pack of a bucket contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SealedKind {
    /// A segment of chunks.
    Data = 1,
    /// A segment of metadata.
    Meta = 2,
    /// Both, and an operation.
    Joint = 4,
}

/// The first 64 bytes of a pack of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedHeader {
    /// The kind of the pack.
    pub kind: SealedKind,
    /// The repository in the bucket.
    pub repo: RepositoryId,
    /// The pack's own id, which is also its name.
    pub id: PackId,
}

impl SealedHeader {
    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; PACK_HEADER_BYTES as usize] {
        encode_header(self.kind as u8, self.repo, self.id)
    }

    /// Decodes and checks a header.
    pub fn decode(bytes: &[u8]) -> Result<SealedHeader, &'static str> {
        let (kind, repo, id) = decode_header(bytes).map_err(|e| match e {
            LayoutError::Bad(why) => why,
            LayoutError::TooNew(_) => "the pack is from a newer version",
        })?;
        let kind = match kind {
            1 => SealedKind::Data,
            2 => SealedKind::Meta,
            4 => SealedKind::Joint,
            _ => return Err("unknown pack kind"),
        };
        Ok(SealedHeader { kind, repo, id })
    }
}

/// Where a record of a frame lies in its pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameAt {
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// Writes a pack.
pub struct SealedWriter<W> {
    out: W,
    at: u64,
    segment_start: u64,
    previous_end: u64,
    entries: Vec<Entry>,
}

impl<W: Write> SealedWriter<W> {
    /// Begins a pack with its header.
    pub fn begin(mut out: W, header: &SealedHeader) -> io::Result<SealedWriter<W>> {
        out.write_all(&header.encode())?;
        Ok(SealedWriter {
            out,
            at: PACK_HEADER_BYTES,
            segment_start: PACK_HEADER_BYTES,
            previous_end: 0,
            entries: Vec::new(),
        })
    }

    /// Returns where the next record begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the number of objects in the open segment.
    pub fn objects(&self) -> usize {
        self.entries.len()
    }

    /// Returns what it writes to.
    pub fn sink(&mut self) -> &mut W {
        &mut self.out
    }

    /// Appends a frame as it is stored elsewhere. It must not have bases.
    pub fn add_record(&mut self, record: &CheckedRecord) -> io::Result<FrameAt> {
        debug_assert!(record.bases().is_empty());
        let at = self.put(&[record.as_bytes()])?;
        self.note(at.offset, record.objects());
        Ok(at)
    }

    /// Appends `objects`, whose bytes in order are `raw`, as one frame.
    pub fn add_objects(
        &mut self,
        encoder: &mut FrameEncoder,
        raw: &[u8],
        objects: &[FrameObject],
    ) -> io::Result<FrameAt> {
        let EncodedFrame {
            head,
            payload,
            check,
            ..
        } = encoder.encode(raw, objects)?;
        let at = self.put(&[&head, payload, &check])?;
        self.note(at.offset, objects);
        Ok(at)
    }

    /// Returns the open segment's table as it will be: ids with types and offsets of frames.
    pub fn table(&mut self) -> impl ExactSizeIterator<Item = (ObjectId, ObjectType, u64)> + '_ {
        sort_entries(&mut self.entries);
        let entry = |e: &Entry| (e.id, e.place.ty, e.place.offset);
        self.entries.iter().map(entry)
    }

    /// Ends the open segment: with a record of places if there are any, index and trailer. Returns
    /// where its last frame ends.
    pub fn end_segment(&mut self, places: Option<&[u8]>) -> io::Result<u64> {
        Ok(self.end_and_copy(places)?.0)
    }

    /// Ends the open segment as [`end_segment`](Self::end_segment). Returns also the bytes after the last frame.
    pub fn end_and_copy(&mut self, places: Option<&[u8]>) -> io::Result<(u64, Vec<u8>)> {
        let (frames_end, mut tail) = (self.at, Vec::new());
        if let Some(places) = places {
            put_plain(&mut tail, RecordType::Places, places)?;
        }
        let end = SegmentEnd::new(
            &mut self.entries,
            self.segment_start,
            self.previous_end,
            &[],
            frames_end + tail.len() as u64,
        );
        end.parts()
            .iter()
            .for_each(|part| tail.extend_from_slice(part));
        self.put(&[&tail])?;
        (self.segment_start, self.previous_end) = (self.at, self.at);
        self.entries.clear();
        Ok((frames_end, tail))
    }

    /// Appends the record of an operation.
    pub fn add_operation(&mut self, operation: &[u8]) -> io::Result<()> {
        let mut record = Vec::new();
        put_plain(&mut record, RecordType::Operation, operation)?;
        self.put(&[&record])?;
        Ok(())
    }

    /// Ends the pack. Returns what it was written to, and its length.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.out.flush()?;
        Ok((self.out, self.at))
    }

    fn put(&mut self, parts: &[&[u8]]) -> io::Result<FrameAt> {
        let offset = self.at;
        for part in parts {
            self.out.write_all(part)?;
            self.at += part.len() as u64;
        }
        let len = (self.at - offset) as u32;
        Ok(FrameAt { offset, len })
    }

    fn note(&mut self, offset: u64, objects: &[FrameObject]) {
        let entries = objects.iter().zip(0_u16..).map(|(object, ordinal)| Entry {
            id: object.id,
            place: Place {
                offset,
                ordinal,
                ty: object.ty,
            },
        });
        self.entries.extend(entries);
    }
}

/// Returns the operation whose record ends these bytes of a joint pack, encoded, and where the record
/// begins. `None`: no such record ends there, or it begins before these bytes.
pub fn operation_at_end(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let last = bytes.len().checked_sub(RECORD_HEADER_BYTES)?;
    (0..=last).rev().find_map(|at| {
        let header = RecordHeader::decode(&bytes[at..]).ok()?;
        let is_it = header.ty == RecordType::Operation
            && header.record_len() == (bytes.len() - at) as u64
            && header.check_table(&[]);
        let rest = bytes
            .get(at + header.payload_at() as usize..)
            .filter(|_| is_it)?;
        let (payload, sum) = rest.split_at_checked(header.stored_len as usize)?;
        (header.payload_check(payload) == sum).then_some((at, payload))
    })
}

/// Appends a record without a table to `out`.
fn put_plain(out: &mut Vec<u8>, ty: RecordType, payload: &[u8]) -> io::Result<()> {
    let len = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let header = RecordHeader::new(ty, Encoding::Raw, 0, len, len, &[]);
    for part in [
        &header.encode()[..],
        payload,
        &header.payload_check(payload),
    ] {
        out.extend_from_slice(part);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_SEGMENT_ENTRIES;
    use crate::object::ObjectType::{Chunk, Tree};
    use crate::store::layout::{PackHeader, TRAILER_BYTES, Trailer};
    use crate::store::{FrameBuilder, SegmentTail};

    const HEADER: SealedHeader = SealedHeader {
        kind: SealedKind::Joint,
        repo: RepositoryId::from_bytes([1; 16]),
        id: PackId::from_bytes([2; 16]),
    };

    fn frame(ty: ObjectType, contents: &[&[u8]]) -> FrameBuilder {
        let mut frame = FrameBuilder::default();
        for bytes in contents {
            frame.push(ty.id_of(bytes), ty, bytes);
        }
        frame
    }

    /// Returns a joint pack, and where its parts are: the frames of chunks, the end of these, the
    /// beginning of the metadata and the end of its frames.
    fn joint() -> (Vec<u8>, Vec<FrameAt>, [u64; 3]) {
        let mut encoder = FrameEncoder::default();
        let mut pack = SealedWriter::begin(Vec::new(), &HEADER).expect("memory");
        let mut frames = Vec::new();
        let one = frame(Chunk, &[b"a chunk", b"another chunk"]);
        let at = pack.add_objects(&mut encoder, &one.raw, &one.objects);
        frames.push(at.expect("memory"));
        let two = frame(Chunk, &[&[7; 1000]]);
        let encoded = encoder.encode(&two.raw, &two.objects).expect("memory");
        let record = [&encoded.head, encoded.payload, &encoded.check].concat();
        let record = CheckedRecord::new(record).expect("it is sound");
        frames.push(pack.add_record(&record).expect("memory"));
        let data_end = pack.end_segment(None).expect("memory");
        let metadata = pack.position();
        let tree = frame(Tree, &[b"a tree"]);
        let at = pack.add_objects(&mut encoder, &tree.raw, &tree.objects);
        frames.push(at.expect("memory"));
        let (tail, end) = pack.end_and_copy(Some(b"places")).expect("memory");
        let sought = SegmentTail::decode(&end, tail).map(|tail| tail.end);
        assert_eq!(sought, Ok(pack.position()));
        pack.add_operation(b"operation").expect("memory");
        let (bytes, len) = pack.finish().expect("memory");
        assert_eq!(bytes.len() as u64, len);
        (bytes, frames, [data_end, metadata, tail])
    }

    #[test]
    fn a_joint_pack_reads_back_and_no_local_store_takes_it() {
        let (bytes, frames, [data_end, metadata, tail]) = joint();
        assert_eq!(SealedHeader::decode(&bytes), Ok(HEADER));
        assert!(PackHeader::decode(&bytes).is_err(), "kind 4");
        let trailer = &bytes[metadata as usize - TRAILER_BYTES..metadata as usize];
        let trailer = Trailer::decode(trailer).expect("a trailer");
        assert_eq!((trailer.index_at, trailer.start), (data_end, 64));
        let data = SegmentTail::decode(&bytes[data_end as usize..], data_end).expect("a tail");
        assert_eq!((data.start, data.end, data.places), (64, metadata, None));
        let place = |id: ObjectId| {
            let entry = data.entries.iter().find(|e| e.id == id);
            entry.map(|e| (e.place.offset, e.place.ordinal))
        };
        assert_eq!(place(Chunk.id_of(b"a chunk")), Some((frames[0].offset, 0)));
        let another = place(Chunk.id_of(b"another chunk"));
        assert_eq!(another, Some((frames[0].offset, 1)));
        assert_eq!(place(Chunk.id_of(&[7; 1000])), Some((frames[1].offset, 0)));
        for (at, id) in [
            (frames[0], Chunk.id_of(b"a chunk")),
            (frames[1], Chunk.id_of(&[7; 1000])),
            (frames[2], Tree.id_of(b"a tree")),
        ] {
            let from = at.offset as usize;
            let record = bytes[from..from + at.len as usize].to_vec();
            let header = RecordHeader::decode(&record).expect("a frame");
            assert_eq!(header.record_len(), u64::from(at.len));
            if id != Tree.id_of(b"a tree") {
                let record = CheckedRecord::new(record).expect("a sound frame");
                assert_eq!(record.objects()[0].id, id);
            }
        }
        let meta = SegmentTail::decode(&bytes[tail as usize..], tail).expect("a tail");
        assert_eq!(meta.places.as_deref(), Some(&b"places"[..]));
        assert_eq!(meta.start, metadata);
        assert_eq!(meta.entries[0].place.offset, frames[2].offset);
        let operation = RecordHeader::decode(&bytes[meta.end as usize..]).expect("a record");
        assert_eq!(operation.ty, RecordType::Operation);
        for skip in [0, meta.end as usize] {
            let (at, payload) = operation_at_end(&bytes[skip..]).expect("an operation");
            assert_eq!(at + skip, meta.end as usize);
            assert_eq!(payload.len(), operation.stored_len as usize);
        }
        let longer = [&bytes[..], &[0]].concat();
        for other in [
            &longer[..],
            &bytes[..bytes.len() - 1],
            &bytes[meta.end as usize + 1..],
            b"",
        ] {
            assert_eq!(operation_at_end(other), None);
        }
    }

    /// If `DMV_WRITE_VECTORS` is set, the test writes the file instead of comparing it.
    #[test]
    fn a_joint_pack_has_these_bytes() -> std::io::Result<()> {
        const FILE: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/format/vectors/packs.txt"
        );
        let mut encoder = FrameEncoder::default();
        let mut pack = SealedWriter::begin(Vec::new(), &HEADER)?;
        for (ty, contents) in [
            (Chunk, &[&b"one"[..], b"two"]),
            (Tree, &[b"three", b"four"]),
        ] {
            // Too short to be compressed: their bytes do not depend on the version of zstd.
            let frame = frame(ty, contents);
            pack.add_objects(&mut encoder, &frame.raw, &frame.objects)?;
            let places = (ty == Tree).then_some(&b"\x01\x00\x00"[..]);
            pack.end_segment(places)?;
        }
        pack.add_operation(b"an operation")?;
        let (bytes, _) = pack.finish()?;
        let text = format!("# name, file\njoint {}\n", crate::hash::encode_hex(&bytes));
        if std::env::var_os("DMV_WRITE_VECTORS").is_some() {
            std::fs::write(FILE, &text)?;
        }
        assert_eq!(std::fs::read_to_string(FILE)?, text);
        Ok(())
    }

    #[test]
    fn every_flipped_bit_of_a_tail_is_noticed() {
        let (bytes, _, [_, _, tail]) = joint();
        let good = SegmentTail::decode(&bytes[tail as usize..], tail).expect("a tail");
        let bytes = &bytes[tail as usize..(good.end) as usize];
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentTail::decode(&bad, tail).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(SegmentTail::decode(&bytes[..len], tail).is_err(), "{len}");
        }
    }

    #[test]
    fn a_tail_of_another_place_or_with_too_many_objects_is_refused() {
        let (bytes, _, [_, _, tail]) = joint();
        assert!(SegmentTail::decode(&bytes[tail as usize..], tail + 1).is_err());
        let mut payload = crate::store::index_entry::encode_segment_index(&[], 64, 0, &[]);
        payload[16..20].copy_from_slice(&(MAX_SEGMENT_ENTRIES as u32 + 1).to_le_bytes());
        let len = payload.len() as u32;
        let header = RecordHeader::new(RecordType::Index, Encoding::Raw, 0, len, len, &[]);
        let end = Trailer {
            index_at: 99,
            start: 64,
        };
        let sum = header.payload_check(&payload);
        let record = [&header.encode()[..], &payload, &sum, &end.encode()].concat();
        assert!(SegmentTail::decode(&record, 99).is_err());
    }
}

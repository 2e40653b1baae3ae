//! Records and objects from a peer, after each object was hashed and decoded.

use super::cache::RecordKey;
use super::frame::{EncodedFrame, FrameObject, FrameTable, decode_payload};
use super::layout::{
    Encoding, PAYLOAD_CHECK_BYTES, PackKind, RECORD_HEADER_BYTES, RecordHeader, RecordType, array,
};
use super::random_id::PackId;
use crate::hash::ObjectId;
use crate::limits::MAX_BASE_BYTES;
use crate::object::ObjectType;
use std::borrow::Cow;

/// A record from a peer whose objects match their ids.
///
/// Only [`new`](Self::new) makes one, and nothing changes it. So other code in this process need
/// not hash it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRecord {
    record: Vec<u8>,
    payload_at: usize,
    /// The decoded payload, if it is not stored raw.
    decoded: Option<Vec<u8>>,
    objects: Vec<FrameObject>,
    /// The objects whose bytes were needed to decode it.
    bases: Box<[ObjectId]>,
    /// The end of each object in the decoded payload.
    ends: Box<[u32]>,
    /// Where this repository has it, if it was read there.
    place: Option<Box<RecordKey>>,
}

/// Appends the verified bytes of a chunk, and returns whether it is here.
pub type ReadBase<'r, E> = &'r mut dyn FnMut(&ObjectId, &mut Vec<u8>) -> Result<bool, E>;

/// A record from a peer that may need bases.
pub enum ReceivedRecord {
    /// It was decoded and checked.
    Checked(CheckedRecord),
    /// A base is not here, so its objects are not known.
    LacksBase {
        /// The number of its objects.
        objects: u16,
    },
}

impl CheckedRecord {
    /// Decodes and checks a record without bases.
    ///
    /// The error is for the log: only malice causes it, or damage that the transport should have
    /// noticed.
    pub fn new(record: Vec<u8>) -> Result<CheckedRecord, &'static str> {
        let header = RecordHeader::decode(&record)?;
        if header.ty != RecordType::Frame || header.encoding == Encoding::ZstdWithBase {
            return Err("record of a kind that is not sent");
        }
        CheckedRecord::with_prefix(record, &[])
    }

    /// Decodes and checks a record that may need bases, which `read` gives. At most 64 chunks are read, and 8 MiB and one more chunk are in memory.
    ///
    /// The inner error is for the log, as that of [`new`](Self::new).
    pub fn with_bases<E>(
        record: Vec<u8>,
        read: ReadBase<'_, E>,
    ) -> Result<Result<ReceivedRecord, &'static str>, E> {
        let (bases, objects) = match bases_of(&record) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let mut prefix = Vec::new();
        for id in &bases {
            if !read(id, &mut prefix)? {
                return Ok(Ok(ReceivedRecord::LacksBase { objects }));
            }
            if prefix.len() > MAX_BASE_BYTES {
                return Ok(Err("base objects are too large together"));
            }
        }
        Ok(CheckedRecord::with_prefix(record, &prefix).map(ReceivedRecord::Checked))
    }

    /// Returns the length in bytes of the record of a frame that begins with these bytes, of which
    /// there are at least 32. Nothing else of it is checked.
    pub fn len_of(head: &[u8]) -> Result<u64, &'static str> {
        let header = RecordHeader::decode(head)?;
        match header.ty {
            RecordType::Frame => Ok(header.record_len()),
            _ => Err("no frame"),
        }
    }

    /// Decodes and checks a record of this repository. `prefix` are the bytes of its bases in a row.
    pub(super) fn with_prefix(
        record: Vec<u8>,
        prefix: &[u8],
    ) -> Result<CheckedRecord, &'static str> {
        let header = RecordHeader::decode(&record)?;
        if header.record_len() != record.len() as u64 {
            return Err("record has another length than it says");
        }
        let payload_at = header.payload_at() as usize;
        if !header.check_table(&record[RECORD_HEADER_BYTES..payload_at]) {
            return Err("record header fails its check");
        }
        let table = FrameTable::decode(header, &record[RECORD_HEADER_BYTES..payload_at])?;
        let (payload, sum) =
            record[payload_at..].split_at(record.len() - payload_at - PAYLOAD_CHECK_BYTES);
        if header.payload_check(payload) != sum {
            return Err("record payload fails its check");
        }
        let raw = decode_payload(&header, payload, prefix)?;
        let objects = objects_of(&table, &raw)?;
        let decoded = match raw {
            Cow::Owned(raw) => Some(raw),
            Cow::Borrowed(_) => None,
        };
        let ends = table.objects.iter().map(|(_, range)| range.end).collect();
        Ok(CheckedRecord {
            record,
            payload_at,
            decoded,
            objects,
            bases: table.base.into(),
            ends,
            place: None,
        })
    }

    /// Returns its objects.
    pub fn objects(&self) -> &[FrameObject] {
        &self.objects
    }

    /// Returns whether other objects were needed to decode it.
    pub fn has_bases(&self) -> bool {
        !self.bases.is_empty()
    }

    /// Returns the objects whose bytes are needed to decode it.
    pub(super) fn bases(&self) -> &[ObjectId] {
        &self.bases
    }

    /// Returns its bytes as they are stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.record
    }

    /// Returns the length in bytes of all its objects together.
    pub fn raw_len(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the bytes of object number `n`, if it has this type and id.
    pub(super) fn object(&self, n: u16, ty: ObjectType, id: &ObjectId) -> Option<&[u8]> {
        let n = usize::from(n);
        let object = self.objects.get(n).filter(|o| o.ty == ty && o.id == *id)?;
        let (end, len) = (self.ends[n] as usize, object.len as usize);
        let raw = match &self.decoded {
            Some(decoded) => decoded,
            None => &self.record[self.payload_at..],
        };
        Some(&raw[end - len..end])
    }

    /// Returns the bytes of its object number `n`.
    pub fn bytes_of(&self, n: usize) -> Option<&[u8]> {
        let object = self.objects.get(n)?;
        self.object(u16::try_from(n).ok()?, object.ty, &object.id)
    }

    /// Returns the approximate memory that it takes.
    pub fn size(&self) -> usize {
        let decoded = self.decoded.as_ref().map_or(0, Vec::len);
        self.record.len() + decoded + size_of_val(&*self.objects) + size_of_val(&*self.ends)
    }

    /// Returns it with the place at which this repository has it.
    pub(super) fn read_at(self, place: RecordKey) -> CheckedRecord {
        let place = Some(Box::new(place));
        CheckedRecord { place, ..self }
    }

    /// Returns the pack that has its payload as it is, and the payload's offset there.
    pub(super) fn raw_place(&self) -> Option<(PackId, u64)> {
        let place = self.place.as_ref().filter(|_| self.decoded.is_none())?;
        Some((place.pack, place.offset + self.payload_at as u64))
    }

    /// Returns it as a frame to append to a pack.
    pub(super) fn frame(&self) -> EncodedFrame<'_> {
        let (head, rest) = self.record.split_at(self.payload_at);
        let (payload, sum) = rest.split_at(rest.len() - PAYLOAD_CHECK_BYTES);
        EncodedFrame {
            head: head.to_vec(),
            payload,
            check: array(sum),
            objects: &self.objects,
            bases: &self.bases,
            origin: None,
        }
    }

    /// Returns the kind of pack that it belongs in.
    pub(super) fn kind(&self) -> PackKind {
        match self.objects.first().map(|o| o.ty) {
            Some(ObjectType::Chunk) => PackKind::Data,
            _ => PackKind::Meta,
        }
    }
}

/// Returns the bases of a record from a peer, and the number of its objects.
fn bases_of(record: &[u8]) -> Result<(Vec<ObjectId>, u16), &'static str> {
    let header = RecordHeader::decode(record)?;
    if header.ty != RecordType::Frame {
        return Err("record of a kind that is not sent");
    }
    if header.record_len() != record.len() as u64 {
        return Err("record has another length than it says");
    }
    let table = &record[RECORD_HEADER_BYTES..header.payload_at() as usize];
    if !header.check_table(table) {
        return Err("record header fails its check");
    }
    let count = header.count;
    let table = FrameTable::decode(header, table)?;
    Ok((table.base, count))
}

fn objects_of(table: &FrameTable, raw: &[u8]) -> Result<Vec<FrameObject>, &'static str> {
    let is_chunk = |ty| ty == ObjectType::Chunk;
    let data = table.objects.first().is_some_and(|(ty, _)| is_chunk(*ty));
    let mut objects = Vec::with_capacity(table.objects.len());
    for (ty, range) in &table.objects {
        if is_chunk(*ty) != data {
            return Err("record mixes chunks with other objects");
        }
        let bytes = &raw[range.start as usize..range.end as usize];
        ty.check(bytes).map_err(|e| e.what)?;
        objects.push(FrameObject {
            id: ty.id_of(bytes),
            ty: *ty,
            len: range.end - range.start,
        });
    }
    Ok(objects)
}

/// An object from a peer that matches its id.
pub struct CheckedObject {
    ty: ObjectType,
    id: ObjectId,
    bytes: Vec<u8>,
}

impl CheckedObject {
    /// Checks the bytes, and computes the id from them.
    pub fn new(ty: ObjectType, bytes: Vec<u8>) -> Result<CheckedObject, &'static str> {
        ty.check(&bytes).map_err(|e| e.what)?;
        let id = ty.id_of(&bytes);
        Ok(CheckedObject { ty, id, bytes })
    }

    /// Returns its type.
    pub fn ty(&self) -> ObjectType {
        self.ty
    }

    /// Returns its id.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns its bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::frame::{FrameBuilder, FrameEncoder};
    use ObjectType::{Chunk, Tree};

    fn record(objects: &[(ObjectType, &[u8])]) -> Vec<u8> {
        let mut builder = FrameBuilder::default();
        for (ty, bytes) in objects {
            builder.push(ty.id_of(bytes), *ty, bytes);
        }
        let mut encoder = FrameEncoder::default();
        let frame = encoder
            .encode(&builder.raw, &builder.objects)
            .expect("memory");
        [&frame.head[..], frame.payload, &frame.check].concat()
    }

    #[test]
    fn a_record_is_taken_apart_and_hashed() {
        let text = b"again and again ".repeat(100);
        for bytes in [&b"abc"[..], &text] {
            let checked = CheckedRecord::new(record(&[(Chunk, bytes), (Chunk, b"")]));
            let checked = checked.expect("it is whole");
            let ids: Vec<_> = checked.objects().iter().map(|o| o.id).collect();
            assert_eq!(ids, [Chunk.id_of(bytes), Chunk.id_of(b"")]);
        }
    }

    #[test]
    fn its_objects_are_handed_out_by_the_ids_that_they_hash_to_alone() {
        let text = b"again and again ".repeat(100);
        for stored in [
            record(&[(Chunk, b"abc"), (Chunk, b"de")]),
            record(&[(Chunk, &text), (Chunk, b"de")]),
        ] {
            let checked = CheckedRecord::new(stored).expect("it is whole");
            let (first, second) = (checked.objects()[0].id, Chunk.id_of(b"de"));
            assert_eq!(checked.object(1, Chunk, &second), Some(&b"de"[..]));
            let bytes = checked
                .object(0, Chunk, &first)
                .map(|bytes| Chunk.id_of(bytes));
            assert_eq!(bytes, Some(first));
            for (n, ty, id) in [
                (0, Chunk, second),
                (1, Chunk, first),
                (1, Tree, second),
                (2, Chunk, second),
            ] {
                assert_eq!(checked.object(n, ty, &id), None);
            }
        }
    }

    #[test]
    fn no_flipped_bit_brings_an_object_in_under_the_old_id() {
        let text = b"again and again ".repeat(20);
        let good = record(&[(Chunk, &text)]);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok(checked) = CheckedRecord::new(bad) {
                assert_ne!(checked.objects()[0].id, Chunk.id_of(&text), "bit {bit}");
            }
        }
        for cut in 0..good.len() {
            assert!(
                CheckedRecord::new(good[..cut].to_vec()).is_err(),
                "cut at {cut}"
            );
        }
    }

    /// A record whose chunk is `text`, based on `bases`.
    fn based_record(text: &[u8], bases: &[Vec<u8>]) -> Vec<u8> {
        let objects = [FrameObject {
            id: Chunk.id_of(text),
            ty: Chunk,
            len: text.len() as u32,
        }];
        let prefix = bases.concat();
        let ids: Vec<_> = bases.iter().map(|base| Chunk.id_of(base)).collect();
        let mut encoder = FrameEncoder::default();
        let frame = encoder.encode_with_bases(text, &objects, &ids, &prefix);
        let frame = frame.expect("memory");
        [&frame.head[..], frame.payload, &frame.check].concat()
    }

    /// Decodes a record with these chunks at hand. Returns the chunks in it, or what it lacks.
    fn received(
        record: Vec<u8>,
        at_hand: &[Vec<u8>],
    ) -> Result<Result<Vec<ObjectId>, u16>, &'static str> {
        let mut read = |id: &ObjectId, out: &mut Vec<u8>| {
            let found = at_hand.iter().find(|chunk| Chunk.id_of(chunk) == *id);
            out.extend(found.into_iter().flatten());
            Ok::<bool, ()>(found.is_some())
        };
        let done = CheckedRecord::with_bases(record, &mut read).expect("reading does not fail");
        Ok(match done? {
            ReceivedRecord::Checked(record) => Ok(record.objects().iter().map(|o| o.id).collect()),
            ReceivedRecord::LacksBase { objects } => Err(objects),
        })
    }

    #[test]
    fn a_record_with_bases_is_decoded_once_all_of_them_are_here() {
        let bases = [
            b"again and again ".repeat(300),
            b"and once more ".repeat(300),
        ];
        let text = [&bases[0][100..4000], b"new", &bases[1][50..]].concat();
        let record = based_record(&text, &bases);
        assert!(record.len() < 400, "{}", record.len());
        assert!(CheckedRecord::new(record.clone()).is_err());
        let id = Chunk.id_of(&text);
        assert_eq!(received(record.clone(), &bases), Ok(Ok(vec![id])));
        let lacking = Ok(Err(1));
        assert_eq!(received(record.clone(), &bases[..1]), lacking);
        // Whatever a flipped bit makes of it, it is not this chunk with other bytes.
        for bit in 0..record.len() * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = received(bad, &bases);
            assert!(
                !matches!(&found, Ok(Ok(ids)) if ids.contains(&id)),
                "bit {bit}"
            );
        }
        for cut in 0..record.len() {
            assert!(
                received(record[..cut].to_vec(), &bases).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn bases_are_bounded_whatever_a_record_says() {
        // Nine chunks of 1 MiB are more than the limit: reading stops there.
        let large: Vec<Vec<u8>> = (0..12).map(|n| vec![n; 1 << 20]).collect();
        let record = based_record(b"text", &large);
        let mut reads = 0;
        let mut read = |_: &ObjectId, out: &mut Vec<u8>| {
            reads += 1;
            out.resize(out.len() + (1 << 20), 0);
            Ok::<bool, ()>(true)
        };
        let done = CheckedRecord::with_bases(record, &mut read).expect("reading does not fail");
        assert!(done.is_err());
        assert_eq!(reads, MAX_BASE_BYTES / (1 << 20) + 1);
        let many: Vec<Vec<u8>> = (0..65u8).map(|n| vec![n]).collect();
        assert!(received(based_record(b"text", &many), &many).is_err());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(CheckedRecord::new(record(&[(Tree, b"no tree")])).is_err());
        assert!(CheckedObject::new(Tree, b"no tree".to_vec()).is_err());
        let empty = [3, 1, 0, 0];
        assert!(CheckedObject::new(Tree, empty.to_vec()).is_ok());
        assert!(CheckedRecord::new(record(&[(Tree, &empty), (Chunk, b"x")])).is_err());
        assert!(CheckedObject::new(Chunk, vec![0; (1 << 20) + 1]).is_err());
    }
}

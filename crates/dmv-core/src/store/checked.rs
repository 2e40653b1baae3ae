//! Records and objects from a peer, after each object was hashed and decoded.

use super::frame::{EncodedFrame, FrameObject, FrameTable, decode_payload};
use super::layout::{
    Encoding, PAYLOAD_CHECK_BYTES, PackKind, RECORD_HEADER_BYTES, RecordHeader, RecordType, array,
};
use crate::hash::ObjectId;
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
}

impl CheckedRecord {
    /// Decodes and checks a record.
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
        })
    }

    /// Returns its objects.
    pub fn objects(&self) -> &[FrameObject] {
        &self.objects
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

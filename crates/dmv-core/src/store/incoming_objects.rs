//! Receiving: checked records and objects from peers go into packs.
//!
//! The sessions of `dmv-net` pass them in. Checking comes before, in [`CheckedRecord`] and
//! [`CheckedObject`].

use super::checked_record::{CheckedObject, CheckedRecord};
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::frame::{FrameEncoder, FrameObject};
use super::frame_writer::{Framer, MetaWriter};
use super::layout::PackKind;
use super::write::StoreWriter;
use crate::hash::ObjectId;
use crate::path::PathContext;
use std::path::Path;
use std::sync::Arc;

/// Stores checked objects. They are invisible until the job is published.
pub struct IncomingObjects<'s> {
    writer: StoreWriter<'s>,
    framer: Framer,
}

impl<'s> IncomingObjects<'s> {
    /// Returns a receiver that stores through `writer`.
    pub fn new(writer: StoreWriter<'s>) -> IncomingObjects<'s> {
        let framer = Framer::default();
        IncomingObjects { writer, framer }
    }

    /// Returns a receiver that encodes more thoroughly what it packs anew.
    pub(super) fn thorough(writer: StoreWriter<'s>) -> IncomingObjects<'s> {
        let framer = Framer::thorough();
        IncomingObjects { writer, framer }
    }

    /// Returns a writer for one of several threads that make objects themselves.
    pub fn lane(&self) -> MetaWriter<'_> {
        MetaWriter::new(&self.writer)
    }

    /// Returns the bytes appended to packs so far.
    pub fn stored_bytes(&self) -> u64 {
        self.writer.stored_bytes()
    }

    /// Appends a record as it came, unless all its objects are stored already. Returns the number
    /// of new objects, and their bytes.
    ///
    /// Packs the new objects anew if the record has one that must not be stored, or needs bases that
    /// the pack does not have.
    pub fn add_record(&mut self, record: CheckedRecord) -> Result<(u64, u64), StoreError> {
        let mut new = Vec::new();
        let (mut bytes, mut is_clean) = (0, true);
        for (n, object) in record.objects().iter().enumerate() {
            is_clean &= !self.writer.refuses(&object.id);
            if self.writer.claim(&object.id)? {
                new.push(n as u16);
                bytes += u64::from(object.len);
            }
        }
        let count = new.len() as u64;
        if !new.is_empty() {
            let record = Arc::new(record);
            if !record.bases().is_empty() {
                // They may be waiting in the frame that is being filled.
                self.framer.flush(&self.writer)?;
            }
            let is_clean = is_clean && !self.has_bases_of_others(&record);
            if !is_clean || !self.writer.append_checked(&record)? {
                self.add_objects_of(&record, &new)?;
            }
        }
        Ok((count, bytes))
    }

    /// Stores some objects of a record, given by their numbers in order. `prefix` are the bytes of the
    /// record's bases in a row.
    pub(super) fn add_part(
        &mut self,
        record: CheckedRecord,
        which: &[u16],
        prefix: &[u8],
    ) -> Result<(), StoreError> {
        if which.len() == record.objects().len() {
            return self.add_record(record).map(drop);
        }
        let mut new = Vec::new();
        for n in which {
            if self.writer.claim(&record.objects()[usize::from(*n)].id)? {
                new.push(*n);
            }
        }
        let may_have_bases = !record.bases().is_empty() && !self.has_bases_of_others(&record);
        if may_have_bases && !new.is_empty() {
            self.framer.flush(&self.writer)?;
            let objects: Vec<FrameObject> = new
                .iter()
                .map(|n| record.objects()[usize::from(*n)])
                .collect();
            let bytes = objects
                .iter()
                .zip(&new)
                .filter_map(|(object, n)| record.object(*n, object.ty, &object.id));
            let raw: Vec<u8> = bytes.flatten().copied().collect();
            let mut encoder = FrameEncoder::default();
            let encoded = encoder.encode_with_bases(&raw, &objects, record.bases(), prefix);
            let frame = encoded.context("compress for", Path::new("a pack"))?;
            if self.writer.append_frame(&frame)? {
                return Ok(());
            }
        }
        self.add_objects_of(&record, &new)
    }

    /// Returns whether a record has bases although a chunk in it is a base for another pack.
    fn has_bases_of_others(&self, record: &CheckedRecord) -> bool {
        let keeps_plain = self.writer.keeps_plain();
        let mut objects = record.objects().iter();
        !record.bases().is_empty() && objects.any(|object| keeps_plain.contains(&object.id))
    }

    /// Packs some objects of a record anew, in frames of at most `room` decoded bytes.
    pub(super) fn add_joined(
        &mut self,
        record: &CheckedRecord,
        which: &[u16],
        room: usize,
    ) -> Result<(), StoreError> {
        for n in which {
            let object = record.objects()[usize::from(*n)];
            if self.framer.data_len() + object.len as usize > room {
                self.framer.flush(&self.writer)?;
            }
            if self.writer.claim(&object.id)? {
                self.add_objects_of(record, &[*n])?;
            }
        }
        Ok(())
    }

    /// Packs claimed objects of a record anew.
    fn add_objects_of(&mut self, record: &CheckedRecord, which: &[u16]) -> Result<(), StoreError> {
        for n in which {
            let object = record.objects()[usize::from(*n)];
            let bytes = record.object(*n, object.ty, &object.id);
            let bytes = bytes.expect("the record has this object");
            self.framer
                .push(&self.writer, object.id, object.ty, bytes)?;
        }
        Ok(())
    }

    /// Returns whether this job has stored an object, or is about to. No reader sees it before the job is
    /// published.
    pub fn has_taken(&self, id: &ObjectId) -> bool {
        self.writer.has_claimed(id)
    }

    /// Adds an object to the frame that is being filled. Returns whether it is new.
    pub fn add_object(&mut self, object: &CheckedObject) -> Result<bool, StoreError> {
        let (id, ty, bytes) = (object.id(), object.ty(), object.as_bytes());
        self.framer.add(&self.writer, id, ty, bytes)
    }

    /// Returns the writer. Frames that are being filled are not written yet.
    pub(super) fn writer(&self) -> &StoreWriter<'s> {
        &self.writer
    }

    /// Ends the open segment of a kind of pack. Returns how many segments of this kind the job has.
    pub(super) fn end_segment(&mut self, kind: PackKind) -> Result<usize, StoreError> {
        self.framer.flush(&self.writer)?;
        self.writer.end_segment(kind)
    }

    /// Makes everything durable. Nothing names the objects yet.
    pub fn finish(mut self) -> Result<FinishedJob, StoreError> {
        self.framer.flush(&self.writer)?;
        self.writer.finish()
    }
}

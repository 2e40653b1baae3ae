//! Receiving: checked records and objects from peers go into packs.
//!
//! The sessions of `dmv-net` pass them in. Checking comes before, in [`CheckedRecord`] and
//! [`CheckedObject`].

use super::checked::{CheckedObject, CheckedRecord};
use super::error::StoreError;
use super::framer::Framer;
use super::write::{FinishedJob, StoreWriter};

/// Stores checked objects. They are invisible until the job is published.
pub struct Incoming<'s> {
    writer: StoreWriter<'s>,
    framer: Framer,
}

impl<'s> Incoming<'s> {
    /// Returns a receiver that stores through `writer`.
    pub fn new(writer: StoreWriter<'s>) -> Incoming<'s> {
        let framer = Framer::default();
        Incoming { writer, framer }
    }

    /// Returns the bytes appended to packs so far.
    pub fn stored_bytes(&self) -> u64 {
        self.writer.stored_bytes()
    }

    /// Appends a record as it came, unless all its objects are stored already. Returns the number
    /// of new objects, and their bytes.
    pub fn add_record(&mut self, record: CheckedRecord) -> Result<(u64, u64), StoreError> {
        let (mut new, mut bytes) = (0, 0);
        for object in record.objects() {
            if self.writer.claim(&object.id)? {
                new += 1;
                bytes += u64::from(object.len);
            }
        }
        if new > 0 {
            self.writer.append_checked(record)?;
        }
        Ok((new, bytes))
    }

    /// Adds an object to the frame that is being filled. Returns whether it is new.
    pub fn add_object(&mut self, object: &CheckedObject) -> Result<bool, StoreError> {
        let (id, ty, bytes) = (object.id(), object.ty(), object.as_bytes());
        self.framer.add(&self.writer, id, ty, bytes)
    }

    /// Ends a job that failed.
    pub(super) fn discard(self) {
        self.writer.discard();
    }

    /// Makes everything durable. Nothing names the objects yet.
    pub fn finish(mut self) -> Result<FinishedJob, StoreError> {
        if let Err(e) = self.framer.flush(&self.writer) {
            self.discard();
            return Err(e);
        }
        self.writer.finish()
    }
}

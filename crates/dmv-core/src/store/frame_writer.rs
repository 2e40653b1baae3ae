//! Groups single objects into frames and appends these to packs. [`IncomingObjects`](super::IncomingObjects) and
//! [`MetaWriter`] share it. Both, and the reading of files, encode a frame and append it with
//! [`StoreWriter::append`].

use super::error::StoreError;
use super::frame::{FrameBuilder, FrameEncoder};
use super::layout::PackKind;
use super::write::StoreWriter;
use crate::hash::ObjectId;
use crate::limits::MAX_OBJECT_BYTES;
use crate::object::{ObjectError, ObjectType, ObjectWrite};

/// The two frames that are being filled: chunks go to data packs, all other objects to meta packs.
#[derive(Default)]
pub(crate) struct Framer {
    data: FrameBuilder,
    meta: FrameBuilder,
    encoder: FrameEncoder,
}

impl Framer {
    /// Returns one for work that may take longer so that frames get smaller.
    pub fn thorough() -> Framer {
        Framer {
            encoder: FrameEncoder::thorough(),
            ..Framer::default()
        }
    }

    /// Adds one object that is no longer than the limit. Returns its id, and whether it is new.
    pub fn put(
        &mut self,
        writer: &StoreWriter<'_>,
        ty: ObjectType,
        bytes: &[u8],
    ) -> Result<(ObjectId, bool), ObjectError> {
        if bytes.len() > MAX_OBJECT_BYTES {
            let bytes = bytes.len();
            return Err(StoreError::TooLarge { ty, bytes }.into());
        }
        let id = ty.id_of(bytes);
        Ok((id, self.add(writer, id, ty, bytes)?))
    }

    /// Adds one object, unless `writer` need not store it. Appends the frame first if it is full.
    /// Returns whether the object is new.
    pub fn add(
        &mut self,
        writer: &StoreWriter<'_>,
        id: ObjectId,
        ty: ObjectType,
        bytes: &[u8],
    ) -> Result<bool, StoreError> {
        let is_new = writer.claim(&id)?;
        if is_new {
            self.push(writer, id, ty, bytes)?;
        }
        Ok(is_new)
    }

    /// Adds one object that `writer` must store. Appends the frame first if it is full.
    pub fn push(
        &mut self,
        writer: &StoreWriter<'_>,
        id: ObjectId,
        ty: ObjectType,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let (kind, builder) = match ty {
            ObjectType::Chunk => (PackKind::Data, &mut self.data),
            _ => (PackKind::Meta, &mut self.meta),
        };
        if builder.is_full_for(bytes.len()) {
            append(writer, kind, &mut self.encoder, builder)?;
        }
        builder.push(id, ty, bytes);
        Ok(())
    }

    /// Returns the length in bytes of the chunks that are still buffered.
    pub fn data_len(&self) -> usize {
        self.data.raw.len()
    }

    /// Appends the frames that are still buffered.
    pub fn flush(&mut self, writer: &StoreWriter<'_>) -> Result<(), StoreError> {
        append(writer, PackKind::Data, &mut self.encoder, &mut self.data)?;
        append(writer, PackKind::Meta, &mut self.encoder, &mut self.meta)
    }
}

fn append(
    writer: &StoreWriter<'_>,
    kind: PackKind,
    encoder: &mut FrameEncoder,
    builder: &mut FrameBuilder,
) -> Result<(), StoreError> {
    if !builder.objects.is_empty() {
        writer.append(kind, encoder, &builder.raw, &builder.objects)?;
        builder.clear();
    }
    Ok(())
}

/// Stores objects one at a time: mostly metadata, and few chunks.
pub struct MetaWriter<'w> {
    writer: &'w StoreWriter<'w>,
    framer: Framer,
}

impl<'w> MetaWriter<'w> {
    /// Returns a metadata writer of the job of `writer`.
    pub fn new(writer: &'w StoreWriter<'w>) -> MetaWriter<'w> {
        let framer = Framer::default();
        MetaWriter { writer, framer }
    }

    /// Appends the frames that are still buffered.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.framer.flush(self.writer)
    }
}

impl ObjectWrite for MetaWriter<'_> {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        Ok(self.framer.put(self.writer, ty, bytes)?.0)
    }
}

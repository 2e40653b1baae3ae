//! Storing metadata once more: everything but chunks, in the order of a [`Window`].

use super::window::{Window, WindowPart};
use super::{ListedObject, RepackRefusal, RepackResult, by_frame};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::store::catalogue::SegmentRow;
use crate::store::checked_record::CheckedRecord;
use crate::store::error::StoreError;
use crate::store::frame::{FRAME_TARGET_BYTES, FrameBuilder, FrameEncoder};
use crate::store::layout::PackKind;
use crate::store::pack_store::Store;
use crate::store::write::StoreWriter;

/// Decoded bytes of a frame of metadata. A checkout of an old commit reads one frame for each directory, and a frame
/// twice as large would save little. Root directories have frames of [`FRAME_TARGET_BYTES`]: a checkout reads one of
/// them, each is large, and each shares nearly everything with the one before.
const METADATA_BYTES: usize = 256 << 10;

impl Store {
    /// [`Store::repack`] for packs of a kind other than data.
    pub(super) fn repack_metadata(
        &self,
        kind: PackKind,
        groups: &[Vec<SegmentRow>],
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RepackResult, RepackRefusal> {
        let leaving = groups.iter().flatten().map(|row| row.pack).collect();
        let mut pass = Pass {
            store: self,
            kind,
            writer: StoreWriter::fresh(self, leaving),
            window: Window::default(),
            builder: FrameBuilder::default(),
            encoder: FrameEncoder::default(),
        };
        let mut of_segments = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let segments = pass.add_group(group, moved)?;
            of_segments.resize(segments, number);
        }
        let job = pass.writer.finish().map_err(RepackRefusal::Failed)?;
        Ok(RepackResult {
            job,
            groups: of_segments,
        })
    }
}

/// One pass over segments, in order.
struct Pass<'s> {
    store: &'s Store,
    kind: PackKind,
    writer: StoreWriter<'s>,
    /// Metadata that waits to be stored in another order.
    window: Window,
    /// The frame that is being filled.
    builder: FrameBuilder,
    encoder: FrameEncoder,
}

impl Pass<'_> {
    /// Stores what the segments of a group list. Returns the number of all new segments so far.
    fn add_group(
        &mut self,
        group: &[SegmentRow],
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<usize, RepackRefusal> {
        for row in group {
            let stays = |e| RepackRefusal::Stays(row.pack, e);
            let listed = self.store.listed(row).map_err(stays)?;
            for frame in by_frame(&listed) {
                let read = self.store.checked_frame(self.kind, row.pack, frame);
                let (record, _) = read.map_err(stays)?;
                let bytes = record.as_bytes().len() as u64;
                self.add_metadata(&record, frame)
                    .map_err(RepackRefusal::Failed)?;
                if !moved(bytes) {
                    return Err(RepackRefusal::Stopped);
                }
            }
        }
        let ended = self
            .store_window()
            .and_then(|()| self.flush())
            .and_then(|()| self.writer.end_segment(self.kind));
        ended.map_err(RepackRefusal::Failed)
    }

    /// Stores the metadata of a frame again, when its window is full.
    fn add_metadata(
        &mut self,
        record: &CheckedRecord,
        frame: &[ListedObject],
    ) -> Result<(), StoreError> {
        for listed in frame {
            if self.writer.claim(&listed.id)? {
                let bytes = listed.bytes_in(record);
                let bytes = bytes.expect("the frame was checked against the list");
                if self.window.is_full_for(bytes.len()) {
                    self.store_window()?;
                }
                self.window.push(listed.id, listed.ty, bytes);
            }
        }
        Ok(())
    }

    /// Stores the metadata of the window.
    fn store_window(&mut self) -> Result<(), StoreError> {
        let mut window = std::mem::take(&mut self.window);
        for (part, id, ty, bytes) in window.in_order() {
            let room = if part == WindowPart::Roots {
                FRAME_TARGET_BYTES
            } else {
                METADATA_BYTES
            };
            self.add(id, ty, bytes, room)?;
        }
        window.clear();
        self.window = window;
        Ok(())
    }

    /// Adds an object to the frame that is being filled, up to `room` bytes.
    fn add(
        &mut self,
        id: ObjectId,
        ty: ObjectType,
        bytes: &[u8],
        room: usize,
    ) -> Result<(), StoreError> {
        let is_full = self.builder.raw.len() + bytes.len() > room;
        if is_full || self.builder.is_full_for(bytes.len()) {
            self.flush()?;
        }
        self.builder.push(id, ty, bytes);
        Ok(())
    }

    /// Appends the frame that is being filled.
    fn flush(&mut self) -> Result<(), StoreError> {
        if !self.builder.objects.is_empty() {
            let (raw, objects) = (&self.builder.raw, &self.builder.objects);
            self.writer
                .append(self.kind, &mut self.encoder, raw, objects)?;
            self.builder.clear();
        }
        Ok(())
    }
}

//! Storing everything that some packs list once more, in new packs with fewer and fuller frames.
//!
//! Every frame is decoded and every object hashed on the way. Whatever was listed is afterwards listed
//! at a place outside the old packs: [`Store::check_repacked`] proves it before anybody takes these out
//! of use. What other packs have intact is not stored again. [`deltas`](super::deltas) does this for
//! content, and this module for everything else. Nothing here knows which objects are needed.

mod window;

use super::FinishedJob;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::frame::{FrameBuilder, FrameEncoder};
use super::layout::PackKind;
use super::random_id::PackId;
use super::table::Table;
use super::table::join::WantedObject;
use super::write::StoreWriter;
use super::{SegmentRow, Store, read};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use std::collections::HashSet;
use std::sync::Arc;
use window::Window;

/// Decoded bytes of a frame of metadata. A checkout of an old commit reads one frame for each directory,
/// and a frame twice as large would save little.
const METADATA_BYTES: usize = 256 << 10;
/// Number of ids that are checked together.
const CHECKED_IDS: usize = 256 << 10;

/// The result of [`Store::repack`], to be published.
pub(crate) struct RepackResult {
    /// The new segments.
    pub job: FinishedJob,
    /// For each new segment the number of the group whose objects it has.
    pub groups: Vec<usize>,
}

/// Why packs were not stored again. Nothing is left of the attempt.
#[derive(Debug)]
pub(crate) enum RepackRefusal {
    /// The caller ended the work.
    Stopped,
    /// This pack has damage and must stay.
    Stays(PackId, StoreError),
    /// The new packs could not be written.
    Failed(StoreError),
}

impl Store {
    /// Stores everything again that some segments of one kind of pack list, unless another pack has
    /// it. The caller holds the locks of the packs.
    ///
    /// Objects of different groups get different segments. `moved` receives the stored bytes of each
    /// frame that was read, and returns whether to continue.
    pub(crate) fn repack(
        &self,
        kind: PackKind,
        groups: &[Vec<SegmentRow>],
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RepackResult, RepackRefusal> {
        if kind == PackKind::Data {
            return self.repack_content(groups, moved);
        }
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
            match pass.add_group(group, moved) {
                Ok(segments) => of_segments.resize(segments, number),
                Err(e) => {
                    pass.writer.discard();
                    return Err(e);
                }
            }
        }
        let job = pass.writer.finish().map_err(RepackRefusal::Failed)?;
        Ok(RepackResult {
            job,
            groups: of_segments,
        })
    }

    /// Fails with the pack at fault unless `job` or tables in use name a place outside the packs of
    /// `segments`, without known damage, for everything that `segments` list.
    pub(crate) fn check_repacked(
        &self,
        segments: &[SegmentRow],
        job: &FinishedJob,
    ) -> Result<(), RepackRefusal> {
        let leaving: HashSet<PackId> = segments.iter().map(|row| row.pack).collect();
        let mut tables: Vec<Arc<Table>> = read(&self.tables).clone();
        tables.extend(job.tables.iter().cloned());
        let mut ids: Vec<WantedObject> = Vec::new();
        for (n, row) in segments.iter().enumerate() {
            let stays = |e| RepackRefusal::Stays(row.pack, e);
            let add = |entry: super::table::Entry, _| {
                let (id, ty) = (entry.id, entry.place.ty);
                ids.push(WantedObject { id, ty });
                Ok(())
            };
            let table = self.open_segment(row);
            table
                .and_then(|table| table.walk(&mut { add }))
                .map_err(stays)?;
            let is_last = segments.get(n + 1).is_none_or(|next| next.pack != row.pack);
            if is_last || ids.len() >= CHECKED_IDS {
                self.check_outside(&mut ids, &leaving, (&tables, &job.kept_plain), row.pack)
                    .map_err(stays)?;
            }
        }
        Ok(())
    }

    /// Fails unless each of `ids` is listed outside `leaving`, and those of `plain` without bases. Empties
    /// `ids`, which come from `pack`.
    fn check_outside(
        &self,
        ids: &mut Vec<WantedObject>,
        leaving: &HashSet<PackId>,
        (tables, plain): (&[Arc<Table>], &HashSet<ObjectId>),
        pack: PackId,
    ) -> Result<(), StoreError> {
        ids.sort_unstable();
        ids.dedup_by_key(|wanted| wanted.id);
        let mut is_outside = vec![false; ids.len()];
        let sorted: &[WantedObject] = ids;
        for table in tables {
            table.join(sorted, &mut |at, other, place| {
                is_outside[at] |= !leaving.contains(&other)
                    && !read(&self.bad).has(other, place.offset)
                    && (!plain.contains(&sorted[at].id) || self.is_plain(other, place.offset));
                Ok(())
            })?;
        }
        ids.clear();
        if is_outside.iter().all(|is_outside| *is_outside) {
            Ok(())
        } else {
            Err(StoreError::DamagedFile {
                path: self.pack_path(pack),
                offset: 0,
                why: "an object could not be copied",
            })
        }
    }
}

/// An object that a table lists in a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ListedObject {
    offset: u64,
    ordinal: u16,
    ty: ObjectType,
    id: ObjectId,
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
            let listed = self.listed(row).map_err(stays)?;
            for frame in listed.chunk_by(|a, b| a.offset == b.offset) {
                let record = self.checked(row.pack, frame).map_err(stays)?;
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

    /// Returns what a segment's own table lists, by place.
    fn listed(&self, row: &SegmentRow) -> Result<Vec<ListedObject>, StoreError> {
        let table = self.store.open_segment(row)?;
        table.verify()?;
        let mut listed = Vec::with_capacity(table.entries() as usize);
        table.walk(&mut |entry, _| {
            listed.push(ListedObject {
                offset: entry.place.offset,
                ordinal: entry.place.ordinal,
                ty: entry.place.ty,
                id: entry.id,
            });
            Ok(())
        })?;
        listed.sort_unstable();
        Ok(listed)
    }

    /// Reads a frame and checks that it has what is listed in it.
    fn checked(&self, pack: PackId, frame: &[ListedObject]) -> Result<CheckedRecord, StoreError> {
        let offset = frame[0].offset;
        let damaged = |why| StoreError::DamagedFile {
            path: self.store.pack_path(pack),
            offset,
            why,
        };
        let (record, _) = self.store.checked_at(pack, offset)?;
        let is_there = |listed: &ListedObject| {
            let found = record.objects().get(usize::from(listed.ordinal));
            found.is_some_and(|found| found.id == listed.id && found.ty == listed.ty)
        };
        if frame.iter().all(is_there) && record.kind() == self.kind {
            Ok(record)
        } else {
            // In a frame without a check of its own, damage shows as another id.
            Err(damaged("an object's bytes are wrong"))
        }
    }

    /// Stores the metadata of a frame again, when its window is full.
    fn add_metadata(
        &mut self,
        record: &CheckedRecord,
        frame: &[ListedObject],
    ) -> Result<(), StoreError> {
        for listed in frame {
            if self.writer.claim(&listed.id)? {
                let bytes = bytes_of(record, listed);
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
        for (id, ty, bytes) in window.in_order() {
            self.add(id, ty, bytes, METADATA_BYTES)?;
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

/// Returns the bytes of an object in a frame that was checked against what is listed in it.
fn bytes_of<'r>(record: &'r CheckedRecord, listed: &ListedObject) -> &'r [u8] {
    let bytes = record.object(listed.ordinal, listed.ty, &listed.id);
    bytes.expect("the frame was checked against the list")
}

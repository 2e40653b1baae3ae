//! Moving needed objects out of a pack, so that the pack can be removed.
//!
//! Frames whose objects all stay are copied as stored, in their order. From other frames the
//! objects that stay are packed again. A frame with bases comes after the copies of its bases. If some
//! of them are not copied, its objects are packed without bases. Every object is decoded and hashed
//! on the way, so the needed objects of a removed pack are known to be intact elsewhere.

use super::checked_record::{CheckedObject, CheckedRecord};
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::incoming_objects::IncomingObjects;
use super::index_entry::Place;
use super::marker::Marker;
use super::pack_store::Store;
use super::random_id::PackId;
use super::table::join::WantedObject;
use super::write::StoreWriter;
use crate::hash::ObjectId;
use crate::object::ObjectType;
use std::collections::{BTreeSet, HashSet};

/// Receives the bytes of each finished frame, and returns whether to continue.
type OnMoved<'m> = dyn FnMut(u64) -> bool + 'm;

/// Returns the numbers of the objects of a record that stay. Receives the offset of the record in its pack.
type Choose<'c, T> = dyn Fn(u64, T, &CheckedRecord) -> Result<Vec<u16>, StoreError> + 'c;

impl Store {
    /// Stores the needed objects of `pack` again, unless a pack outside `leaving` has them. The
    /// caller holds the pack's lock.
    ///
    /// `frames` are the offsets of their frames. `stays` decides for each object there.
    ///
    /// Returns the result to publish; `None` if `moved` ended the work. Fails if it meets damage:
    /// then the pack must stay.
    pub(crate) fn move_out(
        &self,
        pack: PackId,
        leaving: &HashSet<PackId>,
        frames: &BTreeSet<u64>,
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
        moved: &mut OnMoved<'_>,
    ) -> Result<Option<FinishedJob>, StoreError> {
        // A pack that others write to has no room for frames with bases: these follow their bases.
        let writer = if pack.may_have_bases() {
            StoreWriter::fresh(self, leaving.clone()).with_bases(true)
        } else {
            self.mover(leaving.clone())?
        };
        let writer = writer.keeping_plain(self.bases_of_others(leaving)?);
        let choose = |offset, (), record: &CheckedRecord| {
            let mut stay = Vec::new();
            for (object, ordinal) in record.objects().iter().zip(0..) {
                let ty = object.ty;
                let place = Place {
                    offset,
                    ordinal,
                    ty,
                };
                // In a raw frame, damage shows as an unknown id. If the id is known at another
                // place, another copy counts.
                if self.index.is_placed(&object.id, pack, place)? {
                    stay.extend(stays(&object.id)?.then_some(ordinal));
                } else if self.locate(&object.id)?.is_none() {
                    let why = "an object's bytes are wrong";
                    return Err(self.files().damaged(pack, offset, why));
                }
            }
            Ok(stay)
        };
        let frames = frames.iter().map(|offset| (*offset, ()));
        self.move_frames(writer, pack, frames, &choose, moved)
    }

    /// Stores what must stay of `pack` in new packs, unless another pack has it. The caller holds the
    /// pack's lock. The results are those of [`move_out`](Self::move_out).
    pub(crate) fn carry(
        &self,
        pack: PackId,
        marker: &Marker<'_>,
        moved: &mut OnMoved<'_>,
    ) -> Result<Option<FinishedJob>, StoreError> {
        let leaving = HashSet::from([pack]);
        let bases = self.bases_of_others(&leaving)?;
        let writer = StoreWriter::fresh(self, leaving).with_bases(pack.may_have_bases());
        let choose = |offset, stays: Vec<bool>, record: &CheckedRecord| {
            let ordinals = (0..).zip(&stays).filter(|(_, stays)| **stays);
            let stay: Vec<u16> = ordinals.map(|(ordinal, _)| ordinal).collect();
            match stay.last() {
                Some(last) if usize::from(*last) >= record.objects().len() => {
                    Err(self.files().damaged(pack, offset, "an object is missing"))
                }
                _ => Ok(stay),
            }
        };
        let frames = marker.staying_frames(pack);
        self.move_frames(writer.keeping_plain(bases), pack, frames, &choose, moved)
    }

    /// Stores the objects of some frames that stay. `frames` are their offsets, each with what `choose` needs to
    /// choose the numbers of these objects. What is not returned leaves no file behind.
    fn move_frames<T>(
        &self,
        writer: StoreWriter<'_>,
        pack: PackId,
        frames: impl Iterator<Item = (u64, T)>,
        choose: &Choose<'_, T>,
        moved: &mut OnMoved<'_>,
    ) -> Result<Option<FinishedJob>, StoreError> {
        let mut incoming = IncomingObjects::new(writer);
        for (offset, what) in frames {
            let (record, prefix) = self.checked_at(pack, offset)?;
            let stay = choose(offset, what, &record)?;
            let bytes = record.as_bytes().len() as u64;
            incoming.add_part(record, &stay, &prefix)?;
            if !moved(bytes) {
                return Ok(None);
            }
        }
        incoming.finish().map(Some)
    }

    /// Fails unless everything in `pack` that must stay was [copied](Self::check_copied).
    pub(crate) fn check_carried(
        &self,
        pack: PackId,
        marker: &Marker<'_>,
        job: &FinishedJob,
    ) -> Result<(), StoreError> {
        let leaving = HashSet::from([pack]);
        marker.staying_ids(pack, &mut |ids| self.check_copied(ids, pack, &leaving, job))
    }

    /// Fails unless `job` or tables in use name a place outside `leaving`, without known damage, for each of
    /// `ids`, which come from `pack` and are sorted. Chunks that other packs need as bases must be in
    /// frames without bases there.
    pub(super) fn check_copied(
        &self,
        ids: &[WantedObject],
        pack: PackId,
        leaving: &HashSet<PackId>,
        job: &FinishedJob,
    ) -> Result<(), StoreError> {
        let (current, bad) = (self.current(), self.damage.places());
        let mut is_outside = vec![false; ids.len()];
        for table in current.tables.iter().chain(&job.tables) {
            table.join(ids, &mut |at, other, place| {
                is_outside[at] |= !leaving.contains(&other)
                    && !bad.has(other, place.offset)
                    && (!job.kept_plain.contains(&ids[at].id)
                        || self.reader.is_plain(other, place.offset));
                Ok(())
            })?;
        }
        if is_outside.iter().all(|is_outside| *is_outside) {
            return Ok(());
        }
        // In a frame without a check of its own, damage shows as another id.
        Err(self
            .files()
            .damaged(pack, 0, "an object could not be copied"))
    }

    /// Removes the files of new packs that nothing lists.
    pub(crate) fn discard(&self, job: FinishedJob) {
        for segment in &job.segments {
            let _ = self.files().vfs.remove(&self.pack_path(segment.pack));
        }
    }

    /// Stores the objects of some frames, given by pack and offset, unless a table lists them.
    ///
    /// Their index was lost, and nothing can be appended to their packs. Damaged frames are
    /// skipped. Returns the result to publish.
    pub(crate) fn store_unlisted(
        &self,
        frames: &[(PackId, u64)],
    ) -> Result<FinishedJob, StoreError> {
        let mut incoming = IncomingObjects::new(self.writer()?);
        for (pack, offset) in frames {
            if let Ok((record, _)) = self.checked_at(*pack, *offset) {
                incoming.add_record(record)?;
            }
        }
        incoming.finish()
    }

    /// Stores bases of the frames that have `chunks` without bases of their own, if no such copy is intact
    /// and the store can read them in another way. Returns the result to publish.
    pub(crate) fn mend_bases(&self, chunks: &[ObjectId]) -> Result<FinishedJob, StoreError> {
        let mut bases = HashSet::new();
        for (pack, place) in chunks.iter().flat_map(|id| self.index.copies(id).flatten()) {
            if let Ok(frame) = self.reader.table(pack, place.offset) {
                bases.extend(frame.base.iter().copied());
            }
        }
        let no_pack = HashSet::new();
        bases.retain(|id| matches!(self.plain_pack_of(id, &no_pack), Ok(None)));
        let writer = self.writer()?.keeping_plain(bases.clone());
        let mut incoming = IncomingObjects::new(writer);
        for id in bases {
            let mut bytes = Vec::new();
            let is_read = self.read_into(ObjectType::Chunk, &id, &mut bytes);
            if is_read.unwrap_or(false)
                && let Ok(object) = CheckedObject::new(ObjectType::Chunk, bytes)
            {
                incoming.add_object(&object)?;
            }
        }
        incoming.finish()
    }
}

//! Moving needed objects out of a pack, so that the pack can be removed.
//!
//! Frames whose objects all stay are copied as stored, in their order. From other frames the
//! objects that stay are packed again. A frame with bases comes after the copies of its bases. If some
//! of them are not copied, its objects are packed without bases. Every object is decoded and hashed
//! on the way, so the needed objects of a removed pack are known to be intact elsewhere.

use super::FinishedJob;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::incoming_objects::IncomingObjects;
use super::layout::PACK_HEADER_BYTES;
use super::random_id::PackId;
use super::table::Table;
use super::write::StoreWriter;
use super::{Marker, Place, SegmentRow, Store, read};
use crate::hash::ObjectId;
use crate::path::PathContext;
use crate::vfs::VfsFile;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

impl Store {
    /// Stores the needed objects of `pack` again, unless a pack outside `leaving` has them. The
    /// caller holds the pack's lock.
    ///
    /// `frames` are the offsets of their frames. `stays` decides for each object there. `moved`
    /// receives the bytes of each finished frame and returns whether to continue.
    ///
    /// Returns the result to publish; `None` if `moved` ended the work. Fails if it meets damage:
    /// then the pack must stay.
    pub(crate) fn move_out(
        &self,
        pack: PackId,
        leaving: &HashSet<PackId>,
        frames: &BTreeSet<u64>,
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<FinishedJob>, StoreError> {
        // A pack that others write to has no room for frames with bases: these follow their bases.
        let writer = if pack.may_have_bases() {
            StoreWriter::fresh(self, leaving.clone()).with_bases(true)
        } else {
            self.mover(leaving.clone())?
        };
        let writer = writer.keeping_plain(self.bases_of_others(leaving)?);
        let mut incoming = IncomingObjects::new(writer);
        let done = self.move_frames(&mut incoming, pack, frames, stays, moved);
        match done {
            Ok(true) => incoming.finish().map(Some),
            Ok(false) => {
                incoming.discard();
                Ok(None)
            }
            Err(e) => {
                incoming.discard();
                Err(e)
            }
        }
    }

    /// Stores the objects of some frames that stay. Returns `false` if `moved` ended the work.
    fn move_frames(
        &self,
        incoming: &mut IncomingObjects<'_>,
        pack: PackId,
        frames: &BTreeSet<u64>,
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, StoreError> {
        for offset in frames {
            let damaged = |why| StoreError::DamagedFile {
                path: self.pack_path(pack),
                offset: *offset,
                why,
            };
            let (record, prefix) = self.checked_at(pack, *offset)?;
            let (mut stay, mut bytes) = (Vec::new(), 0);
            for (n, object) in record.objects().iter().enumerate() {
                bytes += u64::from(object.len);
                let place = Place {
                    offset: *offset,
                    ordinal: n as u16,
                    ty: object.ty,
                };
                // In a raw frame, damage shows as an unknown id. If the id is known at another
                // place, another copy counts.
                if self.is_placed(&object.id, pack, place)? {
                    stay.extend(stays(&object.id)?.then_some(n as u16));
                } else if self.locate(&object.id)?.is_none() {
                    return Err(damaged("an object's bytes are wrong"));
                }
            }
            incoming.add_part(record, &stay, &prefix)?;
            if !moved(bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores what must stay of `pack` in new packs, unless another pack has it. The caller holds the
    /// pack's lock.
    ///
    /// `moved` receives the bytes of each finished frame and returns whether to continue. Returns the
    /// result to publish; `None` if `moved` ended the work. Fails if it meets damage: then the pack
    /// must stay. Whatever is not returned leaves no file behind.
    pub(crate) fn carry(
        &self,
        pack: PackId,
        marker: &Marker<'_>,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<FinishedJob>, StoreError> {
        let leaving = HashSet::from([pack]);
        let bases = self.bases_of_others(&leaving)?;
        let writer = StoreWriter::fresh(self, leaving);
        let writer = writer.with_bases(pack.may_have_bases());
        let mut incoming = IncomingObjects::new(writer.keeping_plain(bases));
        for (offset, stays) in marker.staying_frames(pack) {
            let done = self.carry_frame(&mut incoming, pack, offset, &stays);
            let bytes = match done {
                Ok(bytes) => bytes,
                Err(e) => {
                    incoming.discard();
                    return Err(e);
                }
            };
            if !moved(bytes) {
                incoming.discard();
                return Ok(None);
            }
        }
        incoming.finish().map(Some)
    }

    /// Stores the objects of a frame that stay. Returns the length of the frame in bytes.
    fn carry_frame(
        &self,
        incoming: &mut IncomingObjects<'_>,
        pack: PackId,
        offset: u64,
        stays: &[bool],
    ) -> Result<u64, StoreError> {
        let (record, prefix) = self.checked_at(pack, offset)?;
        let bytes = record.as_bytes().len() as u64;
        let numbers = 0..record.objects().len().min(stays.len());
        let stay: Vec<u16> = numbers.filter(|n| stays[*n]).map(|n| n as u16).collect();
        if stay.len() < stays.iter().filter(|stays| **stays).count() {
            return Err(StoreError::DamagedFile {
                path: self.pack_path(pack),
                offset,
                why: "an object is missing",
            });
        }
        incoming.add_part(record, &stay, &prefix)?;
        Ok(bytes)
    }

    /// Fails unless `job` or tables in use name a place outside `pack`, without known damage, for
    /// everything in `pack` that must stay.
    pub(crate) fn check_carried(
        &self,
        pack: PackId,
        marker: &Marker<'_>,
        job: &FinishedJob,
    ) -> Result<(), StoreError> {
        let mut tables: Vec<Arc<Table>> = read(&self.tables).clone();
        tables.extend(job.tables.iter().cloned());
        marker.staying_ids(pack, &mut |ids| {
            let mut is_outside = vec![false; ids.len()];
            for table in &tables {
                table.join(ids, &mut |at, other, place| {
                    is_outside[at] |= other != pack
                        && !read(&self.bad).has(other, place.offset)
                        && (!job.kept_plain.contains(&ids[at].id)
                            || self.is_plain(other, place.offset));
                    Ok(())
                })?;
            }
            if is_outside.iter().all(|is_outside| *is_outside) {
                Ok(())
            } else {
                // In a frame without a check of its own, damage shows as another id.
                Err(StoreError::DamagedFile {
                    path: self.pack_path(pack),
                    offset: 0,
                    why: "an object could not be copied",
                })
            }
        })
    }

    /// Returns whether an unlisted pack was begun by a job of this repository. A file that ends within
    /// its header was.
    pub(crate) fn is_begun_here(
        &self,
        pack: PackId,
        file: &dyn VfsFile,
    ) -> Result<bool, StoreError> {
        let path = self.pack_path(pack);
        if file.len().context("measure", &path)? < PACK_HEADER_BYTES {
            return Ok(true);
        }
        match self.check_header(pack, file) {
            Ok(()) => Ok(true),
            Err(StoreError::DamagedFile { .. } | StoreError::TooNew { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Returns whether another repository has written a pack, so that both use its file.
    pub fn is_shared(&self, pack: PackId) -> bool {
        let Ok(file) = self.pack_file(pack) else {
            return false;
        };
        let is_usable = self.check_header(pack, &*file).is_ok();
        is_usable && self.check_own_header(pack, &*file).is_err()
    }

    /// Removes the files of new packs that nothing lists.
    pub(crate) fn discard(&self, job: FinishedJob) {
        for segment in &job.segments {
            let _ = self.vfs().remove(&self.pack_path(segment.pack));
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

    /// Reads, decodes and hashes a frame. Returns it with the bytes of its bases in a row.
    pub(super) fn checked_at(
        &self,
        pack: PackId,
        offset: u64,
    ) -> Result<(CheckedRecord, Vec<u8>), StoreError> {
        let table = self.frame_table(pack, offset)?;
        let record = self.record((pack, offset), &table.header)?;
        let prefix = self.base_bytes(&table, pack, offset)?;
        let record = CheckedRecord::with_prefix(record, &prefix);
        let record = record.map_err(|why| StoreError::DamagedFile {
            path: self.pack_path(pack),
            offset,
            why,
        })?;
        Ok((record, prefix))
    }

    /// Returns the bases of the frames in `pack` that have an object for which `stays` holds. The
    /// segments of the pack are `segments`. What a damaged table or frame hides is left out: the
    /// objects of such a frame are moved without their bases.
    pub(crate) fn bases_of_staying(
        &self,
        pack: PackId,
        segments: &[SegmentRow],
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
    ) -> Result<BTreeSet<ObjectId>, StoreError> {
        let mut bases = BTreeSet::new();
        for segment in segments.iter().filter(|_| pack.may_have_bases()) {
            let mut frames = BTreeSet::new();
            let walked = self.each_of_segment(segment, &mut |id, place| {
                if stays(id)? {
                    frames.insert(place.offset);
                }
                Ok(())
            });
            match walked {
                Ok(()) | Err(StoreError::DamagedFile { .. }) => {}
                Err(e) => return Err(e),
            }
            for offset in frames {
                if let Ok(table) = self.frame_table(pack, offset) {
                    bases.extend(&table.base);
                }
            }
        }
        Ok(bases)
    }
}

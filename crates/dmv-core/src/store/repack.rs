//! Storing everything that some packs list once more, in new packs with fewer and fuller frames.
//!
//! Every frame is decoded and every object hashed on the way. Whatever was listed is afterwards listed
//! at a place outside the old packs: [`Store::check_repacked`] proves it before these go out of use. What other
//! packs have intact is not stored again. [`content`] does this for chunks, and [`metadata`] for everything
//! else. Nothing here knows which objects are needed.

mod content;
mod metadata;
mod similarity;
mod window;

use super::catalogue::SegmentRow;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::layout::PackKind;
use super::pack_store::Store;
use super::random_id::PackId;
use super::table::join::WantedObject;
use crate::hash::ObjectId;
use crate::object::ObjectType;
use std::collections::HashSet;

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
        match kind {
            PackKind::Data => self.repack_content(groups, moved),
            _ => self.repack_metadata(kind, groups, moved),
        }
    }

    /// Fails with the pack at fault unless `job` or tables in use name a place outside the packs of
    /// `segments`, without known damage, for everything that `segments` list.
    pub(crate) fn check_repacked(
        &self,
        segments: &[SegmentRow],
        job: &FinishedJob,
    ) -> Result<(), RepackRefusal> {
        let leaving: HashSet<PackId> = segments.iter().map(|row| row.pack).collect();
        let mut ids: Vec<WantedObject> = Vec::new();
        for (n, row) in segments.iter().enumerate() {
            let stays = |e| RepackRefusal::Stays(row.pack, e);
            let table = self.files().table_of(row).map_err(stays)?;
            let walked = table.walk(&mut |entry, _| {
                let (id, ty) = (entry.id, entry.place.ty);
                ids.push(WantedObject { id, ty });
                Ok(())
            });
            walked.map_err(stays)?;
            let is_last = segments.get(n + 1).is_none_or(|next| next.pack != row.pack);
            if is_last || ids.len() >= CHECKED_IDS {
                ids.sort_unstable();
                ids.dedup_by_key(|wanted| wanted.id);
                self.check_copied(&ids, row.pack, &leaving, job)
                    .map_err(stays)?;
                ids.clear();
            }
        }
        Ok(())
    }

    /// Returns what a segment's own table lists, by place.
    fn listed(&self, row: &SegmentRow) -> Result<Vec<ListedObject>, StoreError> {
        let mut listed = Vec::with_capacity(row.entries as usize);
        self.files().each_of_segment(row, &mut |id, place| {
            listed.push(ListedObject {
                offset: place.offset,
                ordinal: place.ordinal,
                ty: place.ty,
                id: *id,
            });
            Ok(())
        })?;
        listed.sort_unstable();
        Ok(listed)
    }

    /// Reads a frame and checks that it has what is listed in it. Returns it with the bytes of its bases in a
    /// row.
    fn checked_frame(
        &self,
        kind: PackKind,
        pack: PackId,
        listed: &[ListedObject],
    ) -> Result<(CheckedRecord, Vec<u8>), StoreError> {
        let offset = listed[0].offset;
        let (record, prefix) = self.checked_at(pack, offset)?;
        let is_there = |listed: &ListedObject| listed.bytes_in(&record).is_some();
        if listed.iter().all(is_there) && record.kind() == kind {
            Ok((record, prefix))
        } else {
            // In a frame without a check of its own, damage shows as another id.
            let why = "an object's bytes are wrong";
            Err(self.files().damaged(pack, offset, why))
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

impl ListedObject {
    /// Returns its bytes in the record of its frame; `None` if the record has another object in its place.
    fn bytes_in<'r>(&self, record: &'r CheckedRecord) -> Option<&'r [u8]> {
        record.object(self.ordinal, self.ty, &self.id)
    }
}

/// Returns what is listed in each frame. `listed` is sorted by place.
fn by_frame(listed: &[ListedObject]) -> impl Iterator<Item = &[ListedObject]> {
    listed.chunk_by(|a, b| a.offset == b.offset)
}

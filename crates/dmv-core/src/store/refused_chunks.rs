//! Chunks that must not be stored: what was purged does not come back.
//!
//! A writer passes over such chunks, as if they were stored already. A caller that has to say so asks
//! [`StoreWriter::refuses`]. This module also finds the packs whose files may still have such bytes,
//! also where no table names them.

use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::frame::FrameTable;
use super::layout::{PACK_HEADER_BYTES, PackKind};
use super::scan::{ScannedPart, entries_of, scan};
use super::write::StoreWriter;
use super::{PackRow, SegmentRow, Store, read, write};
use crate::hash::ObjectId;
use crate::path::PathContext;
use crate::vfs::VfsFile;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

impl Store {
    /// Replaces the chunks that must not be stored. Jobs that have begun are not affected.
    pub(crate) fn refuse(&self, chunks: BTreeSet<ObjectId>) {
        *write(&self.refused) = Arc::new(chunks);
    }

    /// Returns the chunks that must not be stored.
    pub fn refused(&self) -> Arc<BTreeSet<ObjectId>> {
        read(&self.refused).clone()
    }

    /// Returns whether the file of a pack may have bytes of one of `chunks`: in a frame that a table
    /// names, in one that none names, or in bytes of unknown content. The segments of the pack are
    /// `segments`.
    ///
    /// `goes_on` says whether to continue.
    pub(crate) fn may_have_bytes_of(
        &self,
        row: &PackRow,
        segments: &[SegmentRow],
        chunks: &BTreeSet<ObjectId>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        if row.kind != PackKind::Data || chunks.is_empty() {
            return Ok(false);
        }
        let path = self.pack_path(row.id);
        let file = self.pack_file(row.id)?;
        // The torn tail of a job that was killed.
        if file.len().context("measure", &path)? > row.len {
            return Ok(true);
        }
        let (mut named, mut found) = (HashMap::new(), false);
        for segment in segments {
            self.each_of_segment(segment, &mut |id, place| {
                if !goes_on() {
                    return Err(StoreError::Cancelled);
                }
                found |= chunks.contains(id);
                *named.entry(place.offset).or_insert(0) += 1;
                Ok(())
            })?;
            if found {
                return Ok(true);
            }
        }
        let has = |table: &FrameTable, at| self.frame_may_have(&*file, &path, at, table, chunks);
        scan(
            &*file,
            &path,
            PACK_HEADER_BYTES,
            row.len,
            &mut |at, part| {
                if !goes_on() {
                    return Err(StoreError::Cancelled);
                }
                found |= match part {
                    // Objects that other places have as well are in no table.
                    ScannedPart::Frame(table) if named.get(&at) == Some(&table.objects.len()) => {
                        false
                    }
                    ScannedPart::Frame(table) => has(&table, at)?,
                    ScannedPart::Garbage(_) => true,
                    ScannedPart::Index(_) | ScannedPart::Trailer(_) | ScannedPart::Operation(_) => {
                        false
                    }
                };
                Ok(())
            },
        )?;
        Ok(found)
    }

    fn frame_may_have(
        &self,
        file: &dyn VfsFile,
        path: &Path,
        at: u64,
        table: &FrameTable,
        chunks: &BTreeSet<ObjectId>,
    ) -> Result<bool, StoreError> {
        // A frame with bases that no table names cannot be decoded here.
        let entries = entries_of(file, path, at, table, &|_| None)?;
        Ok(entries.is_empty() || entries.iter().any(|entry| chunks.contains(&entry.id)))
    }
}

impl StoreWriter<'_> {
    /// Returns whether a chunk must not be stored.
    pub fn refuses(&self, id: &ObjectId) -> bool {
        self.refused.contains(id)
    }

    /// Returns the chunks that must not be stored.
    pub fn refused(&self) -> Arc<BTreeSet<ObjectId>> {
        self.refused.clone()
    }
}

impl FinishedJob {
    /// Returns whether the job has stored one of the chunks that `store` refuses by now.
    pub(crate) fn has_refused(&self, store: &Store) -> Result<bool, StoreError> {
        let refused = store.refused();
        if Arc::ptr_eq(&refused, &self.refused) {
            return Ok(false);
        }
        for table in &self.tables {
            for id in refused.iter() {
                if table.lookup(id, &store.budget)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

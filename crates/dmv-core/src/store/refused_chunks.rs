//! Chunks that must not be stored: what was purged does not come back.
//!
//! A writer ignores such chunks, as if they were stored already; [`StoreWriter::refuses`](super::write::StoreWriter::refuses) tells its caller.
//! This module finds the packs whose files may still have such bytes,
//! also where no table names them.

use super::catalogue::{PackRow, SegmentRow};
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::frame::FrameTable;
use super::layout::{PACK_HEADER_BYTES, PackKind};
use super::pack_store::Store;
use super::scan::{ScannedPart, entries_of, scan};
use crate::hash::ObjectId;
use crate::path::PathContext;
use crate::vfs::VfsFile;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

impl Store {
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
        let file = self.files().pack(row.id)?;
        // The torn tail of a job that was killed.
        if file.len().context("measure", &path)? > row.len {
            return Ok(true);
        }
        let (mut named, mut found) = (HashMap::new(), false);
        for segment in segments {
            self.files().each_of_segment(segment, &mut |id, place| {
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

impl FinishedJob {
    /// Returns whether the job has stored one of the chunks that `store` refuses by now.
    pub(crate) fn has_refused(&self, store: &Store) -> Result<bool, StoreError> {
        let refused = store.refused();
        if Arc::ptr_eq(&refused, &self.refused) {
            return Ok(false);
        }
        for id in refused.iter() {
            if store.place_in(self, id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

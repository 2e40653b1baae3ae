//! Packs that a job continues: existing ones with room, and those that a killed job has begun.

use super::{LaneState, StoreWriter};
use crate::limits::PACK_FULL_BYTES;
use crate::path::{PathContext, PathError};
use crate::store::catalogue::PackRow;
use crate::store::error::StoreError;
use crate::store::index_entry::MAX_GAPS;
use crate::store::layout::{PACK_HEADER_BYTES, PackKind};
use crate::store::open_pack::{LockedPack, OpenPack, SEGMENT_ENTRIES};
use crate::store::random_id::PackId;
use crate::store::scan::{ScannedPart, after_cut_records, checked_payload, entries_of, scan};
use crate::vfs::OpenMode;
use std::io::ErrorKind;
use std::path::Path;

impl StoreWriter<'_> {
    /// Returns an unlisted pack of this kind whose job ended before it could publish. Without this,
    /// each of many killed first commits would leave a pack of its own.
    fn adopt_pack(
        &self,
        kind: PackKind,
        state: &LaneState,
    ) -> Result<Option<OpenPack>, StoreError> {
        let dir = self.store.packs_dir();
        let listed = self.store.current();
        for name in self.store.files().vfs.list(dir).context("list", dir)? {
            let id = name.strip_suffix(".pack").and_then(PackId::from_hex);
            let Some(id) = id.filter(|id| *id != self.store.owners().own().log_pack()) else {
                continue;
            };
            let path = self.store.pack_path(id);
            if listed.packs.iter().any(|row| row.id == id)
                || state.touched.iter().any(|touched| touched.path == path)
            {
                continue;
            }
            let Ok(file) = self.store.files().vfs.open(&path, OpenMode::Append) else {
                continue;
            };
            // A process that publishes or removes the pack holds its lock until then, so the answer
            // stays true. Names are never used again.
            if !file.try_lock().context("lock", &path)?
                || self.store.freshness.source.pack(id)?.is_some()
                || self.store.freshness.source.is_leaving(id)?
                || !self.is_there(&path).unwrap_or(false)
            {
                continue;
            }
            if file.has_other_names().context("inspect", &path)? {
                continue;
            }
            // Its job ended before it had written the header.
            if file.len().context("measure", &path)? < PACK_HEADER_BYTES {
                return self.begin_pack(kind, id, path, file).map(Some);
            }
            let header = self.store.files().check_own_header(id, &*file);
            if !header.is_ok_and(|header| header.kind == kind) {
                continue;
            }
            let row = PackRow {
                id,
                kind,
                len: PACK_HEADER_BYTES,
                poisoned: false,
            };
            let mut pack = LockedPack::listed(id, path, file);
            pack.is_unlisted = true;
            return self.resume_at(row, pack).map(Some);
        }
        Ok(None)
    }

    /// Returns whether a file that this process has opened still has its name. Names of packs are never
    /// used again.
    pub(super) fn is_there(&self, path: &Path) -> Result<bool, StoreError> {
        match self.store.files().vfs.open(path, OpenMode::Read) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(PathError::new("open", path, e).into()),
        }
    }

    /// Returns a pack of this kind that has room and that no other job is writing to.
    pub(super) fn resume_pack(
        &self,
        kind: PackKind,
        state: &LaneState,
    ) -> Result<Option<OpenPack>, StoreError> {
        for id in self.store.current().unfilled_packs(kind) {
            let path = self.store.pack_path(id);
            if self.leaving.contains(&id)
                || state.touched.iter().any(|touched| touched.path == path)
            {
                continue;
            }
            let Ok(file) = self.store.files().vfs.open(&path, OpenMode::Append) else {
                continue;
            };
            if !file.try_lock().context("lock", &path)? {
                continue;
            }
            // Another repository may use a file with other names, whatever its header says: its own
            // records would go to the same place. Recovery may have put another file in its place.
            if file.has_other_names().context("inspect", &path)?
                || !file.is_at(&path).context("find", &path)?
            {
                continue;
            }
            // Its committed length is certain only now: the previous holder of the lock has
            // published.
            let Some(row) = self.store.freshness.source.pack(id)? else {
                continue;
            };
            if row.poisoned || row.len > PACK_FULL_BYTES {
                continue;
            }
            // A shortened pack is damage, which `verify` reports. Nothing is appended to it.
            if file.len().context("measure", &path)? < row.len {
                continue;
            }
            if self.store.files().check_own_header(id, &*file).is_err() {
                continue;
            }
            let pack = LockedPack::listed(id, path, file);
            return self.resume_at(row, pack).map(Some);
        }
        self.adopt_pack(kind, state)
    }

    /// Continues a pack after its committed segments.
    ///
    /// Intact frames of a torn tail, left by an interrupted job, join the new segment. So the same
    /// job need not write them again.
    fn resume_at(&self, row: PackRow, pack: LockedPack) -> Result<OpenPack, StoreError> {
        let (file, path) = (&*pack.file, &pack.path);
        let len = file.len().context("measure", path)?;
        let (mut entries, mut gaps) = (Vec::new(), Vec::new());
        scan(file, path, row.len, len, &mut |at, found| {
            match found {
                ScannedPart::Frame(table) => {
                    let intact = entries_of(file, path, at, &table, &|_| None)?;
                    if intact.is_empty() {
                        gaps.push((at, at + table.header.record_len()));
                    }
                    for entry in intact {
                        if entries.len() < SEGMENT_ENTRIES / 2 && self.claim(&entry.id)? {
                            entries.push(entry);
                        }
                    }
                }
                ScannedPart::Index(header) => {
                    if checked_payload(file, path, at, &header)?.is_none() {
                        gaps.push((at, at + header.record_len()));
                    }
                }
                ScannedPart::Garbage(to) => gaps.push((at, to)),
                ScannedPart::Trailer(_) | ScannedPart::Operation(_) => {}
            }
            Ok(())
        })?;
        let end = after_cut_records(file, path, len, &mut gaps)?;
        gaps.truncate(MAX_GAPS);
        let previous_end = if row.len > PACK_HEADER_BYTES {
            row.len
        } else {
            0
        };
        let mut pack = OpenPack::resume(pack, end, row.len, previous_end);
        pack.entries = entries;
        pack.gaps = gaps;
        Ok(pack)
    }
}

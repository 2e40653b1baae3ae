//! The files of a store: where they lie, the open packs, and whether a pack may be used.
//!
//! A file in `open` had a header of an owner of this store when it was opened, or a damaged one. A damaged
//! header does not affect the objects after it, and each object is checked. This module knows headers and
//! own tables of segments, but not which packs the catalogue lists.

use super::catalogue::{PackRow, SegmentRow};
use super::error::{StoreError, is_refusal};
use super::index_entry::Place;
use super::layout::{LayoutError, PACK_HEADER_BYTES, PackHeader, TRAILER_BYTES, Trailer};
use super::owners::Owners;
use super::random_id::{IndexId, PackId, RepositoryId};
use super::shared::{read, write};
use super::table::{Table, read_exactly};
use crate::hash::ObjectId;
use crate::path::{PathContext, PathError};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// The files of a store.
pub struct StoreFiles {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(super) owners: Owners,
    pub(super) packs_dir: PathBuf,
    pub(crate) index_dir: PathBuf,
    /// Locked for single steps only.
    open: RwLock<HashMap<PackId, Arc<dyn VfsFile>>>,
}

impl StoreFiles {
    /// Returns the files under `dmv_dir/packs` and `dmv_dir/index`.
    pub(super) fn new(vfs: Arc<dyn Vfs>, dmv_dir: &Path, owners: Owners) -> StoreFiles {
        StoreFiles {
            vfs,
            owners,
            packs_dir: dmv_dir.join("packs"),
            index_dir: dmv_dir.join("index"),
            open: RwLock::default(),
        }
    }

    /// Returns the path of a pack's file.
    pub fn pack_path(&self, id: PackId) -> PathBuf {
        self.packs_dir.join(format!("{id}.pack"))
    }

    /// Returns the path of a merged index file.
    pub fn index_path(&self, id: IndexId) -> PathBuf {
        self.index_dir.join(format!("{id}.idx"))
    }

    /// Returns the error for damage in a pack, at an offset in bytes.
    pub(super) fn damaged(&self, pack: PackId, offset: u64, why: &'static str) -> StoreError {
        StoreError::damaged(&self.pack_path(pack), offset, why)
    }

    /// Returns the open file of a pack.
    pub(super) fn pack(&self, id: PackId) -> Result<Arc<dyn VfsFile>, StoreError> {
        if let Some(file) = read(&self.open).get(&id) {
            return Ok(file.clone());
        }
        let path = self.pack_path(id);
        let file = self.vfs.open(&path, OpenMode::Read);
        let file = file.context("open", &path)?;
        match self.check_header(id, &*file) {
            Ok(_) | Err(StoreError::DamagedFile { .. }) => {}
            Err(e) => return Err(e),
        }
        write(&self.open).insert(id, file.clone());
        Ok(file)
    }

    /// Closes the files of some packs, so that their space is free once they are removed.
    pub(super) fn close(&self, packs: &HashSet<PackId>) {
        write(&self.open).retain(|id, _| !packs.contains(id));
    }

    /// Fills `buf` with the bytes at offset `at` of a pack.
    pub(super) fn read(&self, pack: PackId, buf: &mut [u8], at: u64) -> Result<(), StoreError> {
        let read = self.pack(pack)?.read_at(buf, at);
        if read.context("read", &self.pack_path(pack))? < buf.len() {
            return Err(self.damaged(pack, at, "file ends too soon"));
        }
        Ok(())
    }

    /// Checks a pack's header and returns it. Fails with [`StoreError::DamagedFile`] if it is not the one
    /// that was written.
    pub(super) fn check_header(
        &self,
        id: PackId,
        file: &dyn VfsFile,
    ) -> Result<PackHeader, StoreError> {
        self.check_owner(id, file, &|repo| self.owners.has(repo))
    }

    /// Checks the header of a pack that this repository is about to write to: it must be its own.
    pub(super) fn check_own_header(
        &self,
        id: PackId,
        file: &dyn VfsFile,
    ) -> Result<PackHeader, StoreError> {
        self.check_owner(id, file, &|repo| repo == self.owners.own())
    }

    fn check_owner(
        &self,
        id: PackId,
        file: &dyn VfsFile,
        is_fit: &dyn Fn(RepositoryId) -> bool,
    ) -> Result<PackHeader, StoreError> {
        let path = self.pack_path(id);
        let head = read_exactly(file, &path, 0, PACK_HEADER_BYTES as usize)?;
        let why = match PackHeader::decode(&head) {
            Ok(header) if header.id == id && is_fit(header.repo) => return Ok(header),
            Ok(_) => "pack belongs to another name or repository",
            Err(LayoutError::Bad(why)) => why,
            Err(LayoutError::TooNew(version)) => {
                return Err(StoreError::TooNew { path, version });
            }
        };
        Err(StoreError::damaged(&path, 0, why))
    }

    /// Returns whether an unlisted pack was begun by a job of this repository. A file that ends within
    /// its header was.
    pub(crate) fn is_begun_here(
        &self,
        pack: PackId,
        file: &dyn VfsFile,
    ) -> Result<bool, StoreError> {
        let len = file.len().context("measure", &self.pack_path(pack))?;
        if len < PACK_HEADER_BYTES {
            return Ok(true);
        }
        match self.check_header(pack, file) {
            Ok(_) => Ok(true),
            Err(StoreError::DamagedFile { .. } | StoreError::TooNew { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Returns whether another repository has written a pack, so that both use its file.
    pub(crate) fn is_shared(&self, pack: PackId) -> bool {
        let Ok(file) = self.pack(pack) else {
            return false;
        };
        let is_usable = self.check_header(pack, &*file).is_ok();
        is_usable && self.check_own_header(pack, &*file).is_err()
    }

    /// Returns the packs among `rows` whose files are gone. If the directory cannot be listed, none counts as
    /// gone: reading a pack then meets the reason.
    pub(super) fn missing(&self, rows: &[PackRow]) -> Vec<PackRow> {
        let Ok(names) = self.vfs.list(&self.packs_dir) else {
            return Vec::new();
        };
        let ids = names.iter().filter_map(|name| name.strip_suffix(".pack"));
        let there: HashSet<PackId> = ids.filter_map(PackId::from_hex).collect();
        let is_gone = |row: &&PackRow| !there.contains(&row.id);
        rows.iter().filter(is_gone).copied().collect()
    }

    /// Returns whether the file of a pack has its committed length. A file that is gone has not.
    pub(super) fn is_full_length(&self, row: &PackRow) -> Result<bool, StoreError> {
        // By its name: an open file keeps its length even after it was removed.
        let path = self.pack_path(row.id);
        match self.vfs.open(&path, OpenMode::Read) {
            Ok(file) => Ok(file.len().context("measure", &path)? >= row.len),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(PathError::new("open", &path, e).into()),
        }
    }

    /// Fails if a pack exists and this process may not read it. That is not damage.
    pub(crate) fn check_readable(&self, rows: &[PackRow]) -> Result<(), StoreError> {
        for row in rows {
            let path = self.pack_path(row.id);
            match self.vfs.open(&path, OpenMode::Read) {
                Err(e) if is_refusal(&e) => return Err(PathError::new("open", &path, e).into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the table of a merged index file, as [`Table::open_merged`].
    pub(super) fn merged_table(
        &self,
        id: IndexId,
        live: Option<u32>,
        in_use: &dyn Fn(&PackId) -> bool,
    ) -> Result<Table, StoreError> {
        let path = self.index_path(id);
        let file = self.vfs.open(&path, OpenMode::Read);
        Table::open_merged(&path, file.context("open", &path)?, live, in_use)
    }

    /// Opens the own table of a segment.
    pub(super) fn table_of(&self, segment: &SegmentRow) -> Result<Table, StoreError> {
        let file = self.pack(segment.pack)?;
        let path = self.pack_path(segment.pack);
        Table::open_segment(&path, file, segment.pack, segment.end)
    }

    /// Opens the own table of a segment, and checks every byte of it. With a damaged table the segment would
    /// seem empty.
    pub(crate) fn checked_table_of(&self, segment: &SegmentRow) -> Result<Table, StoreError> {
        let table = self.table_of(segment)?;
        table.verify()?;
        Ok(table)
    }

    /// Visits all entries of a segment's own table, in use or not, after a check of the table.
    pub fn each_of_segment(
        &self,
        segment: &SegmentRow,
        visit: &mut dyn FnMut(&ObjectId, Place) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.checked_table_of(segment)?;
        table.walk(&mut |entry, _| visit(&entry.id, entry.place))
    }

    /// Returns whether the pack has exactly this segment.
    pub(crate) fn has_segment(&self, segment: &SegmentRow) -> bool {
        let trailer = |at: u64| {
            let mut bytes = [0; TRAILER_BYTES];
            self.read(segment.pack, &mut bytes, at).ok()?;
            Trailer::decode(&bytes)
        };
        let at = segment.end.checked_sub(TRAILER_BYTES as u64);
        let is_there = at
            .and_then(trailer)
            .is_some_and(|trailer| trailer.start == segment.start);
        let table = self.table_of(segment);
        is_there && table.is_ok_and(|table| table.entries() == segment.entries)
    }
}

//! Merging small tables into index files, and removing index files that nothing registers.
//!
//! Tables are sorted into tiers; the tables of a tier are [`MERGE_TABLES`] times as large as those of the
//! tier below. A full tier becomes one table of the next. So each entry is copied once per tier over the
//! repository's life, a small job never rewrites a large table, and the number of tables stays
//! logarithmic. The caller registers what this module writes.

use super::catalogue::{Catalogue, IndexRow, SegmentRow};
use super::error::StoreError;
use super::index::packs_of;
use super::pack_store::Store;
use super::random_id::{IndexId, PackId};
use super::table::{Table, write_merged};
use crate::path::PathContext;
use crate::vfs::{OpenMode, VfsFile};
use std::collections::HashSet;
use std::sync::Arc;

/// Number of tables of about one size at which they are merged, and the ratio between sizes.
pub const MERGE_TABLES: usize = 8;

/// A merged index file that is not registered yet.
pub struct UnregisteredIndex {
    /// Its id.
    pub id: IndexId,
    /// Number of objects in it.
    pub entries: u32,
    /// Segments whose tables it replaces.
    pub segments: Vec<SegmentRow>,
    /// Merged index files that it replaces.
    pub indexes: Vec<IndexId>,
    /// The packs of its entries.
    pub packs: Vec<PackId>,
    /// Tells other processes that this one is about to register the file.
    _lock: Arc<dyn VfsFile>,
}

impl Store {
    /// Merges tables of about the same size when enough of them have piled up.
    ///
    /// Returns the new index file and what it replaces. While the file of a pack is gone, nothing is
    /// merged: the merged index would hide its objects if the file came back.
    pub(crate) fn merge_tables(
        &self,
        catalogue: &Catalogue,
    ) -> Result<Option<UnregisteredIndex>, StoreError> {
        let files = self.files();
        if !files.missing(&catalogue.packs).is_empty() {
            return Ok(None);
        }
        let tier = |entries: u32| entries.max(1).ilog(MERGE_TABLES as u32);
        let sizes = catalogue.segments.iter().map(|s| s.entries);
        let sizes = sizes.chain(catalogue.indexes.iter().map(|i| i.entries));
        let mut counts = [0usize; 12];
        sizes.for_each(|entries| counts[tier(entries) as usize] += 1);
        let Some(full) = counts.iter().position(|n| *n >= MERGE_TABLES) else {
            return Ok(None);
        };
        // Smaller tables are included: this is cheap, and each is one table less.
        let joins = |entries: u32| tier(entries) as usize <= full;
        let mut segments = catalogue.segments.clone();
        segments.retain(|segment| joins(segment.entries));
        let indexes = catalogue.indexes.iter().filter(|i| joins(i.entries));
        let indexes: Vec<IndexId> = indexes.map(|i| i.id).collect();
        let (mut tables, listed) = (Vec::new(), packs_of(&catalogue.packs));
        for segment in &segments {
            tables.push(files.table_of(segment)?);
        }
        for id in &indexes {
            let in_use = |id: &PackId| listed.contains(id);
            tables.push(files.merged_table(*id, None, &in_use)?);
        }
        // The merged file gets a valid check of its own, so damage in its sources must not enter
        // it.
        for table in &tables {
            table.verify()?;
        }
        let id = IndexId::random();
        let made = files.vfs.create_dir_all(&files.index_dir);
        made.context("create", &files.index_dir)?;
        let refs: Vec<&Table> = tables.iter().collect();
        // Its name need not be durable: if the merged file is missing, DMV works without it.
        let bad = self.damage.in_file(&*files.vfs);
        let (entries, file) = write_merged(&*files.vfs, &files.index_path(id), &refs, &bad)?;
        let packs: HashSet<PackId> = tables.iter().flat_map(Table::packs_in_use).collect();
        Ok(Some(UnregisteredIndex {
            packs: packs.into_iter().collect(),
            id,
            entries,
            segments,
            indexes,
            _lock: file,
        }))
    }

    /// Removes index files that are no longer registered.
    pub(crate) fn remove_indexes(&self, ids: &[IndexId]) {
        for id in ids {
            // They are derived files: one that is left over only wastes a little space.
            let _ = self.files().vfs.remove(&self.files().index_path(*id));
        }
    }

    /// Removes index files that were never registered, because the process that made them was
    /// killed.
    ///
    /// `registered` returns the registered ones. It is called once the files are locked, so that no
    /// other process can register one of them any more.
    pub(crate) fn remove_strays(&self, registered: impl FnOnce() -> Option<Vec<IndexRow>>) {
        let files = self.files();
        let names = files.vfs.list(&files.index_dir).unwrap_or_default();
        let ids = names.iter().filter_map(|name| name.strip_suffix(".idx"));
        let mut locked = Vec::new();
        for id in ids.filter_map(IndexId::from_hex) {
            // A file that another process has locked is about to be registered.
            let path = files.index_path(id);
            let file = files.vfs.open(&path, OpenMode::Append).ok();
            if let Some(file) = file.filter(|file| file.try_lock().unwrap_or(false)) {
                locked.push((id, file));
            }
        }
        let Some(registered) = registered() else {
            return;
        };
        for (id, _lock) in locked {
            if registered.iter().all(|row| row.id != id) {
                self.remove_indexes(&[id]);
            }
        }
    }
}

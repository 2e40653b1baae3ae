//! The object store: its parts, opening and refreshing it, and where its objects lie.
//!
//! Each part has its own locks, and says in its module what they protect:
//! - `reader`: files and caches ([`PackReader`], [`StoreFiles`]);
//! - `index`: the catalogue with its tables ([`Index`]);
//! - `damage`: the places that must not be relied on ([`KnownDamage`]);
//! - `freshness`: the source of newer catalogues;
//! - `arrivals`, `following`: objects of a transfer of this process, on the side that writes and on the side
//!   that reads.
//!
//! **Order of locks.** `Freshness::refreshing` comes before all others: a thread holds it while it loads a
//! catalogue. A [`StoreWriter`](super::write::StoreWriter) locks `in_flight` of a lane, then the lane's state,
//! then a shard of claimed ids or its chunks without bases, then the filter of the index. No thread takes one of
//! these while it holds a later one. All other locks of the store are held for single steps, and no thread that
//! holds one takes another lock.

use super::arrivals::{Arrivals, FollowedStore, OpenArrivals};
use super::bad_places::{BadPlaces, KnownDamage};
use super::block_sharing::{BlockSharing, SharingRules};
use super::catalogue::{Catalogue, CatalogueSource, PackRow};
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::index::{Index, OpenCatalogue, packs_of};
use super::index_entry::Place;
use super::owners::Owners;
use super::pack_reader::PackReader;
use super::random_id::PackId;
use super::shared::{SharedValue, lock};
use super::store_files::StoreFiles;
use super::table::Table;
use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::vfs::{Vfs, VfsFile};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// How often in a row the store asks for the catalogue while another process keeps changing it.
const REFRESHES: usize = 3;

/// The packs and tables of one repository.
pub struct Store {
    pub(super) reader: PackReader,
    pub(super) index: Index,
    pub(super) damage: KnownDamage,
    pub(super) freshness: Freshness,
    /// The objects that this store's own jobs are writing.
    pub(super) arrivals: Arc<Arrivals>,
    /// The objects that the jobs of another store of the same repository are writing.
    pub(super) following: Option<FollowedStore>,
    pub(super) sharing: BlockSharing,
    /// Chunks that must not be stored.
    refused: SharedValue<BTreeSet<ObjectId>>,
    /// How many objects other than chunks were requested.
    pub(super) metadata_requests: AtomicU64,
}

/// How a store learns what other processes have changed.
pub(super) struct Freshness {
    pub source: Arc<dyn CatalogueSource>,
    /// Held while a newer catalogue is loaded. Otherwise a thread could treat an object as absent
    /// that another thread is about to find.
    refreshing: Mutex<()>,
    /// Set once all tables have been checked, because an object was not found.
    pub tables_checked: OnceLock<()>,
}

impl Store {
    /// Returns a store over `dmv_dir/packs` and `dmv_dir/index`, with the packs and tables that
    /// `catalogue` lists. `source` tells it later what other processes have changed there.
    ///
    /// A damaged table is no error here. Its objects seem absent, and a request for an absent
    /// object then reports the damage.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dmv_dir: &Path,
        owners: Owners,
        catalogue: Catalogue,
        source: Arc<dyn CatalogueSource>,
    ) -> Result<Store, StoreError> {
        let damage = KnownDamage::load(&*vfs, dmv_dir);
        let files = StoreFiles::new(vfs, dmv_dir, owners);
        let store = Store {
            damage,
            sharing: BlockSharing::new(&files.packs_dir),
            reader: PackReader::new(files),
            index: Index::default(),
            freshness: Freshness {
                source,
                refreshing: Mutex::default(),
                tables_checked: OnceLock::new(),
            },
            arrivals: Arc::default(),
            following: None,
            refused: SharedValue::default(),
            metadata_requests: AtomicU64::new(0),
        };
        store.load(catalogue)?;
        Ok(store)
    }

    /// Replaces the catalogue with a newer one.
    pub(crate) fn load(&self, catalogue: Catalogue) -> Result<(), StoreError> {
        let next = OpenCatalogue::open(self.files(), catalogue)?;
        let listed = packs_of(&next.packs);
        let mut gone = packs_of(&self.index.load(next).packs);
        gone.retain(|id| !listed.contains(id));
        self.reader.forget(&gone);
        Ok(())
    }

    /// Loads what other processes have stored. Returns whether there was anything.
    pub fn refresh(&self) -> Result<bool, StoreError> {
        let Freshness { source, .. } = &self.freshness;
        let _one = lock(&self.freshness.refreshing);
        let mut any = false;
        // An index may be merged away after the catalogue was read and before the index is opened.
        for _ in 0..REFRESHES {
            // If the catalogue cannot be read, the store goes on with what it knows. A job that
            // needs the database will say what is wrong with it.
            let Ok(Some(catalogue)) = source.newer_catalogue() else {
                break;
            };
            self.load(catalogue)?;
            any = true;
            if self.current().is_open() {
                break;
            }
        }
        // An index that stays unusable is replaced by the tables of its segments.
        let current = self.current();
        if any
            && !current.unusable.is_empty()
            && let Ok(catalogue) = source.catalogue_without(&current.unusable)
        {
            self.load(catalogue)?;
        }
        Ok(any)
    }

    /// Makes this store also read what the jobs of `other`, a store of the same repository, have
    /// written and not published.
    ///
    /// A read of an object that neither store has then waits, until the value returned is dropped.
    pub(crate) fn follow(&mut self, other: &Store) -> OpenArrivals {
        let (following, open) = other.arrivals.begin();
        self.following = Some(following);
        open
    }

    /// Returns whether more objects may come from the store that this one follows.
    pub(crate) fn is_being_filled(&self) -> bool {
        let following = self.following.as_ref();
        following.is_some_and(|following| following.expects_more())
    }

    /// Returns the files of the store.
    pub fn files(&self) -> &StoreFiles {
        &self.reader.files
    }

    /// Returns the catalogue as it was last loaded, with its open tables.
    pub fn current(&self) -> Arc<OpenCatalogue> {
        self.index.current()
    }

    /// Returns how many objects other than chunks were requested since the store was opened. Work
    /// on a part of a repository costs this many tree nodes, lists and commits.
    pub fn metadata_requests(&self) -> u64 {
        self.metadata_requests.load(Ordering::Relaxed)
    }

    /// Returns whose packs the repository uses.
    pub fn owners(&self) -> &Owners {
        &self.files().owners
    }

    /// Returns the directory of the pack files.
    pub fn packs_dir(&self) -> &Path {
        &self.files().packs_dir
    }

    /// Returns the path of a pack's file.
    pub fn pack_path(&self, id: PackId) -> PathBuf {
        self.files().pack_path(id)
    }

    /// Returns all packs of the catalogue.
    pub fn packs(&self) -> Vec<PackRow> {
        self.current().packs.clone()
    }

    /// Lets this process read what a job has stored, until `job` is dropped. No writer relies on
    /// it.
    pub(crate) fn preview(&self, job: &FinishedJob) {
        self.index.preview(job);
    }

    /// Takes the published objects of a job into use in this process.
    pub(crate) fn adopt(&self, job: &FinishedJob) {
        self.index.adopt(job);
        self.arrivals.published();
    }

    /// Returns the place of `id`. Also finds objects that another process has stored meanwhile, and
    /// waits for objects that may still come from the store that this one follows.
    pub(super) fn locate_or_wait(
        &self,
        id: &ObjectId,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        match &self.following {
            Some(following) => following.find_or_wait(|| self.locate_now(id)),
            None => self.locate_now(id),
        }
    }

    /// Returns the place of `id` in the catalogue as it was loaded, among the arrivals, or else in
    /// the newest catalogue.
    fn locate_now(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        let before = self.current().number;
        if let Some(found) = self.locate(id)? {
            return Ok(Some(found));
        }
        if let Some(following) = &self.following
            && let Some(found) = following.locate(id)?
        {
            return Ok(Some(found));
        }
        self.refresh()?;
        if self.current().number == before {
            return Ok(None);
        }
        self.locate(id)
    }

    /// Returns the place of `id` in the catalogue as it was loaded, or in an unpublished job.
    pub(super) fn locate(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        self.index.locate(id, &self.damage.places())
    }

    /// Returns a place of `id` without known damage, outside the packs `leaving`.
    pub(super) fn undamaged_place_of(
        &self,
        id: &ObjectId,
        leaving: &HashSet<PackId>,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        let bad = self.damage.places();
        self.index.undamaged_place_of(id, leaving, &bad)
    }

    /// Returns whether the store has `id`, even if another process stored it after this store was
    /// opened.
    pub fn has(&self, id: &ObjectId) -> Result<bool, StoreError> {
        Ok(self.locate_or_wait(id)?.is_some())
    }

    /// Returns the pack that contained `id` when the store was opened or last refreshed.
    pub fn pack_of(&self, id: &ObjectId) -> Result<Option<PackId>, StoreError> {
        Ok(self.locate(id)?.map(|(pack, _)| pack))
    }

    /// Returns whether a pack outside `packs` has `id` at a place without known damage.
    pub(crate) fn has_outside(
        &self,
        id: &ObjectId,
        packs: &HashSet<PackId>,
    ) -> Result<bool, StoreError> {
        Ok(self.undamaged_place_of(id, packs)?.is_some())
    }

    /// Returns whether the store has `id` at a place without known damage, in a pack of full
    /// length.
    pub fn has_undamaged(&self, id: &ObjectId) -> Result<bool, StoreError> {
        if self.locate_or_wait(id)?.is_none() {
            return Ok(false);
        }
        let Some((pack, _)) = self.undamaged_place_of(id, &HashSet::new())? else {
            return Ok(false);
        };
        match self.current().packs.iter().find(|row| row.id == pack) {
            Some(row) => self.files().is_full_length(row),
            None => Ok(false),
        }
    }

    /// Returns where a job has written `id` itself. An object that it found stored does not count.
    pub(crate) fn place_in(
        &self,
        job: &FinishedJob,
        id: &ObjectId,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        self.index.place_in(job, id)
    }

    /// Returns the place of `id` for a caller that is about to name it: in `job`, which is
    /// published together with the name, or else according to the catalogue.
    pub(crate) fn place_to_name(
        &self,
        id: &ObjectId,
        job: Option<&FinishedJob>,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        if let Some(job) = job
            && let Some(found) = self.place_in(job, id)?
        {
            return Ok(Some(found));
        }
        let bad = self.damage.places();
        match self.index.locate_listed(id, &bad)? {
            None if self.refresh()? => self.index.locate_listed(id, &bad),
            found => Ok(found),
        }
    }

    /// Calls `visit` with the id, type and pack of every object. An object that is stored twice is
    /// visited twice.
    pub fn for_each_object(
        &self,
        visit: &mut dyn FnMut(ObjectId, ObjectType, PackId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for table in &self.current().tables {
            table.walk(&mut |entry, pack| visit(entry.id, entry.place.ty, pack))?;
        }
        Ok(())
    }

    /// Returns whether no object is stored.
    pub fn is_empty(&self) -> bool {
        let current = self.current();
        current.tables.iter().all(|t| t.live_entries() == 0)
    }

    /// Returns the number of tables in use and of objects in them.
    pub fn table_stats(&self) -> (usize, u64) {
        let current = self.current();
        let objects = current.tables.iter().map(|t| u64::from(t.live_entries()));
        (current.tables.len(), objects.sum())
    }

    /// Returns the damaged places known so far.
    pub fn bad_places(&self) -> Arc<BadPlaces> {
        self.damage.places()
    }

    /// Replaces the damaged places by those that a check has found, also in the file.
    pub(crate) fn remember_bad(&self, found: BadPlaces) -> Result<(), StoreError> {
        self.damage.replace(&*self.files().vfs, found)
    }

    /// Says once how files share blocks with packs. By default they do where the file system can, and every byte
    /// is checked.
    pub fn share_blocks(&self, rules: SharingRules) {
        self.sharing.set(rules);
    }

    /// Shares blocks as another store of the same repository does.
    pub(crate) fn share_blocks_as(&self, other: &Store) {
        self.sharing.set(other.sharing.rules());
    }

    /// Returns how many catalogues this store has loaded: other packs may be in use if it is another number.
    pub(crate) fn catalogue_number(&self) -> u64 {
        self.current().number
    }

    /// Returns whether a file that has a place in a pack may share its blocks.
    pub(crate) fn may_share_blocks(&self) -> bool {
        self.sharing.is_on()
    }

    /// Returns whether only a sample of the blocks that files in `dir` share is to be checked: never once damage
    /// of this store is known.
    pub(crate) fn samples_blocks_in(&self, dir: &Path) -> bool {
        self.bad_places().is_empty() && self.sharing.samples_in(dir)
    }

    /// Returns whether the next stretch of a file whose blocks are shared is to be read, as a part of the sample.
    pub(crate) fn reads_next_sample(&self) -> bool {
        self.sharing.reads_next()
    }

    /// Fails with [`StoreError::NotShared`] if files in `dir` have to share blocks with packs and cannot.
    pub(crate) fn check_sharing_with(&self, dir: &Path) -> Result<(), StoreError> {
        self.sharing.check_with(dir)
    }

    /// Returns the open file of a pack.
    pub(crate) fn pack_file(&self, pack: PackId) -> Result<Arc<dyn VfsFile>, StoreError> {
        self.files().pack(pack)
    }

    /// Replaces the chunks that must not be stored. Jobs that have begun are not affected.
    pub(crate) fn refuse(&self, chunks: BTreeSet<ObjectId>) {
        self.refused.replace(|_| chunks);
    }

    /// Returns the chunks that must not be stored.
    pub fn refused(&self) -> Arc<BTreeSet<ObjectId>> {
        self.refused.get()
    }

    /// Returns the tables of the segments that merged indexes replace, as far as they open. A caller needs them
    /// because of damage, so there may be more of it.
    pub(super) fn hidden_tables(&self) -> Result<impl Iterator<Item = Table>, StoreError> {
        let segments = self.freshness.source.merged_segments()?;
        let tables = segments.into_iter();
        Ok(tables.filter_map(move |segment| self.files().table_of(&segment).ok()))
    }
}

#[cfg(test)]
mod tests;

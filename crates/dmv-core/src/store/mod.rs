//! The object store: packs of frames, found through sorted tables, verified on every read.
//!
//! The store knows packs, segments and objects. A [`Catalogue`] tells it which of them are in use;
//! `refs.db` stores the catalogue, and it can be rebuilt from the packs. The store knows nothing of
//! refs, paths in trees or commits. Invariant: bytes that do not hash to the requested id never
//! leave it. `refs`, `worktree`, `repo` and the sessions of `dmv-net` use it.

mod adopt;
mod arrivals;
mod bases;
mod bases_in_pack;
mod batch_lookup;
mod bit_set;
mod cache;
mod carry;
mod catalogue;
mod checked_record;
mod damage;
mod deltas;
mod error;
mod filter;
mod finished_job;
mod frame;
mod frame_collector;
mod frame_map;
mod frame_writer;
#[doc(hidden)]
pub mod fuzzing;
mod hidden_copies;
mod id_search;
mod incoming_objects;
mod layout;
mod log_pack;
mod marker;
mod object_marks;
mod overflow;
mod owners;
mod random_id;
mod read;
mod recover;
mod refused_chunks;
mod repack;
mod scan;
mod sealed_pack;
mod segment;
mod similarity;
mod table;
mod verify;
mod write;

pub(crate) use arrivals::OpenArrivals;
pub(crate) use catalogue::NoSource;
pub use catalogue::{Catalogue, CatalogueSource, IndexRow, PackRow, SegmentRow};
pub use checked_record::{CheckedObject, CheckedRecord, ReadBase, ReceivedRecord};
pub use damage::BadPlaces;
pub use error::StoreError;
pub use finished_job::FinishedJob;
pub use frame::{EncodedFrame, FRAME_TARGET_BYTES, FrameBuilder, FrameEncoder, FrameObject};
pub use frame_collector::{FrameCollector, GivenBases, OutgoingItem};
pub use frame_map::{FrameMap, PackUse};
pub use frame_writer::MetaWriter;
pub use incoming_objects::IncomingObjects;
pub use layout::{PACK_HEADER_BYTES, PackKind};
pub use log_pack::LogPack;
pub use marker::{Lack, MarkEnd, Marker};
pub use object_marks::{Mark, Marks};
pub(crate) use owners::MAX_SHARED_OWNERS;
pub use owners::Owners;
pub use random_id::{IndexId, PackId, RepositoryId, random_bytes};
pub(crate) use recover::{add_closed_segments, recover_store, repository_of};
pub(crate) use repack::{RepackRefusal, RepackResult};
pub use sealed_pack::{FrameAt, SealedHeader, SealedKind, SealedWriter, operation_at_end};
pub use segment::SegmentTail;
pub use table::{Entry, Place};
pub(crate) use verify::verify_pack;
pub use verify::{Damage, PackReport};
pub use write::StoreWriter;

use crate::hash::ObjectId;
use crate::memory::Budget;
pub(crate) use crate::memory::MAX_LOOK_UPS;
use crate::object::ObjectType;
use crate::path::{PathContext, PathError};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use arrivals::{Arrivals, FollowedStore};
use filter::Filter;
use read::FrameCache;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use table::Table;

/// Name of the file that lists damaged places.
pub(crate) const DAMAGED_FILE: &str = "damaged";

/// Number of tables of about one size at which they are merged, and the ratio between sizes.
pub const MERGE_TABLES: usize = 8;

/// How often in a row the store asks for the catalogue while another process keeps changing it.
const REFRESHES: usize = 3;

/// The packs and tables of one repository.
pub struct Store {
    vfs: Arc<dyn Vfs>,
    owners: Owners,
    packs_dir: PathBuf,
    index_dir: PathBuf,
    rows: RwLock<Vec<PackRow>>,
    files: RwLock<HashMap<PackId, Arc<dyn VfsFile>>>,
    tables: RwLock<Vec<Arc<Table>>>,
    /// Tables of jobs that are not published yet. Only reads use them.
    previews: RwLock<Vec<Weak<Table>>>,
    /// The budget for tables in memory.
    budget: Budget,
    /// Rules out tables when an id is looked for that is in none.
    filter: RwLock<Filter>,
    filter_budget: Budget,
    source: Arc<dyn CatalogueSource>,
    cache: FrameCache,
    metadata_requests: AtomicU64,
    /// Frames that a check has found damaged.
    bad: RwLock<BadPlaces>,
    damaged_path: PathBuf,
    /// Tables that did not open. Their objects seem absent.
    broken: RwLock<Vec<StoreError>>,
    /// The merged index files among the tables that did not open.
    unusable: RwLock<Vec<IndexId>>,
    /// The packs of the catalogue whose files are gone. Their objects count as absent.
    lost: RwLock<Vec<PackRow>>,
    /// Set once all tables have been checked, because an object was not found.
    tables_checked: OnceLock<()>,
    /// Held while a newer catalogue is loaded. Otherwise a thread could treat an object as absent
    /// that another thread is about to find.
    refreshing: Mutex<()>,
    /// How many catalogues have been loaded so far.
    loads: AtomicU64,
    /// Chunks that must not be stored.
    refused: RwLock<Arc<BTreeSet<ObjectId>>>,
    /// The objects that this store's own jobs are writing.
    arrivals: Arc<Arrivals>,
    /// The objects that the jobs of another store of the same repository are writing.
    following: Option<FollowedStore>,
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
        let damaged_path = dmv_dir.join(DAMAGED_FILE);
        let store = Store {
            owners,
            packs_dir: dmv_dir.join("packs"),
            index_dir: dmv_dir.join("index"),
            rows: RwLock::default(),
            files: RwLock::default(),
            tables: RwLock::default(),
            previews: RwLock::default(),
            budget: Budget::for_tables(),
            filter: RwLock::default(),
            filter_budget: Budget::for_filters(),
            source,
            cache: FrameCache::default(),
            metadata_requests: AtomicU64::new(0),
            bad: RwLock::new(BadPlaces::load(&*vfs, &damaged_path)),
            damaged_path,
            broken: RwLock::default(),
            unusable: RwLock::default(),
            lost: RwLock::default(),
            tables_checked: OnceLock::new(),
            refreshing: Mutex::default(),
            loads: AtomicU64::new(0),
            refused: RwLock::default(),
            arrivals: Arc::default(),
            following: None,
            vfs,
        };
        store.load(catalogue)?;
        Ok(store)
    }

    /// Replaces the catalogue with a newer one.
    pub(crate) fn load(&self, catalogue: Catalogue) -> Result<(), StoreError> {
        let mut unusable = Vec::new();
        let listed = packs_of(&catalogue.packs);
        let lost = self.without_file(&catalogue.packs);
        let gone = packs_of(&lost);
        let merged = catalogue.indexes.iter().map(|row| {
            let path = self.index_path(row.id);
            let in_use = |id: &PackId| listed.contains(id) && !gone.contains(id);
            let table = Table::open_merged(&*self.vfs, &path, Some(row.entries), &in_use);
            // An index over a lost pack may hide copies that other packs have.
            let is_over_lost = |table: &Table| table.packs().iter().any(|id| gone.contains(id));
            let is_usable = table.as_ref().is_ok_and(|table| !is_over_lost(table));
            unusable.extend((!is_usable).then_some(row.id));
            table
        });
        let own = catalogue
            .segments
            .iter()
            .filter(|segment| !gone.contains(&segment.pack))
            .map(|segment| self.open_segment(segment));
        let (mut tables, mut broken) = (Vec::new(), Vec::new());
        for table in merged.chain(own) {
            match table {
                Ok(table) => tables.push(Arc::new(table)),
                Err(e @ StoreError::TooNew { .. }) => return Err(e),
                Err(e) => broken.push(e),
            }
        }
        *write(&self.broken) = broken;
        *write(&self.unusable) = unusable;
        *write(&self.lost) = lost;
        let before = std::mem::replace(&mut *write(&self.rows), catalogue.packs);
        *write(&self.tables) = tables;
        let mut gone = packs_of(&before);
        gone.retain(|id| !listed.contains(id));
        self.forget_packs(&gone);
        self.loads.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Closes the files of packs that are out of use, so that their space is free once they are
    /// removed.
    fn forget_packs(&self, gone: &HashSet<PackId>) {
        if !gone.is_empty() {
            write(&self.files).retain(|id, _| !gone.contains(id));
            self.cache.forget_packs(gone);
        }
    }

    /// Loads what other processes have stored. Returns whether there was anything.
    pub fn refresh(&self) -> Result<bool, StoreError> {
        let _one = self
            .refreshing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        // An index may be merged away after the catalogue was read and before the index is opened.
        for _ in 0..REFRESHES {
            // If the catalogue cannot be read, the store goes on with what it knows. A job that
            // needs the database will say what is wrong with it.
            let Ok(Some(catalogue)) = self.source.newer_catalogue() else {
                break;
            };
            self.load(catalogue)?;
            any = true;
            if self.opened_all_tables() {
                break;
            }
        }
        // An index that stays unusable is replaced by the tables of its segments.
        let unusable = self.unusable_indexes();
        if any
            && !unusable.is_empty()
            && let Ok(catalogue) = self.source.catalogue_without(&unusable)
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

    /// Returns the merged index files that are missing or do not open. The tables of their segments
    /// can replace them.
    pub(crate) fn unusable_indexes(&self) -> Vec<IndexId> {
        read(&self.unusable).clone()
    }

    fn open_segment(&self, segment: &SegmentRow) -> Result<Table, StoreError> {
        let path = self.pack_path(segment.pack);
        let file = self.pack_file(segment.pack)?;
        Table::open_segment(&path, file, segment.pack, segment.end)
    }

    /// Returns whether the pack has exactly this segment.
    pub(crate) fn has_segment(&self, segment: &SegmentRow) -> bool {
        let Ok(file) = self.pack_file(segment.pack) else {
            return false;
        };
        let path = self.pack_path(segment.pack);
        let len = layout::TRAILER_BYTES;
        let at = segment.end.checked_sub(len as u64);
        let bytes = at.and_then(|at| table::read_exactly(&*file, &path, at, len).ok());
        let trailer = bytes.and_then(|bytes| layout::Trailer::decode(&bytes));
        let is_there = trailer.is_some_and(|trailer| trailer.start == segment.start);
        let table = self.open_segment(segment);
        is_there && table.is_ok_and(|table| table.entries() == segment.entries)
    }

    /// Returns the file layer.
    pub(crate) fn vfs(&self) -> &dyn Vfs {
        &*self.vfs
    }

    /// Returns the repository's id.
    pub(crate) fn repo_id(&self) -> RepositoryId {
        self.owners.own()
    }

    /// Returns whose packs the repository uses.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the directory of the pack files.
    pub fn packs_dir(&self) -> &Path {
        &self.packs_dir
    }

    /// Returns the directory of the merged index files.
    pub(crate) fn index_dir(&self) -> &Path {
        &self.index_dir
    }

    /// Returns the path of a pack's file.
    pub fn pack_path(&self, id: PackId) -> PathBuf {
        self.packs_dir.join(format!("{id}.pack"))
    }

    /// Returns the path of a merged index file.
    pub fn index_path(&self, id: IndexId) -> PathBuf {
        self.index_dir.join(format!("{id}.idx"))
    }

    /// Returns all packs of the catalogue.
    pub fn packs(&self) -> Vec<PackRow> {
        read(&self.rows).clone()
    }

    fn unfilled_packs(&self, kind: PackKind) -> Vec<PackId> {
        let fits =
            |p: &&PackRow| p.kind == kind && !p.poisoned && p.len <= crate::limits::PACK_FULL_BYTES;
        read(&self.rows).iter().filter(fits).map(|p| p.id).collect()
    }

    fn pack_file(&self, id: PackId) -> Result<Arc<dyn VfsFile>, StoreError> {
        if let Some(file) = read(&self.files).get(&id) {
            return Ok(file.clone());
        }
        let path = self.pack_path(id);
        let file = self
            .vfs
            .open(&path, OpenMode::Read)
            .context("open", &path)?;
        match self.check_header(id, &*file) {
            // A damaged header does not affect the objects after it, and each object is checked.
            Ok(()) | Err(StoreError::DamagedFile { .. }) => {}
            Err(e) => return Err(e),
        }
        write(&self.files).insert(id, file.clone());
        Ok(file)
    }

    /// Checks a pack's header. Fails with [`StoreError::DamagedFile`] if it is not the one that was
    /// written.
    fn check_header(&self, id: PackId, file: &dyn VfsFile) -> Result<(), StoreError> {
        self.check_owner(id, file, &|repo| self.owners.has(repo))
    }

    /// Checks the header of a pack that this repository is about to write to: it must be its own.
    fn check_own_header(&self, id: PackId, file: &dyn VfsFile) -> Result<(), StoreError> {
        self.check_owner(id, file, &|repo| repo == self.owners.own())
    }

    fn check_owner(
        &self,
        id: PackId,
        file: &dyn VfsFile,
        is_fit: &dyn Fn(RepositoryId) -> bool,
    ) -> Result<(), StoreError> {
        let path = self.pack_path(id);
        let head = table::read_exactly(file, &path, 0, PACK_HEADER_BYTES as usize)?;
        let why = match layout::PackHeader::decode(&head) {
            Ok(header) if header.id == id && is_fit(header.repo) => return Ok(()),
            Ok(_) => "pack belongs to another name or repository",
            Err(layout::LayoutError::Bad(why)) => why,
            Err(layout::LayoutError::TooNew(version)) => {
                return Err(StoreError::TooNew { path, version });
            }
        };
        Err(StoreError::DamagedFile {
            path,
            offset: 0,
            why,
        })
    }

    /// Returns the kind of a pack's objects from its header; `None` if the header is damaged.
    fn kind_in_header(
        &self,
        file: &dyn VfsFile,
        path: &Path,
    ) -> Result<Option<PackKind>, StoreError> {
        let head = table::read_exactly(file, path, 0, PACK_HEADER_BYTES as usize)?;
        Ok(layout::PackHeader::decode(&head).ok().map(|h| h.kind))
    }

    /// Returns the place of `id`. Also finds objects that another process has stored meanwhile, and
    /// waits for objects that may still come from the store that this one follows.
    fn locate_or_wait(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        match &self.following {
            Some(following) => following.find_or_wait(|| self.locate_now(id)),
            None => self.locate_now(id),
        }
    }

    /// Returns the place of `id` in the catalogue as it was loaded, among the arrivals, or else in
    /// the newest catalogue.
    fn locate_now(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        let loads = self.loads.load(Ordering::Acquire);
        if let Some(found) = self.locate(id)? {
            return Ok(Some(found));
        }
        if let Some(following) = &self.following
            && let Some(found) = following.locate(id)?
        {
            return Ok(Some(found));
        }
        self.refresh()?;
        if self.loads.load(Ordering::Acquire) == loads {
            return Ok(None);
        }
        self.locate(id)
    }

    fn locate(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        match self.locate_listed(id) {
            Ok(Some((pack, place))) if !read(&self.bad).has(pack, place.offset) => {
                Ok(Some((pack, place)))
            }
            // Damaged, absent, or unknown because of an error.
            other => match self.locate_in_previews(id)? {
                Some(found) => Ok(Some(found)),
                None => other,
            },
        }
    }

    /// Returns the place of `id` according to the catalogue as it was last read.
    fn locate_listed(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        let (mut failed, mut bad) = (None, None);
        let known_bad = read(&self.bad);
        for table in read(&self.tables).iter() {
            match table.lookup(id, &self.budget) {
                // Another copy may be intact.
                Ok(Some((pack, place))) if known_bad.has(pack, place.offset) => {
                    bad = Some((pack, place));
                }
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                // Another table may have it.
                Err(e) => failed = Some(e),
            }
        }
        match (bad, failed) {
            (None, Some(e)) => Err(e),
            (bad, _) => Ok(bad),
        }
    }

    /// Returns how many objects other than chunks were requested since the store was opened. Work
    /// on a part of a repository costs this many tree nodes, lists and commits.
    pub fn metadata_requests(&self) -> u64 {
        self.metadata_requests.load(Ordering::Relaxed)
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
        let Some(row) = read(&self.rows).iter().find(|row| row.id == pack).copied() else {
            return Ok(false);
        };
        // By its name: an open file keeps its length even after it was removed.
        let path = self.pack_path(pack);
        match self.vfs.open(&path, OpenMode::Read) {
            Ok(file) => Ok(file.len().context("measure", &path)? >= row.len),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(PathError::new("open", &path, e).into()),
        }
    }

    /// Returns whether all tables of the catalogue could be opened.
    pub(crate) fn opened_all_tables(&self) -> bool {
        read(&self.broken).is_empty() && read(&self.lost).is_empty()
    }

    /// Returns whether a table gives this place in `pack` for `id`.
    fn is_placed(&self, id: &ObjectId, pack: PackId, place: Place) -> Result<bool, StoreError> {
        let mut failed = None;
        for table in read(&self.tables).iter() {
            match table.lookup(id, &self.budget) {
                Ok(found) if found == Some((pack, place)) => return Ok(true),
                Ok(_) => {}
                Err(e) => failed = Some(e),
            }
        }
        failed.map_or(Ok(false), Err)
    }

    /// Returns a place of `id` without known damage, outside the packs `leaving`.
    fn undamaged_place_of(
        &self,
        id: &ObjectId,
        leaving: &HashSet<PackId>,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        let (mut failed, mut found, mut sound) = (None, false, None);
        let known_bad = read(&self.bad);
        self.each_with(id, &read(&self.tables), &mut |table| {
            match table.lookup(id, &self.budget) {
                Ok(Some((pack, place)))
                    if !leaving.contains(&pack) && !known_bad.has(pack, place.offset) =>
                {
                    sound = Some((pack, place));
                    return ControlFlow::Break(());
                }
                Ok(other) => found |= other.is_some(),
                // Another table may have it.
                Err(e) => failed = Some(e),
            }
            ControlFlow::Continue(())
        });
        match (sound, found, failed) {
            (None, false, Some(e)) => Err(e),
            (sound, ..) => Ok(sound),
        }
    }

    fn damaged_path(&self) -> PathBuf {
        self.damaged_path.clone()
    }

    /// Returns the ids that begin with `hex` (at least four digits), at most `limit` of them.
    pub fn with_prefix(
        &self,
        hex: &str,
        limit: usize,
    ) -> Result<Vec<(ObjectId, ObjectType)>, StoreError> {
        let whole = &hex[..hex.len() & !1];
        let half = hex[whole.len()..]
            .chars()
            .next()
            .and_then(|c| c.to_digit(16))
            .map(|d| d as u8);
        let Some(prefix) = crate::hash::decode_hex(whole) else {
            return Ok(Vec::new());
        };
        if prefix.len() > crate::hash::ID_BYTES || (hex.len() % 2 == 1) != half.is_some() {
            return Ok(Vec::new());
        }
        let mut found = HashSet::new();
        for table in read(&self.tables).iter() {
            found.extend(table.with_prefix(&prefix, half, limit)?);
        }
        Ok(found.into_iter().collect())
    }

    /// Calls `visit` with the id, type and pack of every object. An object that is stored twice is
    /// visited twice.
    pub fn for_each_object(
        &self,
        visit: &mut dyn FnMut(ObjectId, ObjectType, PackId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for table in read(&self.tables).iter() {
            table.walk(&mut |entry, pack| visit(entry.id, entry.place.ty, pack))?;
        }
        Ok(())
    }

    /// Returns the merged indexes of which less than half of the entries count.
    pub(crate) fn worn_indexes(&self) -> Vec<IndexId> {
        let tables = read(&self.tables);
        let worn = tables
            .iter()
            .filter(|table| table.live_entries() < table.entries() / 2);
        worn.filter_map(|table| table.index_id()).collect()
    }

    /// Returns the number of tables in use and of objects in them.
    pub fn table_stats(&self) -> (usize, u64) {
        let tables = read(&self.tables);
        (
            tables.len(),
            tables.iter().map(|t| u64::from(t.live_entries())).sum(),
        )
    }

    /// Checks every table and returns the faults.
    pub(crate) fn damaged_tables(&self) -> Vec<String> {
        let mut found: Vec<String> = read(&self.broken).iter().map(|e| e.to_string()).collect();
        let tables = read(&self.tables);
        found.extend(
            tables
                .iter()
                .filter_map(|t| t.verify().err())
                .map(|e| e.to_string()),
        );
        found
    }

    /// Merges tables of about the same size when enough of them have piled up.
    ///
    /// Tables are sorted into tiers; the tables of a tier are [`MERGE_TABLES`] times as large as
    /// those of the tier below. A full tier becomes one table of the next. So each entry is copied
    /// once per tier over the repository's life, a small job never rewrites a large table, and the
    /// number of tables stays logarithmic.
    ///
    /// Returns the new index file and what it replaces. The caller registers it. While the file of a pack
    /// is gone, nothing is merged: the merged index would hide its objects if the file came back.
    pub(crate) fn merge_tables(
        &self,
        catalogue: &Catalogue,
    ) -> Result<Option<UnregisteredIndex>, StoreError> {
        if !self.without_file(&catalogue.packs).is_empty() {
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
        let segments: Vec<SegmentRow> = catalogue
            .segments
            .iter()
            .filter(|s| joins(s.entries))
            .copied()
            .collect();
        let indexes: Vec<IndexId> = catalogue
            .indexes
            .iter()
            .filter(|i| joins(i.entries))
            .map(|i| i.id)
            .collect();
        let (mut tables, listed) = (Vec::new(), packs_of(&catalogue.packs));
        for segment in &segments {
            tables.push(self.open_segment(segment)?);
        }
        for id in &indexes {
            let in_use = |id: &PackId| listed.contains(id);
            let path = self.index_path(*id);
            tables.push(Table::open_merged(&*self.vfs, &path, None, &in_use)?);
        }
        // The merged file gets a valid check of its own, so damage in its sources must not enter
        // it.
        for table in &tables {
            table.verify()?;
        }
        let id = IndexId::random();
        self.vfs
            .create_dir_all(&self.index_dir)
            .context("create", &self.index_dir)?;
        let refs: Vec<&Table> = tables.iter().collect();
        // Its name need not be durable: if the merged file is missing, DMV works without it.
        let bad = BadPlaces::load(&*self.vfs, &self.damaged_path);
        let (entries, file) = table::write_merged(&*self.vfs, &self.index_path(id), &refs, &bad)?;
        let packs = tables.iter().flat_map(|table| table.packs_in_use());
        Ok(Some(UnregisteredIndex {
            packs: packs.collect::<HashSet<_>>().into_iter().collect(),
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
            let _ = self.vfs.remove(&self.index_path(*id));
        }
    }

    /// Removes index files that were never registered, because the process that made them was
    /// killed.
    ///
    /// `registered` returns the registered ones. It is called once the files are locked, so that no
    /// other process can register one of them any more.
    pub(crate) fn remove_strays(&self, registered: impl FnOnce() -> Option<Vec<IndexRow>>) {
        let names = self.vfs.list(&self.index_dir).unwrap_or_default();
        let ids = names.iter().filter_map(|name| name.strip_suffix(".idx"));
        let mut locked = Vec::new();
        for id in ids.filter_map(IndexId::from_hex) {
            // A file that another process has locked is about to be registered.
            let file = self.vfs.open(&self.index_path(id), OpenMode::Append).ok();
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

fn packs_of(rows: &[PackRow]) -> HashSet<PackId> {
    rows.iter().map(|row| row.id).collect()
}

/// Locks a mutex. It ignores poisoning, because a panic in another thread has already ended the
/// job.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

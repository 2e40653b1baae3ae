//! Writing: objects go into packs, segment by segment, and become durable before anything names
//! them.
//!
//! A [`StoreWriter`] belongs to one job, and many threads may feed it. It holds a data pack and a
//! meta pack under their file locks until the job is published. So two jobs never write one file.

mod resume;
#[cfg(test)]
mod tests;

use super::bases::PlainChunks;
use super::block_sharing::LEAST_SHARED_BYTES;
use super::cache::RecordKey;
use super::catalogue::SegmentRow;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::frame::{EncodedFrame, FrameEncoder, FrameObject};
use super::index_entry::{Entry, MAX_GAPS, Place};
use super::layout::{PACK_HEADER_BYTES, PackHeader, PackKind};
use super::open_pack::{LockedPack, OpenPack, SEGMENT_ENTRIES};
use super::pack_store::Store;
use super::random_id::PackId;
use super::shared::{lock, read, write};
use super::table::Table;
use crate::hash::ObjectId;
use crate::limits::PACK_FULL_BYTES;
use crate::path::PathContext;
use crate::platform::Origin;
use crate::vfs::{OpenMode, VfsFile};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Written bytes after which the system is asked to start writing to the medium, so that the final
/// sync has little left to do.
const WRITEBACK_BYTES: u64 = 8 << 20;
/// Shards of the set of claimed ids: more than there are threads that ask.
const SHARDS: usize = 64;

/// The pack of one kind, with everything closed so far.
struct Lane {
    kind: PackKind,
    state: Mutex<LaneState>,
    /// Locked for reading while a record is written, and for writing while a segment is closed.
    in_flight: RwLock<()>,
}

#[derive(Default)]
struct LaneState {
    pack: Option<OpenPack>,
    /// Packs that were written to. They stay open, so that their locks last until the job is
    /// published.
    touched: Vec<Arc<LockedPack>>,
    created: bool,
    segments: Vec<SegmentRow>,
}

impl LaneState {
    fn take(&mut self, pack: OpenPack) {
        // Also for an existing pack: the process that created it may have been killed before its
        // name was durable.
        self.created |= pack.pack.is_unlisted;
        self.touched.push(pack.pack.clone());
        self.pack = Some(pack);
    }
}

/// Stores the objects of one job.
pub struct StoreWriter<'s> {
    store: &'s Store,
    /// The only objects to store, if the job is limited to some.
    only: Option<HashSet<ObjectId>>,
    /// Packs that will be removed.
    leaving: HashSet<PackId>,
    /// Whether it writes to new packs only.
    is_fresh: bool,
    /// Whether the packs that it has made go when it ends.
    is_discarded: bool,
    /// Whether its new data packs may have frames with bases.
    has_bases: bool,
    /// Chunks that it stores only in frames without bases, because frames of other packs need them.
    keeps_plain: HashSet<ObjectId>,
    /// The chunks that may be bases of the next frames.
    plain: Mutex<PlainChunks>,
    lanes: [Lane; 2],
    claimed: Vec<Mutex<HashSet<ObjectId>>>,
    /// Tables of the job's own closed segments. No other job may rely on them before this one is
    /// published: it may still fail, and then the bytes in their packs may be lost.
    closed: RwLock<Vec<Arc<Table>>>,
    relied: Mutex<HashSet<PackId>>,
    /// Chunks that must not be stored.
    pub(super) refused: Arc<BTreeSet<ObjectId>>,
    stored_bytes: AtomicU64,
    /// How many bytes it may write, if that is limited.
    room: Option<u64>,
    failed: AtomicBool,
}

impl Drop for StoreWriter<'_> {
    fn drop(&mut self) {
        // A job that could not write discards what it has made: mostly the disk is full, and this makes
        // room.
        if self.is_discarded || self.failed.load(Ordering::Relaxed) {
            self.discard();
        }
    }
}

impl Store {
    /// Begins a job that adds objects.
    pub(crate) fn writer(&self) -> Result<StoreWriter<'_>, StoreError> {
        StoreWriter::new(self, None, HashSet::new())
    }

    /// Begins a job that adds objects in new packs of its own, which can go as a whole.
    pub(crate) fn writer_in_new_packs(&self) -> StoreWriter<'_> {
        let mut writer = StoreWriter::fresh(self, HashSet::new());
        (writer.refused, writer.is_discarded) = (self.refused(), false);
        writer
    }

    /// Begins a second writer of the job of `first`. Both are published together, so objects of
    /// `first` need not be written again.
    pub(crate) fn writer_after(&self, first: &FinishedJob) -> Result<StoreWriter<'_>, StoreError> {
        let writer = self.writer()?;
        write(&writer.closed).extend(first.tables.iter().cloned());
        Ok(writer)
    }

    /// Begins a job that stores only the objects in `wanted` and ignores all others.
    pub(crate) fn mender(&self, wanted: HashSet<ObjectId>) -> Result<StoreWriter<'_>, StoreError> {
        StoreWriter::new(self, Some(wanted), HashSet::new())
    }

    /// Begins a job that copies objects out of the packs `leaving`, which will be removed.
    pub(crate) fn mover(&self, leaving: HashSet<PackId>) -> Result<StoreWriter<'_>, StoreError> {
        StoreWriter::new(self, None, leaving)
    }
}

impl<'s> StoreWriter<'s> {
    /// Begins a job.
    ///
    /// It takes over existing packs at once, so that it knows the objects that an interrupted job
    /// left in them before it claims its first object. It takes none of `leaving`: it writes
    /// nothing to packs that will be removed, and it stores again what only they have.
    pub(super) fn new(
        store: &'s Store,
        only: Option<HashSet<ObjectId>>,
        leaving: HashSet<PackId>,
    ) -> Result<StoreWriter<'s>, StoreError> {
        // What moves is stored already.
        let refused = if leaving.is_empty() {
            store.refused()
        } else {
            Arc::default()
        };
        let mut writer = StoreWriter::fresh(store, leaving);
        (writer.only, writer.is_fresh, writer.refused) = (only, false, refused);
        writer.is_discarded = !writer.leaving.is_empty();
        for lane in &writer.lanes {
            let mut state = lock(&lane.state);
            if let Some(pack) = writer.resume_pack(lane.kind, &state)? {
                state.take(pack);
            }
        }
        Ok(writer)
    }

    /// Begins a job that moves objects out of the packs `leaving` into new packs. If it fails, it
    /// leaves no bytes behind, so that moving never fills a disk for long.
    pub(super) fn fresh(store: &'s Store, leaving: HashSet<PackId>) -> StoreWriter<'s> {
        let lane = |kind| Lane {
            kind,
            state: Mutex::default(),
            in_flight: RwLock::default(),
        };
        StoreWriter {
            store,
            only: None,
            leaving,
            is_fresh: true,
            is_discarded: true,
            has_bases: false,
            keeps_plain: HashSet::new(),
            plain: Mutex::default(),
            lanes: [lane(PackKind::Data), lane(PackKind::Meta)],
            claimed: (0..SHARDS).map(|_| Mutex::default()).collect(),
            closed: RwLock::default(),
            relied: Mutex::default(),
            refused: Arc::default(),
            stored_bytes: AtomicU64::new(0),
            room: None,
            failed: AtomicBool::new(false),
        }
    }

    /// Makes the job fail before it writes more than `room` bytes, if that is limited.
    pub(crate) fn within(mut self, room: Option<u64>) -> StoreWriter<'s> {
        self.room = room;
        self
    }

    /// Lets the job write frames with bases to its new packs.
    pub(crate) fn with_bases(mut self, has_bases: bool) -> StoreWriter<'s> {
        self.has_bases = has_bases;
        self
    }

    /// Makes the job store some chunks in frames without bases, unless the store has them like that.
    pub(super) fn keeping_plain(mut self, chunks: HashSet<ObjectId>) -> StoreWriter<'s> {
        self.keeps_plain = chunks;
        self
    }

    /// Returns the chunks that must not be stored in frames with bases.
    pub(super) fn keeps_plain(&self) -> &HashSet<ObjectId> {
        &self.keeps_plain
    }

    /// Returns the chunks that may be bases, so that a test can break the rules.
    #[cfg(test)]
    pub(super) fn plain(&self) -> std::sync::MutexGuard<'_, PlainChunks> {
        lock(&self.plain)
    }

    /// Returns whether a chunk must not be stored.
    pub fn refuses(&self, id: &ObjectId) -> bool {
        self.refused.contains(id)
    }

    /// Returns the chunks that must not be stored.
    pub fn refused(&self) -> Arc<BTreeSet<ObjectId>> {
        self.refused.clone()
    }

    fn shard(&self, id: &ObjectId) -> &Mutex<HashSet<ObjectId>> {
        &self.claimed[usize::from(id.as_bytes()[31]) % SHARDS]
    }

    /// Returns whether the caller must write `id`.
    ///
    /// This is true for exactly one caller, and only if the store does not have the object, or has
    /// it only at a place known to be damaged, and if the store does not [refuse](Self::refuses) it.
    pub fn claim(&self, id: &ObjectId) -> Result<bool, StoreError> {
        if self.refuses(id) || self.only.as_ref().is_some_and(|only| !only.contains(id)) {
            return Ok(false);
        }
        let mut shard = lock(self.shard(id));
        if shard.contains(id) {
            return Ok(false);
        }
        if self.is_in_closed(id)? {
            return Ok(false);
        }
        if let Some(pack) = self.reliable_pack_of(id)? {
            lock(&self.relied).insert(pack);
            return Ok(false);
        }
        Ok(shard.insert(*id))
    }

    /// Returns whether [`claim`](Self::claim) returned `true` for an object.
    pub(super) fn has_claimed(&self, id: &ObjectId) -> bool {
        lock(self.shard(id)).contains(id)
    }

    fn is_in_closed(&self, id: &ObjectId) -> Result<bool, StoreError> {
        let mut found = Ok(None);
        let closed = read(&self.closed);
        let index = &self.store.index;
        index.filter.each_with(id, &closed, &mut |table| {
            found = table.lookup(id, &index.budget);
            match found {
                Ok(None) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        Ok(found?.is_some())
    }

    /// Returns a pack that already has `id`. If the job moves objects out of packs that will be
    /// removed, it reads the object there first: the copy to be removed may be the last intact one.
    fn reliable_pack_of(&self, id: &ObjectId) -> Result<Option<PackId>, StoreError> {
        if self.keeps_plain.contains(id) {
            return self.store.plain_pack_of(id, &self.leaving);
        }
        while let Some((pack, place)) = self.store.undamaged_place_of(id, &self.leaving)? {
            if self.leaving.is_empty() || self.store.is_intact_at(id, pack, place) {
                return Ok(Some(pack));
            }
            self.store.damage.add(pack, place.offset);
        }
        Ok(None)
    }

    /// Returns the bytes appended to packs so far.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    /// Encodes `objects`, whose bytes in order are `raw`, and appends them as one frame.
    pub fn append(
        &self,
        kind: PackKind,
        encoder: &mut FrameEncoder,
        raw: &[u8],
        objects: &[FrameObject],
    ) -> Result<(), StoreError> {
        let frame = encoder.encode(raw, objects);
        let frame = frame.context("compress for", self.store.packs_dir())?;
        self.append_and_tell(kind, &frame, None).map(drop)
    }

    /// Encodes chunks, whose bytes in order are `raw`, and appends them as one frame. If `origin` has the same
    /// bytes, the pack shares its blocks where it can.
    pub fn append_read(
        &self,
        encoder: &mut FrameEncoder,
        raw: &[u8],
        objects: &[FrameObject],
        origin: Option<Origin<'_>>,
    ) -> Result<(), StoreError> {
        let frame = encoder.encode(raw, objects);
        let mut frame = frame.context("compress for", self.store.packs_dir())?;
        // A compressed payload is shorter.
        frame.origin = origin.filter(|_| frame.payload.len() == raw.len());
        self.append_and_tell(PackKind::Data, &frame, None).map(drop)
    }

    /// Returns a copy of a file for [`append_read`](Self::append_read), which nothing can change; `None` if
    /// packs cannot share its blocks. Fails with [`StoreError::NotShared`] if they have to.
    pub(crate) fn snapshot_of(&self, file: &File) -> Result<Option<File>, StoreError> {
        self.store.sharing.snapshot_of(file)
    }

    /// Appends a record as it is, and passes it on to the stores that follow this one. Returns `false`
    /// and appends nothing if it needs bases that the pack does not have.
    pub(super) fn append_checked(&self, record: &Arc<CheckedRecord>) -> Result<bool, StoreError> {
        let old;
        let mut frame = record.frame();
        // What shared blocks with a file continues to share them when it moves to another pack.
        if let Some((pack, at)) = record.raw_place()
            && self.store.sharing.is_between_packs()
        {
            old = self.store.files().pack(pack)?;
            frame.origin = old.system().map(|file| Origin { file, at });
        }
        self.append_and_tell(record.kind(), &frame, Some(record.clone()))
    }

    /// Appends a frame of chunks. Returns `false` and appends nothing if it needs bases that the pack
    /// does not have.
    pub(super) fn append_frame(&self, frame: &EncodedFrame<'_>) -> Result<bool, StoreError> {
        self.append_and_tell(PackKind::Data, frame, None)
    }

    fn append_and_tell(
        &self,
        kind: PackKind,
        frame: &EncodedFrame,
        checked: Option<Arc<CheckedRecord>>,
    ) -> Result<bool, StoreError> {
        let lane = &self.lanes[usize::from(kind == PackKind::Meta)];
        let result = self.append_to(lane, frame, checked);
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    fn append_to(
        &self,
        lane: &Lane,
        frame: &EncodedFrame,
        checked: Option<Arc<CheckedRecord>>,
    ) -> Result<bool, StoreError> {
        self.make_room(lane, frame.objects.len())?;
        let _writing = lane.in_flight.read().unwrap_or_else(|p| p.into_inner());
        let len = (frame.head.len() + frame.payload.len() + frame.check.len()) as u64;
        let written = self.stored_bytes.fetch_add(len, Ordering::Relaxed);
        if self.room.is_some_and(|room| written + len > room) {
            return Err(StoreError::OverBudget);
        }
        let head = frame.head.len() as u64;
        let origin = frame.origin;
        let origin = origin.filter(|_| frame.payload.len() >= LEAST_SHARED_BYTES);
        let (pack, at, writeback) = {
            let mut state = lock(&lane.state);
            let pack = self.pack_of_lane(lane, &mut state)?;
            let (plain, id) = (lock(&self.plain), pack.pack.id);
            if !self.store.has_bases(&plain, id, frame.bases) {
                self.stored_bytes.fetch_sub(len, Ordering::Relaxed);
                return Ok(false);
            }
            if let Some(origin) = origin {
                let gap = pack.leave_gap(head, origin.at);
                self.stored_bytes.fetch_add(gap, Ordering::Relaxed);
            }
            let at = pack.offset;
            pack.offset += len;
            pack.make_room_for(frame.objects.len());
            pack.entries.extend(entries_at(frame, at));
            // Everything before this record has been written or soon will be.
            let writeback = (at - pack.writeback >= WRITEBACK_BYTES).then(|| {
                let from = std::mem::replace(&mut pack.writeback, at);
                (from, at - from)
            });
            (pack.pack.clone(), at, writeback)
        };
        pack.write(&frame.head, at)?;
        pack.write_shared(frame.payload, at + head, origin)?;
        pack.write(&frame.check, at + len - frame.check.len() as u64)?;
        if pack.id.may_have_bases() {
            lock(&self.plain).note(pack.id, frame);
        }
        let arrivals = &self.store.arrivals;
        let key = RecordKey {
            pack: pack.id,
            offset: at,
        };
        arrivals.wrote(key, entries_at(frame, at), checked);
        if let Some((from, len)) = writeback {
            pack.file.start_writeback(from, len);
        }
        Ok(true)
    }

    /// Closes the segment, or moves to another pack, if `more` objects do not fit.
    fn make_room(&self, lane: &Lane, more: usize) -> Result<(), StoreError> {
        let full = |state: &LaneState| {
            state.pack.as_ref().is_some_and(|p| {
                p.entries.len() + more > SEGMENT_ENTRIES
                    || p.offset > PACK_FULL_BYTES
                    || p.gaps.len() >= MAX_GAPS && !p.entries.is_empty()
            })
        };
        if !full(&lock(&lane.state)) {
            return Ok(());
        }
        let _no_writes = lane.in_flight.write().unwrap_or_else(|p| p.into_inner());
        let mut state = lock(&lane.state);
        if !full(&state) {
            return Ok(());
        }
        self.close_segment(lane, &mut state)?;
        state.pack.take_if(|pack| pack.offset > PACK_FULL_BYTES);
        Ok(())
    }

    fn pack_of_lane<'l>(
        &self,
        lane: &Lane,
        state: &'l mut LaneState,
    ) -> Result<&'l mut OpenPack, StoreError> {
        if state.pack.is_none() {
            let pack = if self.is_fresh {
                None
            } else {
                self.resume_pack(lane.kind, state)?
            };
            let pack = pack.map_or_else(|| self.create_pack(lane.kind), Ok)?;
            state.take(pack);
        }
        Ok(state.pack.as_mut().expect("set just above"))
    }

    fn create_pack(&self, kind: PackKind) -> Result<OpenPack, StoreError> {
        let (id, path, file) = loop {
            let id = if self.has_bases && kind == PackKind::Data {
                PackId::random_with_bases()
            } else {
                PackId::random()
            };
            let path = self.store.pack_path(id);
            let file = self.store.files().vfs.open(&path, OpenMode::CreateNew);
            let file = file.context("create", &path)?;
            // Before it was locked, another process may have taken it for an abandoned pack and have
            // locked or removed it.
            if file.try_lock().context("lock", &path)? && self.is_there(&path)? {
                break (id, path, file);
            }
        };
        let begun = self.begin_pack(kind, id, path, file);
        if begun.is_err() && self.is_fresh {
            let _ = self.store.files().vfs.remove(&self.store.pack_path(id));
        }
        begun
    }

    fn begin_pack(
        &self,
        kind: PackKind,
        id: PackId,
        path: PathBuf,
        file: Arc<dyn VfsFile>,
    ) -> Result<OpenPack, StoreError> {
        let repo = self.store.owners().own();
        let header = PackHeader { kind, repo, id };
        let pack = LockedPack {
            id,
            path,
            file,
            is_unlisted: true,
            is_own: true,
        };
        pack.write(&header.encode(), 0)?;
        let at = PACK_HEADER_BYTES;
        Ok(OpenPack::resume(pack, at, at, 0))
    }

    /// Ends the open segment with its index and trailer.
    fn close_segment(&self, lane: &Lane, state: &mut LaneState) -> Result<(), StoreError> {
        let Some(pack) = state.pack.as_mut() else {
            return Ok(());
        };
        let before = pack.offset;
        let Some((row, entries)) = pack.write_segment(lane.kind)? else {
            return Ok(());
        };
        self.stored_bytes
            .fetch_add(pack.offset - before, Ordering::Relaxed);
        // From now on the segment's own table knows these ids, so the set stays small. The table
        // gets a file handle of its own: the one for writing holds the lock and is closed with the
        // job.
        let file = self.store.files().pack(row.pack)?;
        let table = Table::open_segment(&pack.pack.path, file, row.pack, row.end)?;
        let table = Arc::new(table);
        self.store.arrivals.closed(&table, &entries);
        write(&self.closed).push(table);
        state.segments.push(row);
        for entry in entries {
            let mut shard = lock(self.shard(&entry.id));
            shard.remove(&entry.id);
            if shard.is_empty() {
                shard.shrink_to_fit();
            }
        }
        Ok(())
    }

    /// Ends the open segment of a kind. Returns how many segments of this kind the job has.
    pub(super) fn end_segment(&self, kind: PackKind) -> Result<usize, StoreError> {
        let lane = &self.lanes[usize::from(kind == PackKind::Meta)];
        let _no_writes = lane.in_flight.write().unwrap_or_else(|p| p.into_inner());
        let mut state = lock(&lane.state);
        self.close_segment(lane, &mut state)?;
        Ok(state.segments.len())
    }

    /// Ends the segments and makes everything durable. Nothing names the new objects yet.
    pub fn finish(mut self) -> Result<FinishedJob, StoreError> {
        let finished = self.finished();
        self.is_discarded = finished.is_err();
        finished
    }

    /// Removes the packs that the job has made: no other job reads them before they are published.
    fn discard(&self) {
        for lane in &self.lanes {
            for touched in lock(&lane.state).touched.iter().filter(|pack| pack.is_own) {
                // If it stays, it is a pack that no catalogue lists, and the next job takes it over.
                let _ = self.store.files().vfs.remove(&touched.path);
            }
        }
    }

    fn finished(&self) -> Result<FinishedJob, StoreError> {
        let mut created = false;
        let mut segments = Vec::new();
        let mut locks = Vec::new();
        if self.failed.load(Ordering::Relaxed) {
            let path = self.store.packs_dir().to_owned();
            return Err(StoreError::Poisoned { path });
        }
        for lane in &self.lanes {
            let mut state = lock(&lane.state);
            self.close_segment(lane, &mut state)?;
            for touched in &state.touched {
                // The operation that names the objects is synced after them. A failed sync does not show which bytes
                // were lost. It is never tried again, and nothing more is written to the pack.
                if let Err(source) = touched.file.settle().context("sync", &touched.path) {
                    if touched.is_unlisted {
                        // No catalogue lists it, and the next job must not take it over.
                        let _ = self.store.files().vfs.remove(&touched.path);
                    }
                    let pack = touched.id;
                    return Err(StoreError::SyncFailed { pack, source });
                }
                locks.push(touched.file.clone());
            }
            created |= state.created;
            segments.append(&mut state.segments);
        }
        if created {
            let dir = self.store.packs_dir();
            self.store.files().vfs.sync_dir(dir).context("sync", dir)?;
        }
        let relied = lock(&self.relied).drain().collect();
        let stored_bytes = self.stored_bytes.load(Ordering::Relaxed);
        Ok(FinishedJob {
            segments,
            relied,
            stored_bytes,
            is_limited: self.room.is_some(),
            kept_plain: self.keeps_plain.clone(),
            tables: std::mem::take(&mut *write(&self.closed)),
            refused: self.refused.clone(),
            locks,
        })
    }
}

/// Returns the entries of a frame at `offset`.
fn entries_at<'f>(
    frame: &'f EncodedFrame<'_>,
    offset: u64,
) -> impl Iterator<Item = Entry> + use<'f> {
    frame
        .objects
        .iter()
        .enumerate()
        .map(move |(n, object)| Entry {
            id: object.id,
            place: Place {
                offset,
                ordinal: n as u16,
                ty: object.ty,
            },
        })
}

//! Bases: the chunks whose bytes a frame needs to be decoded (docs/format/pack.md, "Frames with
//! bases").
//!
//! A writer stores such a frame only behind its bases in the same pack, so a pack never needs
//! another one. A reader prefers these copies and takes any other copy that needs no base itself.
//! So a read touches at most one layer of bases, whatever a pack says.

use super::checked_record::CheckedObject;
use super::error::StoreError;
use super::finished_job::FinishedJob;
use super::frame::{EncodedFrame, FrameTable};
use super::incoming_objects::IncomingObjects;
use super::layout::Encoding;
use super::random_id::PackId;
use super::{Place, SegmentRow, Store, read};
use crate::hash::ObjectId;
use crate::limits::MAX_BASE_BYTES;
use crate::memory::Budget;
use crate::object::ObjectType;
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// Most chunks that a writer remembers as possible bases. Later ones are none.
const MOST_KNOWN: usize = 1 << 20;

impl Store {
    /// Returns the bytes of a frame's bases in a row. `pack` and `offset` are the frame's place.
    pub(super) fn base_bytes(
        &self,
        table: &FrameTable,
        pack: PackId,
        offset: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let mut out = Vec::new();
        for id in &table.base {
            self.read_base(id, pack, offset, &mut out)?;
            if out.len() > MAX_BASE_BYTES {
                return Err(StoreError::DamagedFile {
                    path: self.pack_path(pack),
                    offset,
                    why: "base objects are too large together",
                });
            }
        }
        Ok(out)
    }

    fn read_base(
        &self,
        id: &ObjectId,
        pack: PackId,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut why = "is missing".to_owned();
        if let Some((at, place)) = self.locate_or_wait(id)? {
            match self.read_plain(id, at, place, out) {
                Ok(()) => return Ok(()),
                Err(e) => why = format!("cannot be read: {e}"),
            }
        }
        // The place that was found first may be damaged, or in another frame with bases.
        let tables = read(&self.tables).clone();
        for table in &tables {
            if let Ok(Some((at, place))) = table.lookup(id, &self.budget)
                && self.read_plain(id, at, place, out).is_ok()
            {
                return Ok(());
            }
        }
        let mut is_read = false;
        self.each_hidden_table(&mut |table| {
            if let Ok(Some((at, place))) = table.lookup(id, &Budget::none()) {
                is_read = self.read_plain(id, at, place, out).is_ok();
            }
            if is_read {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if is_read {
            Ok(())
        } else {
            Err(StoreError::DamagedObject {
                id: *id,
                ty: ObjectType::Chunk,
                pack: self.pack_path(pack),
                offset,
                why: format!("a base object of the frame {why}"),
            })
        }
    }

    /// Appends the verified bytes of a chunk of which there is an intact copy in a frame without bases. Returns
    /// whether there is one. A frame with bases is never decoded for it.
    pub fn read_without_bases(&self, id: &ObjectId, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let tables = read(&self.tables).clone();
        for table in &tables {
            if let Some((pack, place)) = table.lookup(id, &self.budget)?
                && place.ty == ObjectType::Chunk
                && self.read_plain(id, pack, place, out).is_ok()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends the verified bytes of a chunk at a place whose frame needs no base. So reading a
    /// base never leads to another one.
    fn read_plain(
        &self,
        id: &ObjectId,
        pack: PackId,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let table = self.frame_table(pack, place.offset)?;
        if table.header.encoding == Encoding::ZstdWithBase {
            return Err(StoreError::DamagedFile {
                path: self.pack_path(pack),
                offset: place.offset,
                why: "a base object has a base itself",
            });
        }
        let start = out.len();
        let read = self.read_base_at_place(id, pack, place, out);
        if read.is_err() {
            out.truncate(start);
        }
        read
    }

    /// Returns whether intact copies of all bases of the frame at `offset` are in the pack itself. Only
    /// then the frame does not depend on other packs.
    pub(super) fn has_own_bases(&self, pack: PackId, offset: u64) -> bool {
        let Ok(table) = self.frame_table(pack, offset) else {
            return false;
        };
        table.base.iter().all(|id| self.has_plain(id, pack))
    }

    /// Returns which chunks of the packs `leaving` are bases of frames in other packs.
    ///
    /// A frame has its bases in its own pack. If they are damaged there, it can be read as long as
    /// another pack has them without bases. So a command that moves these chunks has to store them like that.
    pub(super) fn bases_of_others(
        &self,
        leaving: &HashSet<PackId>,
    ) -> Result<HashSet<ObjectId>, StoreError> {
        let rows = read(&self.rows).clone();
        let others = rows.iter().map(|row| row.id);
        let others = others.filter(|id| id.may_have_bases() && !leaving.contains(id));
        let others: Vec<PackId> = others.collect();
        let mut found = HashSet::new();
        if others.is_empty() {
            return Ok(found);
        }
        let merged = self.source.merged_segments()?;
        // The first bytes of the ids are enough: a base too many does no harm.
        let mut leave: Vec<u64> = Vec::new();
        self.each_listed(leaving, &merged, &mut |id, place| {
            leave.extend((place.ty == ObjectType::Chunk).then(|| start_of(id)));
        })?;
        leave.sort_unstable();
        leave.dedup();
        for pack in others {
            let mut frames = BTreeSet::new();
            self.each_listed(&HashSet::from([pack]), &merged, &mut |_, place| {
                frames.insert(place.offset);
            })?;
            for offset in frames {
                match self.frame_table(pack, offset) {
                    Ok(table) => {
                        let bases = table.base.iter();
                        found.extend(bases.filter(|id| leave.binary_search(&start_of(id)).is_ok()));
                    }
                    // Nobody can read the frame, whatever its bases are.
                    Err(StoreError::DamagedFile { .. }) => {}
                    Err(e) if is_gone(&e) => break,
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(found)
    }

    /// Visits what the own tables of some packs list. `merged` are the segments whose own tables are not
    /// in use. If one of these is damaged, what merged indexes say takes its place.
    fn each_listed(
        &self,
        packs: &HashSet<PackId>,
        merged: &[SegmentRow],
        visit: &mut dyn FnMut(&ObjectId, Place),
    ) -> Result<(), StoreError> {
        let mut are_whole = true;
        for row in merged.iter().filter(|row| packs.contains(&row.pack)) {
            let walked = self.each_of_segment(row, &mut |id, place| {
                visit(id, place);
                Ok(())
            });
            match walked {
                Ok(()) => {}
                Err(StoreError::DamagedFile { .. }) => are_whole = false,
                Err(e) if is_gone(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let tables = read(&self.tables).clone();
        for table in &tables {
            let may_tell = table.index_id().is_none() || !are_whole;
            if may_tell && table.packs_in_use().any(|pack| packs.contains(&pack)) {
                table.walk(&mut |entry, pack| {
                    if packs.contains(&pack) {
                        visit(&entry.id, entry.place);
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Returns whether a frame with these bases may be appended to `pack`: it has them all without bases, from
    /// the job that writes to it (`own`) or from one before.
    pub(super) fn has_bases(&self, own: &PlainChunks, pack: PackId, bases: &[ObjectId]) -> bool {
        let is_base = |id: &ObjectId| own.has(pack, id) || self.is_listed_plain(pack, id);
        bases.is_empty() || pack.may_have_bases() && bases.iter().all(is_base)
    }

    /// Returns whether the tables in use list a chunk in a frame of `pack` that needs no bases. Does not read
    /// the chunk.
    fn is_listed_plain(&self, pack: PackId, id: &ObjectId) -> bool {
        let tables = read(&self.tables).clone();
        tables.iter().any(|table| {
            let found = table.lookup(id, &self.budget).ok().flatten();
            found.is_some_and(|(at, place)| at == pack && self.is_plain(at, place.offset))
        })
    }

    /// Returns whether a pack may have frames with bases.
    pub fn may_have_bases(&self) -> bool {
        read(&self.rows).iter().any(|row| row.id.may_have_bases())
    }

    /// Returns whether the frame at `offset` needs no bases.
    pub(super) fn is_plain(&self, pack: PackId, offset: u64) -> bool {
        let table = self.frame_table(pack, offset);
        table.is_ok_and(|table| table.base.is_empty())
    }

    /// Returns a pack outside `leaving` that has a chunk in a frame without bases. Reads the chunk there.
    pub(super) fn plain_pack_of(
        &self,
        id: &ObjectId,
        leaving: &HashSet<PackId>,
    ) -> Result<Option<PackId>, StoreError> {
        let tables = read(&self.tables).clone();
        for table in &tables {
            if let Some((pack, place)) = table.lookup(id, &self.budget)?
                && !leaving.contains(&pack)
                && !read(&self.bad).has(pack, place.offset)
                && self.read_plain(id, pack, place, &mut Vec::new()).is_ok()
            {
                return Ok(Some(pack));
            }
        }
        Ok(None)
    }

    /// Stores bases of the frames that have `chunks` without bases of their own, if no such copy is intact
    /// and the store can read them in another way. Returns the result to publish.
    pub(crate) fn mend_bases(&self, chunks: &[ObjectId]) -> Result<FinishedJob, StoreError> {
        let tables = read(&self.tables).clone();
        let mut bases = HashSet::new();
        for id in chunks {
            for table in &tables {
                if let Ok(Some((pack, place))) = table.lookup(id, &self.budget)
                    && let Ok(frame) = self.frame_table(pack, place.offset)
                {
                    bases.extend(frame.base.iter().copied());
                }
            }
        }
        let no_pack = HashSet::new();
        bases.retain(|id| matches!(self.plain_pack_of(id, &no_pack), Ok(None)));
        let writer = self.writer()?.keeping_plain(bases.clone());
        let mut incoming = IncomingObjects::new(writer);
        for id in bases {
            let mut bytes = Vec::new();
            let is_read = self.read_into(ObjectType::Chunk, &id, &mut bytes);
            if is_read.unwrap_or(false)
                && let Ok(object) = CheckedObject::new(ObjectType::Chunk, bytes)
            {
                incoming.add_object(&object)?;
            }
        }
        incoming.finish()
    }

    fn has_plain(&self, id: &ObjectId, pack: PackId) -> bool {
        let is_here = |place| self.read_plain(id, pack, place, &mut Vec::new()).is_ok();
        let tables = read(&self.tables).clone();
        for table in &tables {
            if let Ok(Some((at, place))) = table.lookup(id, &self.budget)
                && at == pack
                && is_here(place)
            {
                return true;
            }
        }
        for segment in self.source.merged_segments().unwrap_or_default() {
            if segment.pack == pack
                && let Ok(table) = self.open_segment(&segment)
                && let Ok(Some((_, place))) = table.lookup(id, &Budget::none())
                && is_here(place)
            {
                return true;
            }
        }
        false
    }
}

pub(super) fn start_of(id: &ObjectId) -> u64 {
    id.as_bytes()[..8]
        .iter()
        .fold(0, |start, byte| start << 8 | u64::from(*byte))
}

/// Returns whether a pack's file is not there.
fn is_gone(e: &StoreError) -> bool {
    matches!(e, StoreError::Io(e) if e.kind() == std::io::ErrorKind::NotFound)
}

/// The chunks that a job has stored without bases in the pack that it is writing.
#[derive(Default)]
pub(super) struct PlainChunks {
    pack: Option<PackId>,
    ids: HashSet<ObjectId>,
}

impl PlainChunks {
    /// Notes a frame that was appended to `pack`.
    pub fn note(&mut self, pack: PackId, frame: &EncodedFrame<'_>) {
        if self.pack != Some(pack) {
            self.pack = Some(pack);
            self.ids.clear();
        }
        if frame.bases.is_empty() {
            let chunks = frame.objects.iter().filter(|o| o.ty == ObjectType::Chunk);
            let room = MOST_KNOWN.saturating_sub(self.ids.len());
            self.ids.extend(chunks.take(room).map(|o| o.id));
        }
    }

    /// Returns whether a chunk is stored without bases in `pack`.
    fn has(&self, pack: PackId, id: &ObjectId) -> bool {
        self.pack == Some(pack) && self.ids.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        Catalogue, FrameEncoder, FrameObject, NoSource, Owners, PackKind, RepositoryId, StoreWriter,
    };
    use crate::vfs::OsVfs;
    use ObjectType::Chunk;
    use dmv_random::noise;
    use std::sync::Arc;
    use tempfile::TempDir;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// A frame to be written: its chunk, its bases, and the prefix with which it is encoded.
    type Hostile<'h> = (&'h [u8], Vec<ObjectId>, &'h [u8]);

    fn object(bytes: &[u8]) -> FrameObject {
        let (id, len) = (Chunk.id_of(bytes), bytes.len() as u32);
        FrameObject { id, ty: Chunk, len }
    }

    /// Returns a store with a pack of `plain` chunks and of frames that keep no rule about bases.
    fn store(plain: &[&[u8]], frames: &[Hostile<'_>]) -> Result<(TempDir, Store), StoreError> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("packs")).expect("a directory");
        let (repo, empty) = (RepositoryId::from_bytes([9; 16]), Catalogue::default());
        let store = Store::open(
            Arc::new(OsVfs),
            dir.path(),
            Owners::alone(repo),
            empty,
            Arc::new(NoSource),
        )?;
        let writer = StoreWriter::fresh(&store, HashSet::new()).with_bases(true);
        let mut encoder = FrameEncoder::default();
        for bytes in plain {
            writer.append(PackKind::Data, &mut encoder, bytes, &[object(bytes)])?;
        }
        for (raw, bases, prefix) in frames {
            writer.plain().ids.extend(bases);
            let objects = [object(raw)];
            let frame = encoder.encode_with_bases(raw, &objects, bases, prefix);
            assert!(writer.append_frame(&frame.expect("memory"))?);
        }
        let job = writer.finish()?;
        store.adopt(&job);
        drop(job);
        Ok((dir, store))
    }

    fn read(store: &Store, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut out = Vec::new();
        assert!(store.read_into(Chunk, &Chunk.id_of(bytes), &mut out)?);
        Ok(out)
    }

    fn refused(store: &Store, bytes: &[u8], why: &str) {
        let e = read(store, bytes).expect_err(why).to_string();
        assert!(e.contains(why), "{e}");
    }

    #[test]
    fn a_frame_reads_back_with_its_bases_alone() -> Outcome {
        let (a, b) = (noise(1, 90_000), noise(2, 70_000));
        let prefix = [&a[..], &b].concat();
        let raw = [&b[1_000..], &a[..50_000]].concat();
        let ids = vec![Chunk.id_of(&a), Chunk.id_of(&b)];
        let (_dir, good) = store(&[&a, &b], &[(&raw, ids.clone(), &prefix)])?;
        assert_eq!(read(&good, &raw)?, raw);
        let place = good.locate(&Chunk.id_of(&raw))?.expect("it is listed");
        assert!(good.has_own_bases(place.0, place.1.offset));
        // In another order the prefix is another one.
        let swapped = ids.iter().rev().copied().collect();
        let (_dir, bad) = store(&[&a, &b], &[(&raw, swapped, &prefix)])?;
        assert!(read(&bad, &raw).is_err());
        let (_dir, bad) = store(&[&a], &[(&raw, ids, &prefix)])?;
        refused(&bad, &raw, "a base object of the frame is missing");
        Ok(())
    }

    #[test]
    fn bases_with_bases_and_loops_are_refused() -> Outcome {
        let a = noise(3, 50_000);
        let b = [&a[..], b"more"].concat();
        let c = [&b[..], b"still more"].concat();
        let id = |bytes: &[u8]| vec![Chunk.id_of(bytes)];
        let (_dir, deep) = store(&[&a], &[(&b, id(&a), &a), (&c, id(&b), &b)])?;
        assert_eq!(read(&deep, &b)?, b);
        refused(&deep, &c, "a base object has a base itself");
        let place = deep.locate(&Chunk.id_of(&c))?.expect("it is listed");
        assert!(!deep.has_own_bases(place.0, place.1.offset));
        let (_dir, itself) = store(&[b"other"], &[(&a, id(&a), &a)])?;
        refused(&itself, &a, "a base object has a base itself");
        let (_dir, circle) = store(&[b"other"], &[(&a, id(&b), &b), (&b, id(&a), &a)])?;
        refused(&circle, &a, "a base object has a base itself");
        refused(&circle, &b, "a base object has a base itself");
        Ok(())
    }

    #[test]
    fn a_second_copy_without_bases_serves_as_base() -> Outcome {
        let a = noise(4, 50_000);
        let b = [&a[..], b"more"].concat();
        let c = [&b[..], b"still more"].concat();
        let id = |bytes: &[u8]| vec![Chunk.id_of(bytes)];
        let (_dir, store) = store(&[&a], &[(&b, id(&a), &a), (&c, id(&b), &b)])?;
        refused(&store, &c, "a base object has a base itself");
        let writer = store.writer()?;
        writer.append(
            PackKind::Data,
            &mut FrameEncoder::default(),
            &b,
            &[object(&b)],
        )?;
        let job = writer.finish()?;
        store.adopt(&job);
        assert_eq!(read(&store, &c)?, c);
        let place = store.locate(&Chunk.id_of(&c))?.expect("it is listed");
        assert!(
            !store.has_own_bases(place.0, place.1.offset),
            "it is elsewhere"
        );
        Ok(())
    }

    #[test]
    fn a_base_that_only_a_difference_has_left_is_stored_again() -> Outcome {
        let a = noise(4, 50_000);
        let b = [&a[..], b"more"].concat();
        let c = [&b[..], b"still more"].concat();
        let id = |bytes: &[u8]| vec![Chunk.id_of(bytes)];
        let (_dir, store) = store(&[&a], &[(&b, id(&a), &a), (&c, id(&b), &b)])?;
        refused(&store, &c, "a base object has a base itself");
        let job = store.mend_bases(&id(&c))?;
        store.adopt(&job);
        drop(job);
        assert_eq!(read(&store, &c)?, c);
        assert_eq!(read(&store, &b)?, b);
        assert!(store.mend_bases(&id(&c))?.segments.is_empty());
        Ok(())
    }

    #[test]
    fn too_many_bytes_of_bases_are_refused() -> Outcome {
        let big: Vec<Vec<u8>> = (0..9).map(|n| noise(10 + n, 1 << 20)).collect();
        let plain: Vec<&[u8]> = big.iter().map(Vec::as_slice).collect();
        let ids = big.iter().map(|bytes| Chunk.id_of(bytes)).collect();
        let raw = big[8][..1_000].to_vec();
        let (_dir, bad) = store(&plain, &[(&raw, ids, &big[8])])?;
        refused(&bad, &raw, "too large together");
        Ok(())
    }

    #[test]
    fn a_writer_appends_no_frame_whose_bases_it_has_not_stored_before() -> Outcome {
        let (dir, store) = store(&[], &[])?;
        let a = noise(5, 40_000);
        let b = [&a[..], b"more"].concat();
        let ids = [Chunk.id_of(&a)];
        let (objects, mut encoder) = ([object(&b)], FrameEncoder::default());
        for has_bases in [true, false] {
            let writer = StoreWriter::fresh(&store, HashSet::new()).with_bases(has_bases);
            let frame = encoder.encode_with_bases(&b, &objects, &ids, &a)?;
            assert!(!writer.append_frame(&frame)?, "the base is not there");
            let mut plain = FrameEncoder::default();
            writer.append(PackKind::Data, &mut plain, &a, &[object(&a)])?;
            assert_eq!(writer.append_frame(&frame)?, has_bases);
            writer.discard();
        }
        let left = std::fs::read_dir(dir.path().join("packs"))?.count();
        assert!(left <= 1, "{left}");
        Ok(())
    }
}

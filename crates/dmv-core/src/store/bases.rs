//! Which frames depend on which: the bases that frames need, and copies that need none.
//!
//! A writer stores a frame with bases only behind its bases in the same pack, so a pack never needs another
//! one. A reader prefers these copies and takes any other copy that needs no base itself.

use super::catalogue::SegmentRow;
use super::error::StoreError;
use super::frame::EncodedFrame;
use super::id_search::head_of;
use super::index_entry::Place;
use super::pack_store::Store;
use super::random_id::PackId;
use crate::hash::ObjectId;
use crate::memory::Budget;
use crate::object::ObjectType;
use std::collections::{BTreeSet, HashSet};

/// Most chunks that a writer remembers as possible bases. Later ones are none.
const MOST_KNOWN: usize = 1 << 20;

impl Store {
    /// Returns whether intact copies of all bases of the frame at `offset` are in the pack itself. Only
    /// then the frame does not depend on other packs.
    fn has_own_bases(&self, pack: PackId, offset: u64) -> bool {
        let Ok(table) = self.reader.table(pack, offset) else {
            return false;
        };
        table.base.iter().all(|id| self.has_plain(id, pack))
    }

    /// Returns whether a pack has an intact copy of a chunk that needs no base.
    fn has_plain(&self, id: &ObjectId, pack: PackId) -> bool {
        let is_here = |(at, place): (PackId, Place)| {
            at == pack && self.read_plain(id, pack, place, &mut Vec::new()).is_ok()
        };
        if self.index.copies(id).flatten().any(is_here) {
            return true;
        }
        let hidden = self.freshness.source.merged_segments().unwrap_or_default();
        hidden.iter().filter(|row| row.pack == pack).any(|row| {
            let table = self.files().table_of(row).ok();
            let found = table.and_then(|table| table.lookup(id, &Budget::none()).ok()?);
            found.is_some_and(is_here)
        })
    }

    /// Returns whether the bytes at a place are those of `id`, and depend on no other pack.
    pub(super) fn is_intact_at(&self, id: &ObjectId, pack: PackId, place: Place) -> bool {
        self.can_read_at(id, pack, place) && self.has_own_bases(pack, place.offset)
    }

    /// Returns whether a pack other than `pack` has intact bytes of `id`, at a place that a table
    /// in use names.
    pub(crate) fn is_intact_outside(
        &self,
        id: &ObjectId,
        pack: PackId,
    ) -> Result<bool, StoreError> {
        for found in self.index.copies(id) {
            let (other, place) = found?;
            if other != pack && self.is_intact_at(id, other, place) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a pack outside `leaving` that has a chunk in a frame without bases. Reads the chunk there.
    pub(super) fn plain_pack_of(
        &self,
        id: &ObjectId,
        leaving: &HashSet<PackId>,
    ) -> Result<Option<PackId>, StoreError> {
        for found in self.index.copies(id) {
            let (pack, place) = found?;
            if !leaving.contains(&pack)
                && !self.damage.places().has(pack, place.offset)
                && self.read_plain(id, pack, place, &mut Vec::new()).is_ok()
            {
                return Ok(Some(pack));
            }
        }
        Ok(None)
    }

    /// Returns whether a frame with these bases may be appended to `pack`: it has them all without bases, from
    /// the job that writes to it (`own`) or from one before. Does not read them.
    pub(super) fn has_bases(&self, own: &PlainChunks, pack: PackId, bases: &[ObjectId]) -> bool {
        let is_listed_plain = |id: &ObjectId| {
            let mut copies = self.index.copies(id).flatten();
            copies.any(|(at, place)| at == pack && self.reader.is_plain(at, place.offset))
        };
        let is_base = |id: &ObjectId| own.has(pack, id) || is_listed_plain(id);
        bases.is_empty() || pack.may_have_bases() && bases.iter().all(is_base)
    }

    /// Returns whether a pack may have frames with bases.
    pub fn may_have_bases(&self) -> bool {
        let current = self.current();
        current.packs.iter().any(|row| row.id.may_have_bases())
    }

    /// Returns the bases of the frames in `pack` that have an object for which `stays` holds. The
    /// segments of the pack are `segments`. What a damaged table or frame hides is left out: the
    /// objects of such a frame are moved without their bases.
    pub(crate) fn bases_of_staying(
        &self,
        pack: PackId,
        segments: &[SegmentRow],
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
    ) -> Result<BTreeSet<ObjectId>, StoreError> {
        let mut bases = BTreeSet::new();
        for segment in segments.iter().filter(|_| pack.may_have_bases()) {
            let mut frames = BTreeSet::new();
            let walked = self.files().each_of_segment(segment, &mut |id, place| {
                if stays(id)? {
                    frames.insert(place.offset);
                }
                Ok(())
            });
            match walked {
                Ok(()) | Err(StoreError::DamagedFile { .. }) => {}
                Err(e) => return Err(e),
            }
            for offset in frames {
                if let Ok(table) = self.reader.table(pack, offset) {
                    bases.extend(&table.base);
                }
            }
        }
        Ok(bases)
    }

    /// Returns which chunks of the packs `leaving` are bases of frames in other packs.
    ///
    /// A frame has its bases in its own pack. If they are damaged there, it can be read as long as
    /// another pack has them without bases. So a command that moves these chunks has to store them like that.
    pub(super) fn bases_of_others(
        &self,
        leaving: &HashSet<PackId>,
    ) -> Result<HashSet<ObjectId>, StoreError> {
        let current = self.current();
        let others = current.packs.iter().map(|row| row.id);
        let others = others.filter(|id| id.may_have_bases() && !leaving.contains(id));
        let others: Vec<PackId> = others.collect();
        let mut found = HashSet::new();
        if others.is_empty() {
            return Ok(found);
        }
        let merged = self.freshness.source.merged_segments()?;
        // The first bytes of the ids are enough: a base too many does no harm.
        let mut leave: Vec<u64> = Vec::new();
        self.each_listed(leaving, &merged, &mut |id, place| {
            leave.extend((place.ty == ObjectType::Chunk).then(|| head_of(id.as_bytes())));
        })?;
        leave.sort_unstable();
        leave.dedup();
        for pack in others {
            let mut frames = BTreeSet::new();
            self.each_listed(&HashSet::from([pack]), &merged, &mut |_, place| {
                frames.insert(place.offset);
            })?;
            for offset in frames {
                match self.reader.table(pack, offset) {
                    Ok(table) => {
                        let bases = table.base.iter();
                        found.extend(
                            bases.filter(|id| leave.binary_search(&head_of(id.as_bytes())).is_ok()),
                        );
                    }
                    // The frame cannot be read, whatever its bases are.
                    Err(StoreError::DamagedFile { .. }) => {}
                    Err(e) if e.is_not_found() => break,
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
            let walked = self.files().each_of_segment(row, &mut |id, place| {
                visit(id, place);
                Ok(())
            });
            match walked {
                Ok(()) => {}
                Err(StoreError::DamagedFile { .. }) => are_whole = false,
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
        }
        for table in &self.current().tables {
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
            drop(writer);
        }
        let left = std::fs::read_dir(dir.path().join("packs"))?.count();
        assert!(left <= 1, "{left}");
        Ok(())
    }
}

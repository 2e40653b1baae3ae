//! Index tables: sorted ids with the place of each object.
//!
//! Every segment has its own table (docs/format/pack.md). Merged index files join many small tables
//! (docs/format/index.md). Both are read in the same way: a fan-out in memory, then one read of the
//! few entries that share the id's first bits. No file is mapped, so memory stays bounded whatever
//! the repository's size.

use super::error::StoreError;
use super::id_search::position;
use super::index_entry::{Entry, Place, SEGMENT_FIXED_BYTES, slot};
use super::layout::{
    ENTRY_BYTES, PAYLOAD_CHECK_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordType, Trailer, array,
};
use super::random_id::{IndexId, PackId};
use crate::hash::{ID_BYTES, ObjectId};
use crate::limits::MAX_SEGMENT_ENTRIES;
use crate::memory::Budget;
use crate::object::ObjectType;
use crate::path::PathContext;
use crate::vfs::VfsFile;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub(super) mod join;
mod merged;

pub(crate) use merged::write_merged;

const INDEX_MAGIC: &[u8; 8] = b"DMVINDX\n";
const INDEX_VERSION: u16 = 1;
const INDEX_HEADER_BYTES: usize = 24;
/// Length in bytes of an entry in a merged file: that of a segment and a pack number.
const MERGED_ENTRY_BYTES: usize = ENTRY_BYTES + 2;
/// Look-ups in a small table before its ids are worth remembering.
const LEAST_MISSES: u32 = 64;
/// Bytes that are read at a time when a table is walked.
const WALK_BYTES: usize = 64 << 10;

/// The entries of a table in memory, and the budget that they count against.
struct ResidentTable {
    entries: Vec<u8>,
    budget: Budget,
}

impl Drop for ResidentTable {
    fn drop(&mut self) {
        self.budget.give_back(self.entries.len());
    }
}

/// An index table in a file.
pub struct Table {
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    /// The packs of its entries; one for a segment.
    packs: Vec<PackId>,
    /// Those of them that are out of use. Their entries do not count.
    dead: Vec<PackId>,
    /// Number of entries that count.
    live: u32,
    bits: u8,
    fanout: Vec<u32>,
    n: u32,
    /// Range of bytes that the check covers; the check follows it.
    checked: (u64, u64),
    entries_at: u64,
    merged: bool,
    uses: TableUses,
}

/// How a table was used so far, and what is in memory because of that.
#[derive(Default)]
struct TableUses {
    lookups: AtomicU32,
    kept: OnceLock<ResidentTable>,
    /// Look-ups of ids that may be in no table.
    misses: AtomicU32,
    /// The number of the filter that has its ids; 0 if none has.
    filtered_by: AtomicU64,
}

impl Table {
    /// Opens the table of the segment that ends at `end` in `pack`.
    pub fn open_segment(
        path: &Path,
        file: Arc<dyn VfsFile>,
        pack: PackId,
        end: u64,
    ) -> Result<Table, StoreError> {
        let damaged = |offset, why| StoreError::damaged(path, offset, why);
        let trailer_at = end
            .checked_sub(32)
            .ok_or(damaged(end, "no segment ends here"))?;
        let trailer = Trailer::decode(&read_exactly(&*file, path, trailer_at, 32)?)
            .ok_or(damaged(trailer_at, "segment trailer fails its check"))?;
        let at = trailer.index_at;
        let fixed = read_exactly(&*file, path, at, 32 + SEGMENT_FIXED_BYTES)?;
        let header = RecordHeader::decode(&fixed).map_err(|why| damaged(at, why))?;
        if header.ty != RecordType::Index || !header.check_table(&[]) {
            return Err(damaged(at, "index record header fails its check"));
        }
        if at + header.record_len() != trailer_at {
            return Err(damaged(at, "index record does not reach the trailer"));
        }
        let payload_at = at + header.payload_at();
        let n = u32::from_le_bytes(array(&fixed[48..52]));
        let bits = fixed[52];
        let gaps = u64::from(u16::from_le_bytes([fixed[53], fixed[54]]));
        let fanout_at = payload_at + SEGMENT_FIXED_BYTES as u64 + 16 * gaps;
        let entries_at = fanout_at + (4u64 << bits.min(16));
        let size = entries_at - payload_at + u64::from(n) * ENTRY_BYTES as u64;
        if bits > 16 || n as usize > MAX_SEGMENT_ENTRIES || size != u64::from(header.stored_len) {
            return Err(damaged(at, "index record has the wrong size"));
        }
        let fanout = read_fanout(&*file, path, fanout_at, bits, n)?;
        Ok(Table {
            path: path.to_owned(),
            file,
            packs: vec![pack],
            dead: Vec::new(),
            live: n,
            fanout,
            n,
            bits,
            checked: (payload_at, payload_at + size),
            entries_at,
            merged: false,
            uses: TableUses::default(),
        })
    }

    /// Opens a merged index file. Its entries of packs that are not `in_use` do not count; `live` is
    /// the number of the others, if it is known.
    pub fn open_merged(
        path: &Path,
        file: Arc<dyn VfsFile>,
        live: Option<u32>,
        in_use: &dyn Fn(&PackId) -> bool,
    ) -> Result<Table, StoreError> {
        let damaged = |offset, why| StoreError::damaged(path, offset, why);
        let fixed = read_exactly(&*file, path, 0, INDEX_HEADER_BYTES)?;
        if &fixed[..8] != INDEX_MAGIC {
            return Err(damaged(0, "no index header"));
        }
        let version = u16::from_le_bytes([fixed[8], fixed[9]]);
        if version != INDEX_VERSION {
            if !ends_in_check(&*file, path)? {
                return Err(damaged(0, "index fails its check"));
            }
            return Err(StoreError::TooNew {
                path: path.to_owned(),
                version,
            });
        }
        let p = u64::from(u16::from_le_bytes([fixed[10], fixed[11]]));
        let n = u32::from_le_bytes(array(&fixed[12..16]));
        let bits = fixed[16];
        let fanout_at = INDEX_HEADER_BYTES as u64 + 16 * p;
        let entries_at = fanout_at + (4u64 << bits.min(16));
        let end = entries_at + u64::from(n) * MERGED_ENTRY_BYTES as u64;
        if bits > 16 || end + 8 != file.len().context("measure", path)? {
            return Err(damaged(0, "index file has the wrong size"));
        }
        let ids = read_exactly(&*file, path, INDEX_HEADER_BYTES as u64, 16 * p as usize)?;
        let fanout = read_fanout(&*file, path, fanout_at, bits, n)?;
        let packs: Vec<PackId> = ids
            .chunks_exact(16)
            .map(|id| PackId::from_bytes(array(id)))
            .collect();
        let dead = packs.iter().filter(|id| !in_use(id)).copied().collect();
        Ok(Table {
            path: path.to_owned(),
            file,
            packs,
            dead,
            live: live.unwrap_or(n),
            fanout,
            n,
            bits,
            checked: (0, end),
            entries_at,
            merged: true,
            uses: TableUses::default(),
        })
    }

    /// Returns the id of this merged index file; `None` for the table of a segment.
    pub fn index_id(&self) -> Option<IndexId> {
        let name = self.path.file_stem()?.to_str()?;
        self.merged.then(|| IndexId::from_hex(name))?
    }

    /// Returns the number of entries, also of those that do not count.
    pub fn entries(&self) -> u32 {
        self.n
    }

    /// Returns the number of entries that count.
    pub fn live_entries(&self) -> u32 {
        self.live
    }

    /// Returns whether this is the table of a segment of the pack.
    pub fn is_in(&self, pack: PackId) -> bool {
        !self.merged && self.packs.contains(&pack)
    }

    /// Returns the packs of all entries, also of those that do not count.
    pub fn packs(&self) -> &[PackId] {
        &self.packs
    }

    /// Returns the packs whose entries count.
    pub fn packs_in_use(&self) -> impl Iterator<Item = PackId> + use<'_> {
        let packs = self.packs.iter().filter(|id| self.counts(id));
        packs.copied()
    }

    fn counts(&self, pack: &PackId) -> bool {
        !self.dead.contains(pack)
    }

    fn stride(&self) -> usize {
        if self.merged {
            MERGED_ENTRY_BYTES
        } else {
            ENTRY_BYTES
        }
    }

    /// Returns the pack and place of `id`; `None` if this table does not have it. A table that is
    /// used often is kept in memory if `budget` allows it.
    pub fn lookup(
        &self,
        id: &ObjectId,
        budget: &Budget,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        Ok(self.find(id, budget)?.map(|(_, pack, place)| (pack, place)))
    }

    /// Returns the position of `id` in the table, counted from 0 in order of id.
    pub fn number_of(&self, id: &ObjectId, budget: &Budget) -> Result<Option<usize>, StoreError> {
        Ok(self.find(id, budget)?.map(|(number, ..)| number))
    }

    fn find(
        &self,
        id: &ObjectId,
        budget: &Budget,
    ) -> Result<Option<(usize, PackId, Place)>, StoreError> {
        let slot = slot(id.as_bytes(), self.bits);
        let from = if slot == 0 { 0 } else { self.fanout[slot - 1] } as usize;
        let to = self.fanout[slot] as usize;
        if from == to {
            return Ok(None);
        }
        let stride = self.stride();
        if let Some(all) = self.kept_entries(budget)? {
            return self.search(&all[from * stride..to * stride], from, id);
        }
        let at = self.entries_at + (from * stride) as u64;
        let bucket = read_exactly(&*self.file, &self.path, at, (to - from) * stride)?;
        self.search(&bucket, from, id)
    }

    /// Returns all entries once the table has been asked as often as it has slots. By then as many
    /// bytes have been read as keeping it costs.
    fn kept_entries(&self, budget: &Budget) -> Result<Option<&[u8]>, StoreError> {
        if let Some(kept) = self.uses.kept.get() {
            return Ok(Some(&kept.entries));
        }
        // A caller that keeps nothing leaves the single attempt to others.
        if budget.is_none() {
            return Ok(None);
        }
        let bytes = self.n as usize * self.stride();
        let asked = self.uses.lookups.fetch_add(1, Ordering::Relaxed);
        // Only one of the threads attempts it.
        if asked != 1 << self.bits || !budget.take(bytes) {
            return Ok(None);
        }
        let read = read_exactly(&*self.file, &self.path, self.entries_at, bytes);
        let entries = read.inspect_err(|_| budget.give_back(bytes))?;
        let budget = budget.clone();
        Ok(Some(
            &self
                .uses
                .kept
                .get_or_init(|| ResidentTable { entries, budget })
                .entries,
        ))
    }

    /// Returns how many ids were looked up one by one.
    #[cfg(test)]
    pub(super) fn look_ups(&self) -> u32 {
        self.uses.lookups.load(Ordering::Relaxed)
    }

    /// Returns whether the filter with this number has the ids of this table.
    pub(super) fn is_in_filter(&self, number: u64) -> bool {
        self.uses.filtered_by.load(Ordering::Acquire) == number
    }

    /// Records that the filter with this number has them.
    pub(super) fn note_in_filter(&self, number: u64) {
        self.uses.filtered_by.store(number, Ordering::Release);
    }

    /// Counts a look-up. Returns `true` once, when a few more of them would read as many bytes as the
    /// whole table has.
    pub(super) fn is_asked_often(&self) -> bool {
        let slots = 1_u32 << self.bits;
        let often = (slots / 4).max(LEAST_MISSES);
        self.uses.misses.fetch_add(1, Ordering::Relaxed) + 1 == often
    }

    /// Looks for `id` in `entries`, the first of which has the position `from`.
    fn search(
        &self,
        entries: &[u8],
        from: usize,
        id: &ObjectId,
    ) -> Result<Option<(usize, PackId, Place)>, StoreError> {
        let stride = self.stride();
        let n = entries.len() / stride;
        let found = position(id, n, self.bits, |n| &entries[n * stride..][..ID_BYTES]);
        let Some(at) = found else {
            return Ok(None);
        };
        let (entry, pack) = self.decode(&entries[at * stride..(at + 1) * stride])?;
        let counts = self.counts(&pack);
        Ok(counts.then_some((from + at, pack, entry.place)))
    }

    fn decode(&self, b: &[u8]) -> Result<(Entry, PackId), StoreError> {
        let damaged = |why| StoreError::damaged(&self.path, self.entries_at, why);
        let (pack, rest) = if self.merged {
            (usize::from(u16::from_le_bytes([b[32], b[33]])), &b[34..])
        } else {
            (0, &b[32..])
        };
        let pack = *self
            .packs
            .get(pack)
            .ok_or(damaged("index names an unknown pack"))?;
        let place = Place::decode(rest).ok_or(damaged("index names an unknown type"))?;
        let id = ObjectId::from_bytes(array(&b[..32]));
        Ok((Entry { id, place }, pack))
    }

    /// Returns the offset at which the segment's records end and its index begins; `None` for a
    /// merged index.
    pub(super) fn records_end(&self) -> Option<u64> {
        (!self.merged).then(|| self.checked.0 - RECORD_HEADER_BYTES as u64)
    }

    /// Calls `visit` for all entries that count, in order of id.
    pub fn walk(
        &self,
        visit: &mut dyn FnMut(Entry, PackId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.walk_numbered(&mut |_, entry, pack| visit(entry, pack))
    }

    /// Calls `visit` for all entries that count, in order of id, with the position of each in the table.
    pub fn walk_numbered(
        &self,
        visit: &mut dyn FnMut(usize, Entry, PackId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut walk = TableWalk::new(self);
        while let Some((entry, pack)) = walk.next()? {
            visit(walk.next as usize - 1, entry, pack)?;
        }
        Ok(())
    }

    /// Returns the ids that begin with `prefix` (whole bytes) and then the half byte `half`, at
    /// most `limit`.
    pub fn with_prefix(
        &self,
        prefix: &[u8],
        half: Option<u8>,
        limit: usize,
    ) -> Result<Vec<(ObjectId, ObjectType)>, StoreError> {
        let mut first = [0u8; 2];
        let known = prefix.len().min(2);
        first[..known].copy_from_slice(&prefix[..known]);
        let from = match slot(&first, self.bits) {
            0 => 0,
            s => self.fanout[s - 1],
        };
        let mut walk = TableWalk::new(self);
        walk.next = from;
        let mut found = Vec::new();
        while let Some((entry, _)) = walk.next()? {
            let id = entry.id.as_bytes();
            let head = &id[..prefix.len()];
            if head > prefix || found.len() >= limit {
                break;
            }
            let half_fits = half.is_none_or(|h| id.get(prefix.len()).is_some_and(|b| b >> 4 == h));
            if head == prefix && half_fits {
                found.push((entry.id, entry.place.ty));
            }
        }
        Ok(found)
    }

    /// Compares all bytes of the table with their check, and verifies the order of its ids.
    pub fn verify(&self) -> Result<(), StoreError> {
        let damaged = |offset, why| StoreError::damaged(&self.path, offset, why);
        let (from, to) = self.checked;
        if !check_holds(&*self.file, &self.path, from, to)? {
            return Err(damaged(from, "index fails its check"));
        }
        let (mut walk, mut last) = (TableWalk::new(self), None);
        while let Some((entry, _)) = walk.next_of_all()? {
            if last.is_some_and(|last| last >= entry.id) {
                return Err(damaged(from, "index is not sorted"));
            }
            last = Some(entry.id);
        }
        Ok(())
    }
}

/// Returns whether the check of `from..to` is at `to`.
fn check_holds(file: &dyn VfsFile, path: &Path, from: u64, to: u64) -> Result<bool, StoreError> {
    let mut hasher = crate::hash::Check::default();
    let mut at = from;
    while at < to {
        let len = (to - at).min(WALK_BYTES as u64) as usize;
        hasher.update(&read_exactly(file, path, at, len)?);
        at += len as u64;
    }
    Ok(read_exactly(file, path, to, PAYLOAD_CHECK_BYTES)? == hasher.finish())
}

/// Returns whether a file ends in the check of all its other bytes, as index files of any version
/// do.
fn ends_in_check(file: &dyn VfsFile, path: &Path) -> Result<bool, StoreError> {
    let len = file.len().context("measure", path)?;
    let end = len.saturating_sub(PAYLOAD_CHECK_BYTES as u64);
    check_holds(file, path, 0, end)
}

/// Reads a table from start to end in bounded memory.
struct TableWalk<'t> {
    table: &'t Table,
    next: u32,
    buffer: Vec<u8>,
    at: usize,
}

impl<'t> TableWalk<'t> {
    fn new(table: &'t Table) -> TableWalk<'t> {
        TableWalk {
            table,
            next: 0,
            buffer: Vec::new(),
            at: 0,
        }
    }

    /// Returns the next entry that counts.
    fn next(&mut self) -> Result<Option<(Entry, PackId)>, StoreError> {
        while let Some((entry, pack)) = self.next_of_all()? {
            if self.table.counts(&pack) {
                return Ok(Some((entry, pack)));
            }
        }
        Ok(None)
    }

    fn next_of_all(&mut self) -> Result<Option<(Entry, PackId)>, StoreError> {
        if self.next >= self.table.n {
            return Ok(None);
        }
        let stride = self.table.stride();
        if self.at == self.buffer.len() {
            let left = (self.table.n - self.next) as usize;
            let take = left.min(WALK_BYTES / stride) * stride;
            let at = self.table.entries_at + u64::from(self.next) * stride as u64;
            self.buffer = read_exactly(&*self.table.file, &self.table.path, at, take)?;
            self.at = 0;
        }
        let found = self.table.decode(&self.buffer[self.at..self.at + stride])?;
        self.at += stride;
        self.next += 1;
        Ok(Some(found))
    }
}

fn read_fanout(
    file: &dyn VfsFile,
    path: &Path,
    at: u64,
    bits: u8,
    n: u32,
) -> Result<Vec<u32>, StoreError> {
    let bytes = read_exactly(file, path, at, 4 << bits)?;
    let fanout: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(array(word)))
        .collect();
    if fanout.last() != Some(&n) || fanout.windows(2).any(|w| w[0] > w[1]) {
        let why = "index fan-out is not a running sum";
        return Err(StoreError::damaged(path, at, why));
    }
    Ok(fanout)
}

/// Reads exactly `len` bytes. Fails if the file ends too soon.
pub(crate) fn read_exactly(
    file: &dyn VfsFile,
    path: &Path,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut buf = vec![0; len];
    let n = file.read_at(&mut buf, offset).context("read", path)?;
    if n < len {
        return Err(StoreError::damaged(path, offset, "file ends too soon"));
    }
    Ok(buf)
}

#[cfg(test)]
pub(super) mod tests;

//! Rebuilding the catalogue from the packs alone.
//!
//! [`recover_store`] serves `dmv recover`: it scans every pack and appends new indexes where they
//! are lost. [`add_closed_segments`] finds segments that a catalogue does not list yet, and only
//! reads. Operations are not examined here; `refs` decodes them.

use super::bases_in_pack::InPack;
use super::error::StoreError;
use super::frame::FrameTable;
use super::layout::{
    Encoding, LayoutError, PACK_HEADER_BYTES, PackHeader, PackKind, TRAILER_BYTES,
};
use super::owners::Owners;
use super::random_id::{PackId, RepositoryId};
use super::scan::{ScannedPart, after_cut_records, checked_payload, entries_of, record_at, scan};
use super::table::{Entry, MAX_GAPS, Place, Table, gaps_of};
use super::write::OpenPack;
use super::{Catalogue, PackRow, SegmentRow};
use crate::hash::ObjectId;
use crate::limits::MAX_SEGMENT_ENTRIES;
use crate::memory::Budget;
use crate::object::ObjectType;
use crate::path::{PathContext, PathError};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of a pack that are copied at once.
const COPIED_AT_ONCE: usize = 1 << 20;

/// The result of a scan of all packs.
#[derive(Debug, Default)]
pub(crate) struct RecoveredStore {
    /// Every pack and segment found, without merged indexes.
    pub catalogue: Catalogue,
    /// Number of objects that no intact index listed and that a new index lists now.
    pub reindexed: u64,
    /// Stretches without an intact record: (file, offset, bytes).
    pub garbage: Vec<(PathBuf, u64, u64)>,
    /// Files in `packs/` that are not packs of this repository.
    pub foreign: Vec<PathBuf>,
    /// Packs that another process is writing to. Its unclosed segments are left to it.
    pub busy: Vec<PathBuf>,
    /// Packs in the catalogue that another repository has written.
    pub shared: HashSet<PackId>,
    /// Frames in these packs that lost their index, by pack and offset. They must be stored again.
    pub unlisted: Vec<(PackId, u64)>,
}

/// Scans every pack in `packs_dir`, and appends a new index for objects whose index is lost.
///
/// It changes no existing bytes, except that it restores a damaged header. If the file of that pack has
/// other names, it restores the header in a copy. If another process has locked a pack, or if the
/// repository shares it, it takes the closed segments of the pack as they are.
///
/// It leaves out the packs `leaving`, which are out of use. `progress` receives the bytes read and
/// the total, and ends the work by returning `false`.
pub(crate) fn recover_store(
    vfs: &dyn Vfs,
    packs_dir: &Path,
    owners: &Owners,
    leaving: &[PackId],
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<RecoveredStore, StoreError> {
    let mut out = RecoveredStore::default();
    let mut names = vfs.list(packs_dir).context("list", packs_dir)?;
    names.sort();
    let mut total = 0;
    for name in names.iter().filter(|name| name.ends_with(".pack")) {
        let file = vfs.open(&packs_dir.join(name), OpenMode::Read);
        total += file.and_then(|file| file.len()).unwrap_or(0);
    }
    let mut before = 0;
    for name in names {
        let mut read = |bytes: u64| {
            if progress(before + bytes, total) {
                Ok(())
            } else {
                Err(StoreError::Cancelled)
            }
        };
        let path = packs_dir.join(&name);
        let Some(id) = name.strip_suffix(".pack").and_then(PackId::from_hex) else {
            out.foreign.push(path);
            continue;
        };
        // Other code reads the operations.
        if id == owners.own().log_pack() || leaving.contains(&id) {
            continue;
        }
        match recover_pack(vfs, &path, id, owners, &mut out, &mut read)? {
            Some(row) => out.catalogue.packs.push(row),
            None => out.foreign.push(path.clone()),
        }
        let file = vfs.open(&path, OpenMode::Read).context("open", &path)?;
        before += file.len().context("measure", &path)?;
    }
    sync_names(vfs, packs_dir)?;
    Ok(out)
}

/// Makes the names of the packs durable. If the writer of a pack was killed, its name may not be.
fn sync_names(vfs: &dyn Vfs, packs_dir: &Path) -> Result<(), StoreError> {
    Ok(vfs.sync_dir(packs_dir).context("sync", packs_dir)?)
}

/// Adds to `out` what one file in `packs/` holds. Returns its row; `None` if it is not a pack of this
/// repository.
fn recover_pack(
    vfs: &dyn Vfs,
    path: &Path,
    id: PackId,
    owners: &Owners,
    out: &mut RecoveredStore,
    read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
) -> Result<Option<PackRow>, StoreError> {
    let repo = owners.own();
    let file = vfs.open(path, OpenMode::Append).context("open", path)?;
    match kind_in_header(&*file, path, owners)? {
        HeaderKind::OfSharedPack => return take_closed(vfs, path, id, owners, out),
        HeaderKind::Foreign => return Ok(None),
        HeaderKind::OfPack(_) | HeaderKind::Damaged => {}
    }
    if !file.try_lock().context("lock", path)? {
        out.busy.push(path.to_owned());
        return take_closed(vfs, path, id, owners, out);
    }
    // Only from here on nobody else writes to the pack. A writer that has just left it may have added
    // a segment, and its header.
    let len = file.len().context("measure", path)?;
    let kind = match kind_in_header(&*file, path, owners)? {
        HeaderKind::OfPack(kind) => Some(kind),
        HeaderKind::OfSharedPack | HeaderKind::Foreign | HeaderKind::Damaged => None,
    };
    let has_other_names = file.has_other_names().context("inspect", path)?;
    let (file, kind) = match kind {
        // Nothing is appended to a file that another repository may use. What lost its index is stored
        // once more, and the end of the file with it: no other writer has left it.
        Some(kind) if has_other_names => {
            let mut closed = closed_part(&file, path, (id, kind), PACK_HEADER_BYTES)?;
            closed.unlisted.append(&mut closed.open);
            return Ok(Some(take_part(id, closed, false, out)));
        }
        Some(kind) => (file, kind),
        None => {
            let Some(kind) = kind_of_frames(&*file, path, len)? else {
                return Ok(None);
            };
            // Everything in a header is known from elsewhere, and without a header the pack is not
            // written to.
            let header = PackHeader { kind, repo, id };
            if has_other_names {
                // Another repository may have written it.
                out.shared.insert(id);
                match own_copy(vfs, path, &*file, &header) {
                    Ok(copy) => (copy, kind),
                    // There is no room. The objects can be read without a header.
                    Err(_) => {
                        let closed = closed_part(&file, path, (id, kind), PACK_HEADER_BYTES)?;
                        return Ok(Some(take_part(id, closed, true, out)));
                    }
                }
            } else {
                file.write_at(&header.encode(), 0)
                    .context("write to", path)?;
                (file, kind)
            }
        }
    };
    let pack = LockedPack {
        id,
        kind,
        path,
        file: &file,
        len,
    };
    let mut content = pack.scan(&mut out.garbage, read)?;
    let lost_index = pack.entries_without_index(&mut content, read)?;
    out.reindexed += lost_index.len() as u64;
    let segments = pack.write_lost_indexes(content, lost_index)?;
    // The rest is a torn tail, which the next writer examines.
    let row = row_of(id, kind, &segments);
    out.catalogue.segments.extend(segments);
    Ok(Some(row))
}

/// Puts a copy of a pack with another header in the place of its name. The file with its other names
/// stays as it is.
fn own_copy(
    vfs: &dyn Vfs,
    path: &Path,
    file: &dyn VfsFile,
    header: &PackHeader,
) -> Result<Arc<dyn VfsFile>, StoreError> {
    let temp = path.with_extension("copy");
    let _ = vfs.remove(&temp);
    let copy = vfs
        .open(&temp, OpenMode::CreateNew)
        .context("create", &temp)?;
    let fill = || {
        copy.write_at(&header.encode(), 0)?;
        let (mut at, mut part) = (PACK_HEADER_BYTES, vec![0; COPIED_AT_ONCE]);
        loop {
            let n = file.read_at(&mut part, at)?;
            if n == 0 {
                break;
            }
            copy.write_at(&part[..n], at)?;
            at += n as u64;
        }
        copy.sync()?;
        copy.try_lock()?;
        vfs.rename(&temp, path)
    };
    match fill() {
        Ok(()) => Ok(copy),
        Err(e) => {
            let _ = vfs.remove(&temp);
            Err(PathError::new("copy", path, e).into())
        }
    }
}

/// Returns the row of a pack that ends with the last of `segments`.
fn row_of(id: PackId, kind: PackKind, segments: &[SegmentRow]) -> PackRow {
    PackRow {
        id,
        kind,
        len: segments.last().map_or(PACK_HEADER_BYTES, |s| s.end),
        poisoned: false,
    }
}

/// What the header of a file in `packs/` says.
enum HeaderKind {
    OfPack(PackKind),
    /// The repository shares it with the one that has written it.
    OfSharedPack,
    /// It is unfinished or damaged: the records show the kind.
    Damaged,
    /// The file is a log pack, or belongs to another repository.
    Foreign,
}

fn kind_in_header(
    file: &dyn VfsFile,
    path: &Path,
    owners: &Owners,
) -> Result<HeaderKind, StoreError> {
    let mut header = vec![0; PACK_HEADER_BYTES as usize];
    let n = file.read_at(&mut header, 0).context("read", path)?;
    match PackHeader::decode(&header[..n]) {
        Ok(header) if !owners.has(header.repo) || header.kind == PackKind::Log => {
            Ok(HeaderKind::Foreign)
        }
        Ok(header) if header.repo != owners.own() => Ok(HeaderKind::OfSharedPack),
        Ok(header) => Ok(HeaderKind::OfPack(header.kind)),
        Err(LayoutError::Bad(_)) => Ok(HeaderKind::Damaged),
        Err(LayoutError::TooNew(version)) => Err(StoreError::TooNew {
            path: path.to_owned(),
            version,
        }),
    }
}

/// Takes the closed segments of a pack that must not be written to now.
fn take_closed(
    vfs: &dyn Vfs,
    path: &Path,
    id: PackId,
    owners: &Owners,
    out: &mut RecoveredStore,
) -> Result<Option<PackRow>, StoreError> {
    let closed = closed_segments(vfs, path, id, owners, PACK_HEADER_BYTES)?;
    Ok(closed.map(|(closed, is_shared)| take_part(id, closed, is_shared, out)))
}

/// Takes the closed part of a pack. Returns the pack's row, according to which it must not be written to
/// if it is shared.
fn take_part(id: PackId, closed: ClosedPart, is_shared: bool, out: &mut RecoveredStore) -> PackRow {
    out.unlisted
        .extend(closed.unlisted.iter().map(|at| (id, *at)));
    if is_shared {
        out.shared.insert(id);
    }
    let row = row_of(id, closed.kind, &closed.segments);
    out.catalogue.segments.extend(closed.segments);
    PackRow {
        poisoned: is_shared,
        ..row
    }
}

/// A pack that no other process is writing to.
struct LockedPack<'p> {
    id: PackId,
    kind: PackKind,
    path: &'p Path,
    file: &'p Arc<dyn VfsFile>,
    len: u64,
}

/// What a scan of a pack finds.
#[derive(Default)]
struct PackContent {
    /// Offsets of frames.
    frames: Vec<u64>,
    /// Stretches without usable records.
    gaps: Vec<(u64, u64)>,
    /// The gaps that earlier writers recorded: a truncated raw frame looks like one with other
    /// bytes.
    recorded_gaps: Vec<(u64, u64)>,
    /// Segments with an intact table.
    segments: Vec<SegmentRow>,
    /// Their tables.
    tables: Vec<Table>,
    /// Offsets of frames in these tables.
    covered: HashSet<u64>,
}

impl PackContent {
    fn is_listed(&self, frame: u64) -> bool {
        let is_in_gap = |gap: &(u64, u64)| gap.0 <= frame && frame < gap.1;
        self.covered.contains(&frame) || self.recorded_gaps.iter().any(is_in_gap)
    }

    fn place_of(&self, id: &ObjectId) -> Option<Place> {
        let mut tables = self.tables.iter();
        let found = tables.find_map(|table| table.lookup(id, &Budget::none()).ok().flatten());
        found.map(|(_, place)| place)
    }

    fn is_in_a_table(&self, entry: &Entry) -> Result<bool, StoreError> {
        for table in &self.tables {
            if table.lookup(&entry.id, &Budget::none())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl LockedPack<'_> {
    /// Finds frames, gaps and segments with intact tables.
    fn scan(
        &self,
        garbage: &mut Vec<(PathBuf, u64, u64)>,
        read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<PackContent, StoreError> {
        let (file, path) = (self.file, self.path);
        let mut content = PackContent::default();
        scan(
            &**file,
            path,
            PACK_HEADER_BYTES,
            self.len,
            &mut |at, found| {
                // Scanning skips payloads. They are read when an index is checked, at the trailer that
                // ends it, or after the scan.
                read(at)?;
                match found {
                    ScannedPart::Frame(_) => content.frames.push(at),
                    ScannedPart::Trailer(trailer) => {
                        let end = at + TRAILER_BYTES as u64;
                        if let Some((table, named)) = good_table(path, file, self.id, end, read)? {
                            content.segments.push(SegmentRow {
                                pack: self.id,
                                kind: self.kind,
                                start: trailer.start,
                                end,
                                entries: table.entries(),
                            });
                            content.tables.push(table);
                            content.covered.extend(named);
                        }
                    }
                    ScannedPart::Garbage(to) => {
                        garbage.push((path.to_owned(), at, to - at));
                        content.gaps.push((at, to));
                    }
                    ScannedPart::Index(header) => {
                        match checked_payload(&**file, path, at, &header)? {
                            Some(payload) => content.recorded_gaps.extend(gaps_of(&payload)),
                            None => content.gaps.push((at, at + header.record_len())),
                        }
                    }
                    ScannedPart::Operation(_) => {}
                }
                Ok(())
            },
        )?;
        Ok(content)
    }

    /// Returns the intact objects of frames that no intact table lists. Frames without any are
    /// gaps.
    fn entries_without_index(
        &self,
        content: &mut PackContent,
        read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut lost_index: Vec<Entry> = Vec::new();
        let bases = InPack::new(&**self.file, self.path, self.len);
        let mut places: HashMap<ObjectId, Place> = HashMap::new();
        for at in std::mem::take(&mut content.frames) {
            if content.is_listed(at) {
                continue;
            }
            let record = record_at(&**self.file, self.path, at, self.len)?;
            let Some((ScannedPart::Frame(table), _)) = record else {
                continue;
            };
            read(at)?;
            // Bases come first in their pack.
            let find = |id: &ObjectId| {
                let lost = places.get(id).copied();
                lost.or_else(|| content.place_of(id))
            };
            let prefix = |table: &FrameTable| bases.prefix(table, &find);
            let intact = entries_of(&**self.file, self.path, at, &table, &prefix)?;
            if intact.is_empty() {
                content.gaps.push((at, at + table.header.record_len()));
            }
            for entry in intact {
                if !content.is_in_a_table(&entry)? {
                    if self.id.may_have_bases() && table.base.is_empty() {
                        places.insert(entry.id, entry.place);
                    }
                    lost_index.push(entry);
                }
            }
        }
        Ok(lost_index)
    }

    /// Appends indexes over `lost_index`. Returns all segments of the pack.
    fn write_lost_indexes(
        &self,
        content: PackContent,
        lost_index: Vec<Entry>,
    ) -> Result<Vec<SegmentRow>, StoreError> {
        let PackContent {
            mut gaps,
            mut segments,
            ..
        } = content;
        let previous_end = segments.last().map_or(0, |s| s.end);
        let first = lost_index.iter().map(|e| e.place.offset).min();
        let start = previous_end
            .max(PACK_HEADER_BYTES)
            .min(first.unwrap_or(self.len));
        let end = after_cut_records(&**self.file, self.path, self.len, &mut gaps)?;
        gaps.retain(|gap| gap.0 >= start);
        gaps.truncate(MAX_GAPS);
        let (path, file) = (self.path.to_owned(), self.file.clone());
        let mut pack = OpenPack::resume(self.id, path, file, end, start, previous_end);
        pack.gaps = gaps;
        for entry in lost_index {
            if pack.entries.len() == MAX_SEGMENT_ENTRIES {
                segments.extend(pack.write_segment(self.kind)?.map(|(row, _)| row));
            }
            pack.entries.push(entry);
        }
        segments.extend(pack.write_segment(self.kind)?.map(|(row, _)| row));
        self.file.sync().context("sync", self.path)?;
        Ok(segments)
    }
}

/// Updates `catalogue` to the present packs: adds segments that were closed since, and packs that
/// were added or removed. Returns the new segments.
///
/// It only reads, even packs that others are writing to. A closed segment whose job is not
/// published yet may be among the results; nothing names its objects. Everything it finds is
/// durable.
///
/// `locked_too` includes locked packs that the catalogue does not list. One of them may be about to
/// be removed, unless the caller holds the right to keep. The packs `leaving`, which are out of use,
/// are left out.
pub(crate) fn add_closed_segments(
    vfs: &dyn Vfs,
    packs_dir: &Path,
    owners: &Owners,
    catalogue: &mut Catalogue,
    leaving: &[PackId],
    locked_too: bool,
) -> Result<Vec<SegmentRow>, StoreError> {
    let mut found = Vec::new();
    let mut there = HashSet::new();
    for name in vfs.list(packs_dir).context("list", packs_dir)? {
        let Some(id) = name.strip_suffix(".pack").and_then(PackId::from_hex) else {
            continue;
        };
        let known = catalogue.packs.iter().position(|row| row.id == id);
        if known.is_none() && leaving.contains(&id) {
            continue;
        }
        there.insert(id);
        if id == owners.own().log_pack() {
            continue;
        }
        let from = known.map_or(PACK_HEADER_BYTES, |n| catalogue.packs[n].len);
        let path = packs_dir.join(&name);
        let is_stranger = known.is_none() && !locked_too;
        if is_stranger && !is_unlocked(vfs, &path) {
            continue;
        }
        // What others add to a shared pack does not belong to this repository.
        let Some((closed, false)) = closed_segments(vfs, &path, id, owners, from)? else {
            continue;
        };
        let ClosedPart { kind, segments, .. } = closed;
        let Some(len) = segments.last().map(|segment| segment.end) else {
            continue;
        };
        match known {
            Some(n) => catalogue.packs[n].len = len,
            None => catalogue.packs.push(PackRow {
                id,
                kind,
                len,
                poisoned: false,
            }),
        }
        found.extend(segments);
    }
    catalogue.packs.retain(|row| there.contains(&row.id));
    catalogue.segments.extend(&found);
    catalogue.segments.retain(|row| there.contains(&row.pack));
    if !found.is_empty() {
        sync_names(vfs, packs_dir)?;
    }
    Ok(found)
}

fn is_unlocked(vfs: &dyn Vfs, path: &Path) -> bool {
    let file = vfs.open(path, OpenMode::Append);
    file.and_then(|file| file.try_lock()).unwrap_or(false)
}

/// The closed part of a pack.
struct ClosedPart {
    kind: PackKind,
    /// The intact segments.
    segments: Vec<SegmentRow>,
    /// Offsets of the closed frames that no intact segment names.
    unlisted: Vec<u64>,
    /// Offsets of the frames after them.
    open: Vec<u64>,
}

/// Returns the closed part of a pack from offset `from` on, and whether another repository has written
/// the pack; `None` if it is not a pack of this repository.
fn closed_segments(
    vfs: &dyn Vfs,
    path: &Path,
    id: PackId,
    owners: &Owners,
    from: u64,
) -> Result<Option<(ClosedPart, bool)>, StoreError> {
    let file = match vfs.open(path, OpenMode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.context("open", path)?,
    };
    let mut header = [0; PACK_HEADER_BYTES as usize];
    let n = file.read_at(&mut header, 0).context("read", path)?;
    let header = match PackHeader::decode(&header[..n]) {
        Ok(header) if owners.has(header.repo) && header.kind != PackKind::Log => header,
        _ => return Ok(None),
    };
    let closed = closed_part(&file, path, (id, header.kind), from)?;
    Ok(Some((closed, header.repo != owners.own())))
}

/// Returns the closed part of a pack of some kind from offset `from` on, and makes it durable.
fn closed_part(
    file: &Arc<dyn VfsFile>,
    path: &Path,
    (id, kind): (PackId, PackKind),
    from: u64,
) -> Result<ClosedPart, StoreError> {
    let len = file.len().context("measure", path)?;
    let mut segments: Vec<SegmentRow> = Vec::new();
    // Frames since the last trailer, and those before it that it should have closed.
    let (mut open, mut unlisted) = (Vec::new(), Vec::new());
    scan(&**file, path, from, len, &mut |at, found| {
        let trailer = match found {
            ScannedPart::Trailer(trailer) => trailer,
            ScannedPart::Frame(_) => {
                open.push(at);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let end = at + TRAILER_BYTES as u64;
        if let Some((table, named)) = good_table(path, file, id, end, &mut |_| Ok(()))? {
            segments.push(SegmentRow {
                pack: id,
                kind,
                start: trailer.start,
                end,
                entries: table.entries(),
            });
            unlisted.retain(|at| !named.contains(at));
            open.retain(|at| !named.contains(at));
        }
        unlisted.append(&mut open);
        Ok(())
    })?;
    if !segments.is_empty() {
        file.sync().context("sync", path)?;
    }
    Ok(ClosedPart {
        kind,
        segments,
        unlisted,
        open,
    })
}

/// Returns the repository that the packs in a directory belong to, and those that it shares packs with, by
/// their headers; `None` if they do not show it.
///
/// The log pack is of this one. Without it, packs without other names show the repository, since nobody
/// else uses them. If they do not, it gets a new id: with the id of another repository, it would write
/// to that one's packs.
pub(crate) fn repository_of(vfs: &dyn Vfs, packs_dir: &Path) -> Result<Option<Owners>, StoreError> {
    let (mut found, mut logged, mut unshared) = (HashSet::new(), HashSet::new(), HashSet::new());
    for name in vfs.list(packs_dir).context("list", packs_dir)? {
        let Some(id) = name.strip_suffix(".pack").and_then(PackId::from_hex) else {
            continue;
        };
        let path = packs_dir.join(name);
        let file = vfs.open(&path, OpenMode::Read).context("open", &path)?;
        let mut header = [0; PACK_HEADER_BYTES as usize];
        let n = file.read_at(&mut header, 0).context("read", &path)?;
        match PackHeader::decode(&header[..n]) {
            Ok(header) => {
                found.insert(header.repo);
                if header.kind == PackKind::Log {
                    logged.insert(header.repo);
                } else if !file.has_other_names().context("inspect", &path)? {
                    unshared.insert(header.repo);
                }
            }
            Err(_) if has_operations(&*file, &path)? => {
                logged.insert(id.of_log());
            }
            Err(_) => {}
        }
    }
    if found.is_empty() && logged.is_empty() || logged.len() > 1 {
        return Ok(None);
    }
    let only = |ids: &HashSet<RepositoryId>| match ids.len() {
        1 => ids.iter().next().copied(),
        _ => None,
    };
    let own = only(&logged).or_else(|| only(&unshared));
    let own = own.unwrap_or_else(RepositoryId::random);
    Ok(Owners::sharing(own, found))
}

/// Returns whether a file holds operations, as only a log pack does.
fn has_operations(file: &dyn VfsFile, path: &Path) -> Result<bool, StoreError> {
    let len = file.len().context("measure", path)?;
    let mut found = false;
    scan(file, path, PACK_HEADER_BYTES, len, &mut |_, item| {
        found |= matches!(item, ScannedPart::Operation(_));
        Ok(())
    })?;
    Ok(found)
}

/// Returns the kind of a pack by its first frame with an intact object; `None` if it has none.
fn kind_of_frames(
    file: &dyn VfsFile,
    path: &Path,
    len: u64,
) -> Result<Option<PackKind>, StoreError> {
    let mut kind = None;
    scan(file, path, PACK_HEADER_BYTES, len, &mut |at, found| {
        if let (ScannedPart::Frame(table), None) = (found, kind) {
            let entries = entries_of(file, path, at, &table, &|_| None)?;
            kind = entries.first().map(|entry| match entry.place.ty {
                ObjectType::Chunk => PackKind::Data,
                _ => PackKind::Meta,
            });
        }
        Ok(())
    })?;
    Ok(kind)
}

/// Returns the table that ends at `end` and the frames that it names, if all of them are intact.
///
/// An intact index does not prove that its frames are intact: a crash before a job's sync may keep
/// one and lose the other. A table that names lost objects would prevent them from being stored
/// again.
fn good_table(
    path: &Path,
    file: &Arc<dyn VfsFile>,
    id: PackId,
    end: u64,
    read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
) -> Result<Option<(Table, HashSet<u64>)>, StoreError> {
    let Ok(table) = Table::open_segment(path, file.clone(), id, end) else {
        return Ok(None);
    };
    if table.verify().is_err() {
        return Ok(None);
    }
    let mut named: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
    table.walk(&mut |entry, _| {
        named.entry(entry.place.offset).or_default().push(entry);
        Ok(())
    })?;
    for (at, entries) in &named {
        read(*at)?;
        if *at >= end || !frame_holds(&**file, path, *at, end, entries)? {
            return Ok(None);
        }
    }
    Ok(Some((table, named.into_keys().collect())))
}

/// Returns whether the frame at `at` is intact and has the objects that a table names.
fn frame_holds(
    file: &dyn VfsFile,
    path: &Path,
    at: u64,
    end: u64,
    entries: &[Entry],
) -> Result<bool, StoreError> {
    let Some((ScannedPart::Frame(table), _)) = record_at(file, path, at, end)? else {
        return Ok(false);
    };
    if table.header.encoding == Encoding::ZstdWithBase {
        // Its base may be anywhere. Its check shows that its own bytes are intact.
        return Ok(checked_payload(file, path, at, &table.header)?.is_some());
    }
    let found = entries_of(file, path, at, &table, &|_| None)?;
    let holds = |e: &Entry| found.get(usize::from(e.place.ordinal)) == Some(e);
    Ok(entries.iter().all(holds))
}

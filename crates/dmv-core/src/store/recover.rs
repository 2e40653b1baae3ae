//! Rebuilding the catalogue from the packs alone.
//!
//! [`recover_store`] serves `dmv recover`: it scans every pack and appends new indexes where they
//! are lost. [`add_closed_segments`] finds segments that a catalogue does not list yet, and only
//! reads. Operations are not examined here; `refs` decodes them.

mod closed;
mod content;
mod repository;

pub(crate) use closed::add_closed_segments;
pub(crate) use repository::repository_of;

use super::bases_in_pack::InPack;
use super::catalogue::{Catalogue, PackRow, SegmentRow};
use super::error::StoreError;
use super::frame::FrameTable;
use super::index_entry::{Entry, MAX_GAPS, Place};
use super::layout::{PACK_HEADER_BYTES, PackHeader, PackKind};
use super::open_pack::{LockedPack, OpenPack};
use super::owners::Owners;
use super::random_id::PackId;
use super::scan::{ScannedPart, after_cut_records, entries_of, record_at, scan};
use crate::hash::ObjectId;
use crate::limits::MAX_SEGMENT_ENTRIES;
use crate::object::ObjectType;
use crate::path::{PathContext, PathError};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use closed::{ClosedPart, closed_part, closed_segments, row_of};
use content::{HeaderKind, PackContent, PackFile, kind_in_header};
use std::collections::{HashMap, HashSet};
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
        HeaderKind::OfSharedPack(_) => return take_closed(vfs, path, id, owners, out),
        HeaderKind::Foreign => return Ok(None),
        HeaderKind::OfPack(_) | HeaderKind::Damaged => {}
    }
    if !file.try_lock().context("lock", path)? {
        out.busy.push(path.to_owned());
        return take_closed(vfs, path, id, owners, out);
    }
    // Only from here on no other process writes to the pack. A writer that has just left it may have added
    // a segment, and its header.
    let len = file.len().context("measure", path)?;
    let kind = match kind_in_header(&*file, path, owners)? {
        HeaderKind::OfPack(kind) => Some(kind),
        HeaderKind::OfSharedPack(_) | HeaderKind::Foreign | HeaderKind::Damaged => None,
    };
    let has_other_names = file.has_other_names().context("inspect", path)?;
    let closed = |kind, is_shared| {
        let file = &file;
        let pack = PackFile {
            id,
            kind,
            path,
            file,
            len,
        };
        closed_part(&pack, PACK_HEADER_BYTES, is_shared)
    };
    let (file, kind) = match kind {
        // Nothing is appended to a file that another repository may use. What lost its index is stored
        // once more, and the end of the file with it: no other writer has left it.
        Some(kind) if has_other_names => {
            let mut closed = closed(kind, false)?;
            closed.unlisted.append(&mut closed.open);
            return Ok(Some(take_part(closed, out)));
        }
        Some(kind) => (file.clone(), kind),
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
                        let closed = closed(kind, true)?;
                        return Ok(Some(take_part(closed, out)));
                    }
                }
            } else {
                file.write_at(&header.encode(), 0)
                    .context("write to", path)?;
                (file.clone(), kind)
            }
        }
    };
    let file = &file;
    let pack = PackFile {
        id,
        kind,
        path,
        file,
        len,
    };
    let mut content = pack.content(PACK_HEADER_BYTES, read)?;
    let garbage = content.garbage.iter();
    out.garbage
        .extend(garbage.map(|(at, to)| (path.to_owned(), *at, to - at)));
    let lost_index = pack.entries_without_index(&mut content, read)?;
    out.reindexed += lost_index.len() as u64;
    let segments = pack.write_lost_indexes(content, lost_index)?;
    // The rest is a torn tail, which the next writer examines.
    let row = row_of(&pack, &segments);
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

/// Takes the closed segments of a pack that must not be written to now.
fn take_closed(
    vfs: &dyn Vfs,
    path: &Path,
    id: PackId,
    owners: &Owners,
    out: &mut RecoveredStore,
) -> Result<Option<PackRow>, StoreError> {
    let closed = closed_segments(vfs, path, id, owners, PACK_HEADER_BYTES)?;
    Ok(closed.map(|closed| take_part(closed, out)))
}

/// Takes the closed part of a pack. Returns the pack's row.
fn take_part(closed: ClosedPart, out: &mut RecoveredStore) -> PackRow {
    let id = closed.row.id;
    let unlisted = closed.unlisted.iter().map(|at| (id, *at));
    out.unlisted.extend(unlisted);
    if closed.is_shared {
        out.shared.insert(id);
    }
    out.catalogue.segments.extend(closed.segments);
    closed.row
}

impl PackFile<'_> {
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
        let pack = LockedPack::listed(self.id, self.path.to_owned(), self.file.clone());
        let mut pack = OpenPack::resume(pack, end, start, previous_end);
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

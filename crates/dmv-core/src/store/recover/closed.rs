//! Closed segments: those of packs that must not be written to, and those that a catalogue does not list yet.
//!
//! This module only reads, even packs that other processes are writing to.

use super::content::{HeaderKind, PackFile, kind_in_header};
use super::sync_names;
use crate::path::PathContext;
use crate::store::catalogue::{Catalogue, PackRow, SegmentRow};
use crate::store::error::StoreError;
use crate::store::layout::PACK_HEADER_BYTES;
use crate::store::owners::Owners;
use crate::store::random_id::PackId;
use crate::vfs::{OpenMode, Vfs};
use std::collections::HashSet;
use std::path::Path;

/// Updates `catalogue` to the present packs: adds segments that were closed since, and packs that
/// were added or removed. Returns the new segments.
///
/// A closed segment whose job is not
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
        let Some(ClosedPart {
            segments,
            is_shared: false,
            ..
        }) = closed_segments(vfs, &path, id, owners, from)?
        else {
            continue;
        };
        let Some(last) = segments.last() else {
            continue;
        };
        match known {
            Some(n) => catalogue.packs[n].len = last.end,
            None => catalogue.packs.push(PackRow::ending_with(last)),
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
pub(super) struct ClosedPart {
    /// The pack, which ends with the last segment. It must not be written to if it is shared.
    pub row: PackRow,
    /// The intact segments.
    pub segments: Vec<SegmentRow>,
    /// Offsets of the closed frames that no intact segment names.
    pub unlisted: Vec<u64>,
    /// Offsets of the frames after them.
    pub open: Vec<u64>,
    /// Whether another repository has written the pack.
    pub is_shared: bool,
}

/// Returns the closed part of a pack from offset `from` on; `None` if it is not a pack that this repository uses.
pub(super) fn closed_segments(
    vfs: &dyn Vfs,
    path: &Path,
    id: PackId,
    owners: &Owners,
    from: u64,
) -> Result<Option<ClosedPart>, StoreError> {
    let file = match vfs.open(path, OpenMode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.context("open", path)?,
    };
    let (kind, is_shared) = match kind_in_header(&*file, path, owners) {
        Ok(HeaderKind::OfPack(kind)) => (kind, false),
        Ok(HeaderKind::OfSharedPack(kind)) => (kind, true),
        Ok(HeaderKind::Damaged | HeaderKind::Foreign) | Err(StoreError::TooNew { .. }) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let len = file.len().context("measure", path)?;
    let file = &file;
    let pack = PackFile {
        id,
        kind,
        path,
        file,
        len,
    };
    Ok(Some(closed_part(&pack, from, is_shared)?))
}

/// Returns the closed part of a pack from offset `from` on, and makes it durable.
pub(super) fn closed_part(
    pack: &PackFile<'_>,
    from: u64,
    is_shared: bool,
) -> Result<ClosedPart, StoreError> {
    let content = pack.content(from, &mut |_| Ok(()))?;
    if !content.segments.is_empty() {
        pack.file.sync().context("sync", pack.path)?;
    }
    let (unlisted, open) = content.unlisted();
    let row = PackRow {
        poisoned: is_shared,
        ..row_of(pack, &content.segments)
    };
    Ok(ClosedPart {
        row,
        segments: content.segments,
        unlisted,
        open,
        is_shared,
    })
}

/// Returns the row of a pack that ends with the last of `segments`.
pub(super) fn row_of(pack: &PackFile<'_>, segments: &[SegmentRow]) -> PackRow {
    PackRow {
        id: pack.id,
        kind: pack.kind,
        len: segments.last().map_or(PACK_HEADER_BYTES, |s| s.end),
        poisoned: false,
    }
}

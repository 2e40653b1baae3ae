//! What a pack file holds, by its bytes alone: its header, and segments whose tables and frames are intact.

use crate::hash::ObjectId;
use crate::memory::Budget;
use crate::path::PathContext;
use crate::store::catalogue::SegmentRow;
use crate::store::error::StoreError;
use crate::store::index_entry::{Entry, Place, gaps_of};
use crate::store::layout::{
    Encoding, LayoutError, PACK_HEADER_BYTES, PackHeader, PackKind, TRAILER_BYTES,
};
use crate::store::owners::Owners;
use crate::store::random_id::PackId;
use crate::store::scan::{ScannedPart, checked_payload, entries_of, record_at, scan};
use crate::store::table::Table;
use crate::vfs::VfsFile;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// What the header of a file in `packs/` says.
pub(super) enum HeaderKind {
    OfPack(PackKind),
    /// The repository shares it with the one that has written it.
    OfSharedPack(PackKind),
    /// It is unfinished or damaged: the records show the kind.
    Damaged,
    /// The file is a log pack, or belongs to another repository.
    Foreign,
}

/// Decodes the header of a file in `packs/`.
pub(super) fn header_of(
    file: &dyn VfsFile,
    path: &Path,
) -> Result<Result<PackHeader, LayoutError>, StoreError> {
    let mut header = [0; PACK_HEADER_BYTES as usize];
    let n = file.read_at(&mut header, 0).context("read", path)?;
    Ok(PackHeader::decode(&header[..n]))
}

/// Returns what the header of a file says. Fails if the file is of a newer version.
pub(super) fn kind_in_header(
    file: &dyn VfsFile,
    path: &Path,
    owners: &Owners,
) -> Result<HeaderKind, StoreError> {
    match header_of(file, path)? {
        Ok(header) if !owners.has(header.repo) || header.kind == PackKind::Log => {
            Ok(HeaderKind::Foreign)
        }
        Ok(header) if header.repo != owners.own() => Ok(HeaderKind::OfSharedPack(header.kind)),
        Ok(header) => Ok(HeaderKind::OfPack(header.kind)),
        Err(LayoutError::Bad(_)) => Ok(HeaderKind::Damaged),
        Err(LayoutError::TooNew(version)) => Err(StoreError::TooNew {
            path: path.to_owned(),
            version,
        }),
    }
}

/// The file of a pack, up to a length.
pub(super) struct PackFile<'p> {
    pub id: PackId,
    pub kind: PackKind,
    pub path: &'p Path,
    pub file: &'p Arc<dyn VfsFile>,
    pub len: u64,
}

/// What a scan of a pack finds.
#[derive(Default)]
pub(super) struct PackContent {
    /// Offsets of frames.
    pub frames: Vec<u64>,
    /// Stretches without usable records.
    pub gaps: Vec<(u64, u64)>,
    /// The gaps that earlier writers recorded: a truncated raw frame looks like one with other
    /// bytes.
    recorded_gaps: Vec<(u64, u64)>,
    /// Segments with an intact table.
    pub segments: Vec<SegmentRow>,
    /// Their tables.
    tables: Vec<Table>,
    /// Offsets of frames in these tables.
    covered: HashSet<u64>,
    /// Stretches without an intact record.
    pub garbage: Vec<(u64, u64)>,
    /// Offset after the last trailer, whether its table is intact or not.
    pub closed_end: u64,
}

impl PackContent {
    /// Returns whether an intact table lists the frame at an offset, or a gap has it.
    pub fn is_listed(&self, frame: u64) -> bool {
        let is_in_gap = |gap: &(u64, u64)| gap.0 <= frame && frame < gap.1;
        self.covered.contains(&frame) || self.recorded_gaps.iter().any(is_in_gap)
    }

    /// Returns the place of an object according to the intact tables.
    pub fn place_of(&self, id: &ObjectId) -> Option<Place> {
        let mut tables = self.tables.iter();
        let found = tables.find_map(|table| table.lookup(id, &Budget::none()).ok().flatten());
        found.map(|(_, place)| place)
    }

    /// Returns whether an intact table lists an object. Fails if a table cannot be read.
    pub fn is_in_a_table(&self, entry: &Entry) -> Result<bool, StoreError> {
        for table in &self.tables {
            if table.lookup(&entry.id, &Budget::none())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the frames that no intact table lists: those before the last trailer, and those after it.
    pub fn unlisted(&self) -> (Vec<u64>, Vec<u64>) {
        let frames = self.frames.iter().copied();
        let frames = frames.filter(|at| !self.covered.contains(at));
        frames.partition(|at| *at < self.closed_end)
    }
}

impl PackFile<'_> {
    /// Finds frames, gaps and segments with intact tables, from an offset on. `read` receives the offset before
    /// each part.
    pub fn content(
        &self,
        from: u64,
        read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<PackContent, StoreError> {
        let (file, path) = (self.file, self.path);
        let mut content = PackContent::default();
        scan(&**file, path, from, self.len, &mut |at, found| {
            // Scanning skips payloads. They are read when an index is checked, at the trailer that
            // ends it, or after the scan.
            read(at)?;
            match found {
                ScannedPart::Frame(_) => content.frames.push(at),
                ScannedPart::Trailer(trailer) => {
                    let end = at + TRAILER_BYTES as u64;
                    content.closed_end = end;
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
                    content.garbage.push((at, to));
                    content.gaps.push((at, to));
                }
                ScannedPart::Index(header) => match checked_payload(&**file, path, at, &header)? {
                    Some(payload) => content.recorded_gaps.extend(gaps_of(&payload)),
                    None => content.gaps.push((at, at + header.record_len())),
                },
                ScannedPart::Operation(_) => {}
            }
            Ok(())
        })?;
        Ok(content)
    }
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

//! Rebuilding the catalogue from the packs alone.

use super::error::{IoContext, StoreError};
use super::layout::{FileId, PACK_HEADER_BYTES, PackHeader, PackKind};
use super::scan::{Found, entries_of, record_at, scan};
use super::table::Table;
use super::write::OpenPack;
use super::{Catalogue, PackRow, SegmentRow};
use crate::limits::MAX_SEGMENT_ENTRIES;
use crate::vfs::{Open, Vfs, VfsFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a scan of all packs brought back.
#[derive(Debug, Default)]
pub struct RecoveredStore {
    /// Every pack and segment found, with nothing merged.
    pub catalogue: Catalogue,
    /// Objects that no intact index knew and that are indexed again now.
    pub reindexed: u64,
    /// Stretches that hold no intact record: (file, offset, bytes).
    pub garbage: Vec<(PathBuf, u64, u64)>,
    /// Files in `packs/` that are no packs of this repository.
    pub foreign: Vec<PathBuf>,
}

/// Scans every pack in `packs_dir` and indexes again what lost its index.
///
/// Appends index records where needed; changes nothing that is there. Run it with no writer about:
/// packs that another process has locked are an error.
pub fn recover_store(
    vfs: &dyn Vfs,
    packs_dir: &Path,
    repo: FileId,
) -> Result<RecoveredStore, StoreError> {
    let mut out = RecoveredStore::default();
    let mut names = vfs.list(packs_dir).at("list", packs_dir)?;
    names.sort();
    for name in names {
        let path = packs_dir.join(&name);
        let Some(id) = name.strip_suffix(".pack").and_then(FileId::from_hex) else {
            out.foreign.push(path);
            continue;
        };
        if id == repo {
            continue; // The log pack: operations are read elsewhere.
        }
        match recover_pack(vfs, &path, id, repo, &mut out)? {
            Some(row) => out.catalogue.packs.push(row),
            None => out.foreign.push(path),
        }
    }
    Ok(out)
}

fn recover_pack(
    vfs: &dyn Vfs,
    path: &Path,
    id: FileId,
    repo: FileId,
    out: &mut RecoveredStore,
) -> Result<Option<PackRow>, StoreError> {
    let file = vfs.open(path, Open::Append).at("open", path)?;
    let end = file.len().at("measure", path)?;
    let mut header = vec![0; PACK_HEADER_BYTES as usize];
    let n = file.read_at(&mut header, 0).at("read", path)?;
    let kind = match PackHeader::decode(&header[..n]) {
        Ok(header) if header.repo != repo => return Ok(None),
        Ok(header) if header.kind == PackKind::Log => return Ok(None),
        Ok(header) => header.kind,
        // A header that was never finished has nothing behind it; a damaged one still has its records.
        Err(_) if end <= PACK_HEADER_BYTES => return Ok(None),
        Err(super::layout::LayoutError::TooNew(version)) => {
            return Err(StoreError::TooNew {
                path: path.to_owned(),
                version,
            });
        }
        Err(super::layout::LayoutError::Bad(why)) => {
            return Err(StoreError::DamagedFile {
                path: path.to_owned(),
                offset: 0,
                why,
            });
        }
    };
    if !file.try_lock().at("lock", path)? {
        let source = std::io::Error::from(std::io::ErrorKind::WouldBlock);
        return Err(StoreError::Io {
            action: "lock",
            path: path.to_owned(),
            source,
        });
    }
    let mut segments: Vec<SegmentRow> = Vec::new();
    // Frames that no good index covers yet.
    let mut pending: Vec<u64> = Vec::new();
    scan(&*file, path, PACK_HEADER_BYTES, end, &mut |at, found| {
        match found {
            Found::Frame(_) => pending.push(at),
            Found::Trailer(trailer) => {
                let end = at + super::layout::TRAILER_BYTES as u64;
                if let Some(entries) = good_table(path, &file, id, end) {
                    pending.retain(|frame| *frame < trailer.start);
                    let start = trailer.start;
                    segments.push(SegmentRow {
                        pack: id,
                        kind,
                        start,
                        end,
                        entries,
                    });
                }
            }
            Found::Garbage(to) => out.garbage.push((path.to_owned(), at, to - at)),
            Found::Index(_) | Found::Operation(_) => {}
        }
        Ok(())
    })?;
    let previous_end = segments.last().map_or(0, |s| s.end);
    let start = pending.first().copied().unwrap_or(end);
    let mut pack = OpenPack::resume(id, path.to_owned(), file.clone(), end, start, previous_end);
    for at in pending {
        let Some((Found::Frame(table), _)) = record_at(&*file, path, at, end)? else {
            continue;
        };
        let entries = entries_of(&*file, path, at, &table, &|_| None)?;
        out.reindexed += entries.len() as u64;
        if pack.entries.len() + entries.len() > MAX_SEGMENT_ENTRIES {
            segments.extend(pack.write_segment(kind)?);
        }
        pack.entries.extend(entries);
    }
    segments.extend(pack.write_segment(kind)?);
    file.sync().at("sync", path)?;
    let len = file.len().at("measure", path)?;
    out.catalogue.segments.extend(segments);
    Ok(Some(PackRow {
        id,
        kind,
        len,
        poisoned: false,
    }))
}

fn good_table(path: &Path, file: &Arc<dyn VfsFile>, id: FileId, end: u64) -> Option<u32> {
    let table = Table::open_segment(path, file.clone(), id, end).ok()?;
    table.verify().ok()?;
    Some(table.entries())
}

//! The recovery scan: finds every intact record of a pack without an index or a database.

use super::error::StoreError;
use super::frame::{FrameTable, decode_payload};
use super::index_entry::{Entry, Place};
use super::layout::{
    Encoding, PACK_HEADER_BYTES, PAYLOAD_CHECK_BYTES, RECORD_HEADER_BYTES, RECORD_MAGIC,
    RecordHeader, RecordType, TRAILER_BYTES, TRAILER_MAGIC, Trailer,
};
use super::table::read_exactly;
use crate::path::PathContext;
use crate::vfs::VfsFile;
use bstr::ByteSlice;
use std::path::Path;

/// Bytes that are read at a time during the search for the next record.
const SEARCH_BYTES: usize = 64 << 10;

/// A part of a pack that a scan found.
#[derive(Debug)]
pub enum ScannedPart {
    /// A frame with intact header and table.
    Frame(FrameTable),
    /// The index of a segment. Its payload is not checked here.
    Index(RecordHeader),
    /// An operation with intact payload.
    Operation(Vec<u8>),
    /// The end of a segment.
    Trailer(Trailer),
    /// Bytes up to this offset that are not an intact record.
    Garbage(u64),
}

/// Scans `file` from byte `from` to byte `to`, and reports each part with its offset.
///
/// Payloads of frames are skipped. After damage the scan continues at the next intact record.
pub fn scan(
    file: &dyn VfsFile,
    path: &Path,
    from: u64,
    to: u64,
    visit: &mut dyn FnMut(u64, ScannedPart) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut at = from.max(PACK_HEADER_BYTES);
    while at < to {
        match record_at(file, path, at, to)? {
            Some((found, len)) => {
                visit(at, found)?;
                at += len;
            }
            None => {
                let next = next_record(file, path, at + 1, to)?;
                visit(at, ScannedPart::Garbage(next))?;
                at = next;
            }
        }
    }
    Ok(())
}

/// Returns the intact record or trailer at `at`, and its length.
pub(super) fn record_at(
    file: &dyn VfsFile,
    path: &Path,
    at: u64,
    to: u64,
) -> Result<Option<(ScannedPart, u64)>, StoreError> {
    if to - at < RECORD_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let head = read_exactly(file, path, at, RECORD_HEADER_BYTES)?;
    if let Some(trailer) = Trailer::decode(&head) {
        return Ok(Some((ScannedPart::Trailer(trailer), TRAILER_BYTES as u64)));
    }
    let Ok(header) = RecordHeader::decode(&head) else {
        return Ok(None);
    };
    let len = header.record_len();
    if len > to - at {
        return Ok(None);
    }
    let table = read_exactly(
        file,
        path,
        at + RECORD_HEADER_BYTES as u64,
        header.table_len as usize,
    )?;
    if !header.check_table(&table) {
        return Ok(None);
    }
    let found = match header.ty {
        RecordType::Index => ScannedPart::Index(header),
        RecordType::Frame => match FrameTable::decode(header, &table) {
            Ok(table) => ScannedPart::Frame(table),
            Err(_) => return Ok(None),
        },
        // A local pack has none.
        RecordType::Places => return Ok(None),
        RecordType::Operation => {
            let payload = read_exactly(
                file,
                path,
                at + header.payload_at(),
                header.stored_len as usize,
            )?;
            let sum = read_exactly(file, path, at + len - 8, PAYLOAD_CHECK_BYTES)?;
            if header.payload_check(&payload) != sum[..] {
                return Ok(None);
            }
            ScannedPart::Operation(payload)
        }
    };
    Ok(Some((found, len)))
}

/// Returns the first offset from `from` on at which an intact record starts, or `to`.
fn next_record(file: &dyn VfsFile, path: &Path, from: u64, to: u64) -> Result<u64, StoreError> {
    let mut next = to;
    each_magic(file, path, from, to, &mut |at| {
        let found = record_at(file, path, at, to)?.is_some();
        if found {
            next = at;
        }
        Ok(!found)
    })?;
    Ok(next)
}

/// Returns start and end of each record within `from..to` whose header is intact and whose end is
/// after `to`.
///
/// A file that a crash cut short ends in such a record. New records must begin after its end.
/// Otherwise the next scan would take them for the rest of that record.
fn cut_records(
    file: &dyn VfsFile,
    path: &Path,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, u64)>, StoreError> {
    let mut cut = Vec::new();
    each_magic(file, path, from, to, &mut |at| {
        let left = to - at;
        if left < RECORD_HEADER_BYTES as u64 {
            return Ok(true);
        }
        let head = read_exactly(file, path, at, RECORD_HEADER_BYTES)?;
        let Ok(header) = RecordHeader::decode(&head) else {
            return Ok(true);
        };
        if header.payload_at() > left || header.record_len() <= left {
            return Ok(true);
        }
        let table_at = at + RECORD_HEADER_BYTES as u64;
        let table = read_exactly(file, path, table_at, header.table_len as usize)?;
        if header.check_table(&table) {
            cut.push((at, at + header.record_len()));
        }
        Ok(true)
    })?;
    Ok(cut)
}

/// Returns the offset at which a pack of `len` bytes can be continued. `gaps` are its stretches
/// without intact records.
///
/// Records that a crash cut short keep their full length, as gaps.
pub(super) fn after_cut_records(
    file: &dyn VfsFile,
    path: &Path,
    len: u64,
    gaps: &mut Vec<(u64, u64)>,
) -> Result<u64, StoreError> {
    let mut end = len;
    for (from, to) in gaps.clone() {
        for cut in cut_records(file, path, from, to)? {
            if cut.1 > len {
                end = end.max(cut.1);
                gaps.push(cut);
            }
        }
    }
    if end > len {
        gaps.push((len, end));
    }
    Ok(end)
}

/// Calls `visit` for each offset at which a record or trailer may begin, until it returns `false`.
fn each_magic(
    file: &dyn VfsFile,
    path: &Path,
    from: u64,
    to: u64,
    visit: &mut dyn FnMut(u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let mut at = from;
    let mut buffer = vec![0; SEARCH_BYTES];
    loop {
        // A file may claim any length without having the bytes.
        at = file.skip_hole(at);
        if at >= to {
            break;
        }
        let len = (to - at).min(SEARCH_BYTES as u64) as usize;
        let n = file.read_at(&mut buffer[..len], at).context("read", path)?;
        for hit in buffer[..n].find_iter(&RECORD_MAGIC[..3]) {
            let magic = buffer[..n].get(hit..hit + 4);
            let may_be = match magic {
                Some(magic) => magic == RECORD_MAGIC || magic == TRAILER_MAGIC,
                None => true,
            };
            if may_be && !visit(at + hit as u64)? {
                return Ok(());
            }
        }
        if n < len {
            break;
        }
        // Three bytes of overlap: a magic number may cross the border of two blocks.
        at += if n > 3 && n == SEARCH_BYTES {
            n as u64 - 3
        } else {
            n as u64
        };
    }
    Ok(())
}

/// Returns the stored payload of a record with a check, if it matches the check.
pub(super) fn checked_payload(
    file: &dyn VfsFile,
    path: &Path,
    at: u64,
    header: &RecordHeader,
) -> Result<Option<Vec<u8>>, StoreError> {
    let len = header.stored_len as usize + PAYLOAD_CHECK_BYTES;
    let mut payload = read_exactly(file, path, at + header.payload_at(), len)?;
    let sum = payload.split_off(header.stored_len as usize);
    Ok((header.payload_check(&payload) == sum[..]).then_some(payload))
}

/// Returns the entries of a frame, with ids computed from its bytes; none if the payload is
/// damaged.
///
/// `prefix` returns the bytes of the frame's base objects, if they are available.
pub fn entries_of(
    file: &dyn VfsFile,
    path: &Path,
    at: u64,
    table: &FrameTable,
    prefix: &dyn Fn(&FrameTable) -> Option<Vec<u8>>,
) -> Result<Vec<Entry>, StoreError> {
    let header = &table.header;
    let stored = read_exactly(
        file,
        path,
        at + header.payload_at(),
        header.stored_len as usize,
    )?;
    let sum_at = at + header.payload_at() + u64::from(header.stored_len);
    let sum = read_exactly(file, path, sum_at, PAYLOAD_CHECK_BYTES)?;
    if header.payload_check(&stored) != sum[..] {
        return Ok(Vec::new());
    }
    let base = match header.encoding {
        Encoding::ZstdWithBase => match prefix(table) {
            Some(base) => base,
            None => return Ok(Vec::new()),
        },
        _ => Vec::new(),
    };
    let Ok(raw) = decode_payload(header, &stored, &base) else {
        return Ok(Vec::new());
    };
    let entry = |(n, (ty, range)): (usize, &(crate::object::ObjectType, std::ops::Range<u32>))| {
        let id = ty.id_of(&raw[range.start as usize..range.end as usize]);
        Entry {
            id,
            place: Place {
                offset: at,
                ordinal: n as u16,
                ty: *ty,
            },
        }
    };
    Ok(table.objects.iter().enumerate().map(entry).collect())
}

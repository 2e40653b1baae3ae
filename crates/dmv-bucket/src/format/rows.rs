//! Rows and log entries, which stand in the root and on pages. docs/format/bucket.md, "Root".

use super::Name;
use dmv_core::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use dmv_core::refs::Operation;
use dmv_core::store::PACK_HEADER_BYTES;

/// The maximum number of files that one entry lets go.
pub const MAX_LEFT: usize = 4096;
/// The maximum length of a pack in a bucket.
const MAX_PACK_BYTES: u64 = 4 << 30;
const MAX_OPERATION_BYTES: usize = 8 << 20;
/// The greatest generation, sequence number or count: the next one still fits signed integers.
pub(super) const MAX_NUMBER: u64 = i64::MAX as u64 - 1;

/// What a pack of a bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKind {
    /// Chunks.
    Data = 1,
    /// All other objects.
    Meta = 2,
    /// Both, and the operation of the push that made it.
    Joint = 4,
}

impl RowKind {
    /// Returns whether such a pack has a segment of metadata.
    pub fn has_metadata(self) -> bool {
        self != RowKind::Data
    }
}

/// A pack as the root lists it, with the places of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The generation of the root that listed it first.
    pub generation: u64,
    /// Its name, which is also the id in its header.
    pub name: Name,
    /// What it holds.
    pub kind: RowKind,
    /// Where its metadata begins.
    pub metadata: u64,
    /// Where the commits at the start of its metadata end.
    pub commits_end: u64,
    /// Where its last frame ends: places, index and trailer follow.
    pub tail: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// One operation of the log, and what it let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The operation.
    pub operation: Operation,
    /// The files that may be deleted since, sorted. Their names are burnt: no later root lists one
    /// of them.
    pub left: Vec<Name>,
}

pub(super) fn put_entries(out: &mut Vec<u8>, entries: &[Entry]) {
    put_varint(out, entries.len() as u64);
    for entry in entries {
        put_bytes(out, &entry.operation.encode());
        put_varint(out, entry.left.len() as u64);
        for name in &entry.left {
            out.extend_from_slice(&name.0);
        }
    }
}

pub(super) fn entries(input: &mut Decoder, max: u64) -> Result<Vec<Entry>, DecodeError> {
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..input.varint_up_to(max, "too many operations")? {
        let bytes = input.bytes(MAX_OPERATION_BYTES, "operation is too large")?;
        let operation = Operation::decode(bytes)?;
        if let Some(before) = entries.last().map(|entry| &entry.operation)
            && (before.seq + 1, before.id) != (operation.seq, operation.previous)
        {
            return Err(input.error("operation does not follow the one before"));
        }
        let mut left: Vec<Name> = Vec::new();
        for _ in 0..input.varint_up_to(MAX_LEFT as u64, "too many files")? {
            let name = Name::decode(input)?;
            if left.last().is_some_and(|last| *last >= name) {
                return Err(input.error("names are not sorted"));
            }
            left.push(name);
        }
        entries.push(Entry { operation, left });
    }
    Ok(entries)
}

pub(super) fn put_rows(out: &mut Vec<u8>, rows: &[Row]) {
    put_varint(out, rows.len() as u64);
    for row in rows {
        out.extend_from_slice(&row.name.0);
        out.push(row.kind as u8);
        for number in [
            row.generation,
            row.metadata,
            row.commits_end,
            row.tail,
            row.len,
        ] {
            put_varint(out, number);
        }
    }
}

pub(super) fn rows(input: &mut Decoder, max: u64) -> Result<Vec<Row>, DecodeError> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..input.varint_up_to(max, "too many rows")? {
        let row = row(input)?;
        let order = |row: &Row| (row.generation, row.name);
        if rows.last().is_some_and(|last| order(last) >= order(&row)) {
            return Err(input.error("rows are not sorted"));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(input: &mut Decoder) -> Result<Row, DecodeError> {
    let name = Name::decode(input)?;
    let kind = match input.u8()? {
        1 => RowKind::Data,
        2 => RowKind::Meta,
        4 => RowKind::Joint,
        _ => return Err(input.error("pack of an unknown kind")),
    };
    let generation = input.varint_up_to(MAX_NUMBER, "generation is too large")?;
    let mut number = || input.varint_up_to(MAX_PACK_BYTES, "pack is too large");
    let row = Row {
        generation,
        name,
        kind,
        metadata: number()?,
        commits_end: number()?,
        tail: number()?,
        len: number()?,
    };
    let parts = [
        PACK_HEADER_BYTES,
        row.metadata,
        row.commits_end,
        row.tail,
        row.len,
    ];
    let fits = match kind {
        RowKind::Data => row.metadata == row.tail,
        RowKind::Meta => row.metadata == PACK_HEADER_BYTES,
        RowKind::Joint => row.metadata > PACK_HEADER_BYTES,
    };
    if generation == 0 || !parts.is_sorted() || !fits {
        return Err(input.error("parts of a pack are out of order"));
    }
    Ok(row)
}

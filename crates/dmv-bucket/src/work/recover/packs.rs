//! Reading from packs what only a root says of them. docs/format/bucket.md, "Packs".

use super::super::client::BucketClient;
use super::super::gc::index_at;
use crate::files::FileFailure;
use crate::format::{Name, Row, RowKind};
use dmv_core::object::ObjectType;
use dmv_core::refs::Operation;
use dmv_core::store::{
    CheckedRecord, PACK_HEADER_BYTES, RepositoryId, SealedHeader, SealedKind, SegmentTail,
    operation_at_end,
};
use std::ops::Range;

const TRAILER_BYTES: u64 = 32;
/// The head of a record, which says how long it is.
const HEAD_BYTES: u64 = 32;
/// The last bytes of a joint pack that are read at first, and at most: they have the operation.
const FIRST_BYTES: u64 = 2 << 10;
const MOST_BYTES: u64 = 16 << 20;
/// The most bytes from the index of a segment to its end.
const MAX_INDEX_BYTES: u64 = 32 << 20;
/// The magic of pages and packs.
const PAGE: &[u8] = b"DMVPAGE\n";
const PACK: &[u8] = b"DMVPACK\n";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundFile {
    Page,
    Pack,
    /// It has gone since the listing.
    Gone,
    /// Something else.
    Unknown(&'static str),
}

/// Reads the ends of packs.
pub struct PackReader<'d> {
    pub client: &'d BucketClient<'d>,
    pub repository: RepositoryId,
}

/// A row, or why there is none.
type RowResult = Result<Row, &'static str>;

impl PackReader<'_> {
    fn read(&self, name: &Name, range: Range<u64>) -> Result<Vec<u8>, FileFailure> {
        let path = name.path(self.repository);
        self.client
            .repeat(|files| files.read_range(&path, range.clone()))
    }

    /// Returns what a file is, by its first bytes.
    pub fn head(&self, name: &Name, len: u64) -> Result<FoundFile, FileFailure> {
        if len < PAGE.len() as u64 {
            return Ok(FoundFile::Unknown("file is too short"));
        }
        match self.read(name, 0..PAGE.len() as u64) {
            Ok(head) if head == PAGE => Ok(FoundFile::Page),
            Ok(head) if head == PACK => Ok(FoundFile::Pack),
            Ok(_) => Ok(FoundFile::Unknown("it is neither a pack nor a page")),
            Err(FileFailure::Missing | FileFailure::Length) => Ok(FoundFile::Gone),
            Err(e) => Err(e),
        }
    }

    /// Returns the row of a pack, with generation 0.
    pub fn row(&self, name: &Name, len: u64) -> Result<RowResult, FileFailure> {
        match self.try_row(name, len) {
            Err(FileFailure::Missing | FileFailure::Length) => Ok(Err("it ends too soon")),
            done => done,
        }
    }

    fn try_row(&self, name: &Name, len: u64) -> Result<RowResult, FileFailure> {
        let header = self.read(name, 0..PACK_HEADER_BYTES)?;
        let header = match SealedHeader::decode(&header) {
            Ok(header) => header,
            Err(why) => return Ok(Err(why)),
        };
        if *header.id.as_bytes() != name.0 || header.repo != self.repository {
            return Ok(Err("its header is that of another pack"));
        }
        let (kind, end) = match header.kind {
            SealedKind::Data => (RowKind::Data, len),
            SealedKind::Meta => (RowKind::Meta, len),
            SealedKind::Joint => match self.end(name, len)? {
                Some((at, _)) => (RowKind::Joint, at),
                None => return Ok(Err("it does not end with an operation")),
            },
        };
        self.row_of(name, kind, end, len)
    }

    /// Returns the row of a pack whose last segment ends at `end`.
    fn row_of(
        &self,
        name: &Name,
        kind: RowKind,
        end: u64,
        len: u64,
    ) -> Result<RowResult, FileFailure> {
        let Some(trailer_at) = end
            .checked_sub(TRAILER_BYTES)
            .filter(|at| *at > PACK_HEADER_BYTES)
        else {
            return Ok(Err("no trailer"));
        };
        let index = index_at(&self.read(name, trailer_at..end)?);
        let is_in = |at: &u64| (PACK_HEADER_BYTES..trailer_at).contains(at);
        let Some(index) = index.filter(is_in) else {
            return Ok(Err("no trailer"));
        };
        if end - index > MAX_INDEX_BYTES {
            return Ok(Err("its index is too long"));
        }
        let tail = match SegmentTail::decode(&self.read(name, index..end)?, index) {
            Ok(tail) => tail,
            Err(why) => return Ok(Err(why)),
        };
        // The trailer does not say where places begin: the last frame does.
        let Some(last) = tail.entries.iter().map(|entry| entry.place.offset).max() else {
            return Ok(Err("it has no objects"));
        };
        let head = self.read(name, last..last + HEAD_BYTES)?;
        let Ok(frames_end) = CheckedRecord::len_of(&head).map(|len| last + len) else {
            return Ok(Err("its last frame is damaged"));
        };
        let metadata = match kind {
            RowKind::Data => frames_end,
            RowKind::Meta | RowKind::Joint => tail.start,
        };
        let row = Row {
            generation: 0,
            name: *name,
            kind,
            metadata,
            commits_end: commits_end(&tail, metadata, frames_end),
            tail: frames_end,
            len,
        };
        let is_at_start = tail.start == PACK_HEADER_BYTES;
        let fits = match kind {
            RowKind::Data => is_at_start && frames_end == index,
            RowKind::Meta => is_at_start && frames_end <= index,
            RowKind::Joint => !is_at_start && frames_end <= index,
        };
        Ok(if fits && tail.end == end {
            Ok(row)
        } else {
            Err("its parts are out of order")
        })
    }

    /// Returns where the operation of a joint pack begins, and the operation with its length. `None`: it has
    /// none.
    fn end(&self, name: &Name, len: u64) -> Result<Option<(u64, Vec<u8>)>, FileFailure> {
        let mut window = FIRST_BYTES;
        loop {
            let from = len.saturating_sub(window).max(PACK_HEADER_BYTES);
            let bytes = self.read(name, from..len.max(from))?;
            if let Some((at, operation)) = operation_at_end(&bytes) {
                return Ok(Some((from + at as u64, operation.to_vec())));
            }
            if from == PACK_HEADER_BYTES || window >= MOST_BYTES {
                return Ok(None);
            }
            window *= 32;
        }
    }

    /// Returns the operation of a joint pack, and its length.
    pub fn operation(&self, row: &Row) -> Result<Option<(Operation, usize)>, FileFailure> {
        if row.kind != RowKind::Joint {
            return Ok(None);
        }
        match self.end(&row.name, row.len) {
            Ok(found) => Ok(found.and_then(|(_, bytes)| {
                let operation = Operation::decode(&bytes).ok()?;
                Some((operation, bytes.len()))
            })),
            Err(FileFailure::Missing | FileFailure::Length) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Returns where the commits at the start of a segment of metadata end.
fn commits_end(tail: &SegmentTail, metadata: u64, frames_end: u64) -> u64 {
    let commits = tail.entries.iter();
    let commits = commits.filter(|entry| entry.place.ty == ObjectType::Commit);
    let Some(last) = commits.map(|entry| entry.place.offset).max() else {
        return metadata;
    };
    let offsets = tail.entries.iter().map(|entry| entry.place.offset);
    let next = offsets.filter(|offset| *offset > last).min();
    next.unwrap_or(frames_end)
}

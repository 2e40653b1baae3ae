//! The root, the one file of a bucket that changes: docs/format/bucket.md, "Root".

use super::listed::MAX_LISTED_PAGES;
use super::page::PageRef;
use super::rows::{Entry, MAX_NUMBER, Row, entries, put_entries, put_rows, rows};
use super::view::{ViewChanges, changes, put_changes};
use super::{MAX_PAGES, MAX_ROOT_BYTES, begin, end, open, sixteen};
use dmv_core::chunker::CHUNKER;
use dmv_core::object::codec::{DecodeError, Decoder, EncodeError, put_bytes, put_varint};
use dmv_core::store::RepositoryId;

const MAGIC: &[u8; 8] = b"DMVROOT\n";
/// The version of a root without purged content: programs that do not know purges read it, too.
const VERSION: u8 = 1;
/// The version of a root with purged content.
const VERSION_PURGED: u8 = 2;
/// The version of a root with files that have expired.
const VERSION_EXPIRED: u8 = 3;
/// The maximum number of rows in a root.
pub const MAX_ROWS: usize = 256;
/// The maximum number of log entries in a root.
pub const MAX_ENTRIES: usize = 64;
/// The maximum number of bytes of the slice in a root.
const MAX_SLICE_BYTES: usize = 64 << 10;
const MAX_LINE_BYTES: usize = 255;

/// The root of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The repository. All other files lie below its id.
    pub repository: RepositoryId,
    /// How many roots there have been, with this one.
    pub generation: u64,
    /// Random, and different in each attempt to write a root.
    pub write: [u8; 16],
    /// The write id of the root before; zeros in the first.
    pub previous: [u8; 16],
    /// How many operations have let files go.
    pub freed: u64,
    /// The slice, as docs/format/slice.md says; empty if everything is stored.
    pub slice: Vec<u8>,
    /// The page with the view that the changes apply to; `None` for an empty view.
    pub view_page: Option<PageRef>,
    /// The changes since.
    pub view: ViewChanges,
    /// Sequence number and id of the newest operation; zeros before the first.
    pub last: (u64, [u8; 16]),
    /// The older part of the log, the oldest page first.
    pub log_pages: Vec<PageRef>,
    /// The newest entries of the log, the oldest first.
    pub log: Vec<Entry>,
    /// Further rows: pages of packs with metadata.
    pub meta_pages: Vec<PageRef>,
    /// Further rows: pages of packs with chunks alone.
    pub data_pages: Vec<PageRef>,
    /// The newest rows, sorted.
    pub rows: Vec<Row>,
    /// What was purged.
    pub purges: RootPurges,
    /// Pages of the files that have expired: whatever commits lead to them, they may be absent.
    pub expired: Vec<PageRef>,
}

/// The purges of a bucket: nothing unless something was purged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootPurges {
    /// How many operations have said what was purged.
    pub count: u64,
    /// How many purged chunks files of the bucket may still have.
    pub unpurged: u64,
    /// What was purged.
    pub pages: Vec<PageRef>,
}

/// What had left a bucket when a root was written. Who has read one root knows by this whether what it
/// found there counts for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// How many operations have let files go.
    pub freed: u64,
    /// How many operations have said what was purged.
    pub purged: u64,
}

impl Root {
    /// Returns the first root of a bucket.
    pub fn first(repository: RepositoryId, write: [u8; 16]) -> Root {
        Root {
            repository,
            generation: 1,
            write,
            previous: [0; 16],
            freed: 0,
            slice: Vec::new(),
            view_page: None,
            view: ViewChanges::new(),
            last: (0, [0; 16]),
            log_pages: Vec::new(),
            log: Vec::new(),
            meta_pages: Vec::new(),
            data_pages: Vec::new(),
            rows: Vec::new(),
            purges: RootPurges::default(),
            expired: Vec::new(),
        }
    }

    /// Returns what had left the bucket.
    pub fn age(&self) -> Age {
        Age {
            freed: self.freed,
            purged: self.purges.count,
        }
    }

    /// Returns all pages that it names.
    pub fn pages(&self) -> impl Iterator<Item = &PageRef> {
        let lists = [
            &self.log_pages,
            &self.meta_pages,
            &self.data_pages,
            &self.purges.pages,
            &self.expired,
        ];
        self.view_page.iter().chain(lists.into_iter().flatten())
    }

    /// Returns whether it may be what a store has after `known`: the same root, or a later one. If
    /// not, the store has lost a root.
    pub fn can_follow(&self, known: &Root) -> bool {
        let follows = match self.generation.checked_sub(known.generation) {
            None => false,
            Some(0) => self.write == known.write,
            Some(1) => self.previous == known.write,
            Some(_) => true,
        };
        follows && self.repository == known.repository
    }

    /// Returns its bytes. Fails if [`decode`](Self::decode) would refuse them.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let is_purged = self.purges.count > 0;
        if !is_purged && self.purges != RootPurges::default() {
            let what = "purged content of no operation";
            return Err(EncodeError { what });
        }
        let version = match () {
            () if !self.expired.is_empty() => VERSION_EXPIRED,
            () if is_purged => VERSION_PURGED,
            () => VERSION,
        };
        let mut out = begin(MAGIC, version);
        out.extend_from_slice(self.repository.as_bytes());
        put_bytes(&mut out, CHUNKER.as_bytes());
        put_varint(&mut out, self.generation);
        out.extend_from_slice(&self.write);
        out.extend_from_slice(&self.previous);
        put_varint(&mut out, self.freed);
        put_bytes(&mut out, &self.slice);
        put_pages(&mut out, self.view_page.as_slice());
        put_changes(&mut out, &self.view);
        put_varint(&mut out, self.last.0);
        out.extend_from_slice(&self.last.1);
        put_pages(&mut out, &self.log_pages);
        put_entries(&mut out, &self.log);
        put_pages(&mut out, &self.meta_pages);
        put_pages(&mut out, &self.data_pages);
        put_rows(&mut out, &self.rows);
        if version >= VERSION_PURGED {
            put_varint(&mut out, self.purges.count);
            put_varint(&mut out, self.purges.unpurged);
            put_pages(&mut out, &self.purges.pages);
        }
        if version >= VERSION_EXPIRED {
            put_pages(&mut out, &self.expired);
        }
        let out = end(out);
        // A root that no reader accepts would be the end of the bucket.
        match Root::decode(&out) {
            Ok(_) => Ok(out),
            Err(e) => Err(EncodeError { what: e.what }),
        }
    }

    /// Decodes a root. Fails for bytes that [`encode`](Self::encode) does not make.
    pub fn decode(bytes: &[u8]) -> Result<Root, DecodeError> {
        let (version, mut input) = open(bytes, MAGIC, VERSION_EXPIRED, MAX_ROOT_BYTES)?;
        let repository = RepositoryId::from_bytes(sixteen(&mut input)?);
        if input.bytes(MAX_LINE_BYTES, "chunker is too long")? != CHUNKER.as_bytes() {
            return Err(input.error("format too new"));
        }
        let mut root = Root {
            repository,
            generation: input.varint_up_to(MAX_NUMBER, "generation is too large")?,
            write: sixteen(&mut input)?,
            previous: sixteen(&mut input)?,
            freed: input.varint_up_to(MAX_NUMBER, "count is too large")?,
            slice: input.bytes(MAX_SLICE_BYTES, "slice is too long")?.to_vec(),
            view_page: pages(&mut input, 1)?.pop(),
            view: changes(&mut input)?,
            last: (
                input.varint_up_to(MAX_NUMBER, "sequence number is too large")?,
                sixteen(&mut input)?,
            ),
            log_pages: pages(&mut input, MAX_PAGES)?,
            log: entries(&mut input, MAX_ENTRIES as u64)?,
            meta_pages: pages(&mut input, MAX_PAGES)?,
            data_pages: pages(&mut input, MAX_PAGES)?,
            rows: rows(&mut input, MAX_ROWS as u64)?,
            purges: RootPurges::default(),
            expired: Vec::new(),
        };
        if version >= VERSION_PURGED {
            root.purges.count = input.varint_up_to(MAX_NUMBER, "count is too large")?;
            root.purges.unpurged = input.varint_up_to(MAX_NUMBER, "count is too large")?;
            root.purges.pages = pages(&mut input, MAX_LISTED_PAGES)?;
            let is_none = version > VERSION_PURGED && root.purges == RootPurges::default();
            if !is_none && (root.purges.count == 0 || root.purges.pages.is_empty()) {
                return Err(input.error("nothing is purged"));
            }
        }
        if version >= VERSION_EXPIRED {
            root.expired = pages(&mut input, MAX_LISTED_PAGES)?;
            if root.expired.is_empty() {
                return Err(input.error("nothing has expired"));
            }
        }
        input.finish()?;
        match root.fault() {
            Some(what) => Err(input.error(what)),
            None => Ok(root),
        }
    }

    /// Returns which rule between its fields it breaks.
    fn fault(&self) -> Option<&'static str> {
        let newest = self.log.last().map(|entry| &entry.operation);
        let removes = self.view.values().any(Option::is_none);
        let later = self.rows.last().map_or(0, |row| row.generation) > self.generation;
        match () {
            () if self.generation == 0 => Some("generation is zero"),
            () if (self.generation == 1) != (self.previous == [0; 16]) => Some("wrong predecessor"),
            () if newest.is_some_and(|op| (op.seq, op.id) != self.last) => {
                Some("the log ends elsewhere")
            }
            () if removes && self.view_page.is_none() => Some("removes a key of nothing"),
            () if later => Some("row from a later root"),
            () => None,
        }
    }
}

fn put_pages(out: &mut Vec<u8>, pages: &[PageRef]) {
    put_varint(out, pages.len() as u64);
    pages.iter().for_each(|page| page.put(out));
}

fn pages(input: &mut Decoder, max: usize) -> Result<Vec<PageRef>, DecodeError> {
    let count = input.varint_up_to(max as u64, "too many pages")?;
    (0..count).map(|_| PageRef::decode(input)).collect()
}

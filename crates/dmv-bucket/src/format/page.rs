//! Pages: parts of the root that have grown out of it. docs/format/bucket.md, "Page".

use super::listed::{Expirations, Purges, listed, put_listed};
use super::rows::{Entry, Row, entries, put_entries, put_rows, rows};
use super::view::{View, put_view, view};
use super::{MAX_PAGE_BYTES, Name, begin, end, open};
use dmv_core::object::codec::{DecodeError, Decoder, EncodeError, put_varint};

const MAGIC: &[u8; 8] = b"DMVPAGE\n";
const VERSION: u8 = 1;
/// The greatest number of items of a page; the limit on its bytes is the tighter one.
const MAX_ITEMS: u64 = MAX_PAGE_BYTES as u64;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageKind {
    /// Rows of packs with metadata.
    MetaRows = 1,
    /// Rows of packs with chunks alone.
    DataRows = 2,
    /// Entries of the log.
    Log = 3,
    /// The complete view.
    View = 4,
    /// What was purged.
    Purges = 5,
    /// What has expired.
    Expired = 6,
}

/// A page as a root names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRef {
    /// The name of its file.
    pub name: Name,
    /// The length of the file in bytes.
    pub len: u32,
    /// The number of its rows, entries, keys or reasons.
    pub items: u32,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Rows of packs with metadata, sorted; at least one.
    MetaRows(Vec<Row>),
    /// Rows of packs with chunks alone, sorted; at least one.
    DataRows(Vec<Row>),
    /// Entries of the log, the oldest first; at least one. With them the view after the newest one,
    /// so that a lost root can be made again.
    Log(Vec<Entry>, View),
    /// The complete view at some time.
    View(View),
    /// What was purged, by reason; at least one.
    Purges(Purges),
    /// What has expired, by reason; at least one.
    Expired(Expirations),
}

impl Page {
    /// Returns what it holds.
    pub fn kind(&self) -> PageKind {
        match self {
            Page::MetaRows(_) => PageKind::MetaRows,
            Page::DataRows(_) => PageKind::DataRows,
            Page::Log(..) => PageKind::Log,
            Page::View(_) => PageKind::View,
            Page::Purges(_) => PageKind::Purges,
            Page::Expired(_) => PageKind::Expired,
        }
    }

    /// Returns the number of its rows, entries, keys or reasons.
    pub fn items(&self) -> usize {
        match self {
            Page::MetaRows(rows) | Page::DataRows(rows) => rows.len(),
            Page::Log(entries, _) => entries.len(),
            Page::View(view) => view.len(),
            Page::Purges(purges) => purges.len(),
            Page::Expired(expired) => expired.len(),
        }
    }

    /// Returns its bytes, and how a root names them. Fails if [`decode`](Self::decode) would refuse
    /// them.
    pub fn encode(&self, name: Name) -> Result<(PageRef, Vec<u8>), EncodeError> {
        let mut out = begin(MAGIC, VERSION);
        out.push(self.kind() as u8);
        match self {
            Page::MetaRows(rows) | Page::DataRows(rows) => put_rows(&mut out, rows),
            Page::Log(entries, view) => {
                put_entries(&mut out, entries);
                put_view(&mut out, view);
            }
            Page::View(view) => put_view(&mut out, view),
            Page::Purges(purges) => put_listed(&mut out, purges),
            Page::Expired(expired) => put_listed(&mut out, expired),
        }
        let out = end(out);
        Page::decode(&out).map_err(|e| EncodeError { what: e.what })?;
        let page = PageRef {
            name,
            len: out.len() as u32,
            items: self.items() as u32,
        };
        Ok((page, out))
    }

    /// Decodes a page. Fails for bytes that [`encode`](Self::encode) does not make.
    pub fn decode(bytes: &[u8]) -> Result<Page, DecodeError> {
        let (_, mut input) = open(bytes, MAGIC, VERSION, MAX_PAGE_BYTES)?;
        let kind = input.u8()?;
        let page = match kind {
            1 => Page::MetaRows(rows(&mut input, MAX_ITEMS)?),
            2 => Page::DataRows(rows(&mut input, MAX_ITEMS)?),
            3 => Page::Log(entries(&mut input, MAX_ITEMS)?, view(&mut input)?),
            4 => Page::View(view(&mut input)?),
            5 => Page::Purges(listed(&mut input)?),
            6 => Page::Expired(listed(&mut input)?),
            _ => return Err(input.error("page of an unknown kind")),
        };
        input.finish()?;
        let fits = match &page {
            Page::MetaRows(rows) => rows.iter().all(|row| row.kind.has_metadata()),
            Page::DataRows(rows) => rows.iter().all(|row| !row.kind.has_metadata()),
            _ => true,
        };
        match page.items() {
            _ if !fits => Err(input.error("row on a page of another kind")),
            0 if kind != PageKind::View as u8 => Err(input.error("page is empty")),
            _ => Ok(page),
        }
    }
}

impl PageRef {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0);
        put_varint(out, u64::from(self.len));
        put_varint(out, u64::from(self.items));
    }

    pub(super) fn decode(input: &mut Decoder) -> Result<PageRef, DecodeError> {
        Ok(PageRef {
            name: Name::decode(input)?,
            len: input.varint_up_to(MAX_PAGE_BYTES as u64, "page is too large")? as u32,
            items: input.varint_up_to(MAX_ITEMS, "too many items")? as u32,
        })
    }
}

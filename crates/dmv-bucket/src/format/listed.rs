//! Content that a bucket may lack, by the reason: what was purged, and what has expired.
//! docs/format/bucket.md, "Page".

use super::Page;
use dmv_core::hash::{ID_BYTES, ObjectId};
use dmv_core::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use dmv_core::repo::{Expiry, Purge};
use std::collections::{BTreeMap, BTreeSet};

/// The most pages with one kind of reasons that a root names.
pub const MAX_LISTED_PAGES: usize = 16;
/// The most reasons on a page, and the most ids of one.
const MAX_REASONS: u64 = 65_536;
const MAX_IDS: u64 = 1 << 19;
const MAX_TEXT_BYTES: usize = 4096;

/// Why content may be absent: a time and two texts.
pub trait Reason: Clone + Ord {
    /// What is absent for one reason.
    type Content: ListedContent;

    /// Returns the time in seconds since 1970.
    fn at(&self) -> i64;

    /// Returns the texts.
    fn texts(&self) -> [&str; 2];

    /// Returns a reason with these parts.
    fn of(at: i64, texts: [String; 2]) -> Self;

    /// Returns whether a repository can note it.
    fn is_storable(&self) -> bool;

    /// Returns a page of such reasons.
    fn page(listed: ReasonList<Self>) -> Page;

    /// Returns what such a page lists; `None` for other pages.
    fn listed_on(page: &Page) -> Option<&ReasonList<Self>>;
}

/// Lists of ids that belong to one reason.
pub trait ListedContent: Clone + Default {
    /// Returns the lists.
    fn lists(&self) -> impl Iterator<Item = &BTreeSet<ObjectId>>;

    /// Returns the lists, to change them.
    fn lists_mut(&mut self) -> impl Iterator<Item = &mut BTreeSet<ObjectId>>;
}

/// Content that may be absent, by reason.
pub type ReasonList<R> = BTreeMap<R, <R as Reason>::Content>;

/// What was purged, by who has purged it, when and why.
pub type Purges = ReasonList<Purge>;

/// The files whose content has expired, by the rule and the time. Each is named by its root: it may be absent.
pub type Expirations = ReasonList<Expiry>;

/// Content that was purged for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgedContent {
    /// The files, each named by its root: they may be absent.
    pub files: BTreeSet<ObjectId>,
    /// Chunks that only these files needed: they must not be stored.
    pub pieces: BTreeSet<ObjectId>,
}

impl PurgedContent {
    /// Returns whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.pieces.is_empty()
    }
}

impl ListedContent for PurgedContent {
    fn lists(&self) -> impl Iterator<Item = &BTreeSet<ObjectId>> {
        [&self.files, &self.pieces].into_iter()
    }

    fn lists_mut(&mut self) -> impl Iterator<Item = &mut BTreeSet<ObjectId>> {
        [&mut self.files, &mut self.pieces].into_iter()
    }
}

impl ListedContent for BTreeSet<ObjectId> {
    fn lists(&self) -> impl Iterator<Item = &BTreeSet<ObjectId>> {
        std::iter::once(self)
    }

    fn lists_mut(&mut self) -> impl Iterator<Item = &mut BTreeSet<ObjectId>> {
        std::iter::once(self)
    }
}

impl Reason for Purge {
    type Content = PurgedContent;

    fn at(&self) -> i64 {
        self.at
    }

    fn texts(&self) -> [&str; 2] {
        [&self.by, &self.reason]
    }

    fn of(at: i64, [by, reason]: [String; 2]) -> Purge {
        Purge { at, by, reason }
    }

    fn is_storable(&self) -> bool {
        self.is_storable()
    }

    fn page(listed: Purges) -> Page {
        Page::Purges(listed)
    }

    fn listed_on(page: &Page) -> Option<&Purges> {
        match page {
            Page::Purges(listed) => Some(listed),
            _ => None,
        }
    }
}

impl Reason for Expiry {
    type Content = BTreeSet<ObjectId>;

    fn at(&self) -> i64 {
        self.at
    }

    fn texts(&self) -> [&str; 2] {
        [&self.rule, &self.pattern]
    }

    fn of(at: i64, [rule, pattern]: [String; 2]) -> Expiry {
        Expiry { at, rule, pattern }
    }

    fn is_storable(&self) -> bool {
        self.is_storable()
    }

    fn page(listed: Expirations) -> Page {
        Page::Expired(listed)
    }

    fn listed_on(page: &Page) -> Option<&Expirations> {
        match page {
            Page::Expired(listed) => Some(listed),
            _ => None,
        }
    }
}

/// Adds what another page lists.
pub fn join_listed<R: Reason>(all: &mut ReasonList<R>, more: &ReasonList<R>) {
    for (why, content) in more {
        let known = all.entry(why.clone()).or_default();
        for (known, ids) in known.lists_mut().zip(content.lists()) {
            known.extend(ids);
        }
    }
}

pub(super) fn put_listed<R: Reason>(out: &mut Vec<u8>, listed: &ReasonList<R>) {
    put_varint(out, listed.len() as u64);
    for (why, content) in listed {
        out.extend_from_slice(&why.at().to_le_bytes());
        why.texts()
            .iter()
            .for_each(|text| put_bytes(out, text.as_bytes()));
        for ids in content.lists() {
            put_varint(out, ids.len() as u64);
            ids.iter()
                .for_each(|id| out.extend_from_slice(id.as_bytes()));
        }
    }
}

pub(super) fn listed<R: Reason>(input: &mut Decoder) -> Result<ReasonList<R>, DecodeError> {
    let mut listed = ReasonList::<R>::new();
    for _ in 0..input.varint_up_to(MAX_REASONS, "too many reasons")? {
        let at = input.take(8)?.try_into().expect("eight bytes were taken");
        let why = R::of(i64::from_le_bytes(at), [text(input)?, text(input)?]);
        if !why.is_storable() {
            return Err(input.error("content is absent for no reason"));
        }
        if listed
            .last_key_value()
            .is_some_and(|(last, _)| *last >= why)
        {
            return Err(input.error("reasons are not sorted"));
        }
        let mut content = R::Content::default();
        for list in content.lists_mut() {
            *list = ids(input)?;
        }
        if content.lists().all(BTreeSet::is_empty) {
            return Err(input.error("a reason without content"));
        }
        listed.insert(why, content);
    }
    Ok(listed)
}

fn text(input: &mut Decoder) -> Result<String, DecodeError> {
    let bytes = input.bytes(MAX_TEXT_BYTES, "text is too long")?.to_vec();
    String::from_utf8(bytes).map_err(|_| input.error("text is not UTF-8"))
}

fn ids(input: &mut Decoder) -> Result<BTreeSet<ObjectId>, DecodeError> {
    let count = input.varint_up_to(MAX_IDS, "too many ids")?;
    let bytes = input.take(count as usize * ID_BYTES)?;
    let id = |bytes: &[u8]| ObjectId::from_bytes(bytes.try_into().expect("it is one id long"));
    let found: Vec<ObjectId> = bytes.chunks_exact(ID_BYTES).map(id).collect();
    if found.is_sorted_by(|a, b| a < b) {
        Ok(found.into_iter().collect())
    } else {
        Err(input.error("ids are not sorted"))
    }
}

//! What was purged from a bucket: docs/format/bucket.md, "Page".

use dmv_core::hash::{ID_BYTES, ObjectId};
use dmv_core::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use dmv_core::repo::Purge;
use std::collections::{BTreeMap, BTreeSet};

/// The most pages of purged content that a root names.
pub const MAX_PURGE_PAGES: usize = 16;
/// The most reasons on a page, and the most ids of one.
const MAX_REASONS: u64 = 65_536;
const MAX_IDS: u64 = 1 << 19;
const MAX_TEXT_BYTES: usize = 4096;

/// What was purged, by who has purged it, when and why.
pub type Purges = BTreeMap<Purge, PurgedContent>;

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

pub(super) fn put_purges(out: &mut Vec<u8>, purges: &Purges) {
    put_varint(out, purges.len() as u64);
    for (why, buried) in purges {
        out.extend_from_slice(&why.at.to_le_bytes());
        put_bytes(out, why.by.as_bytes());
        put_bytes(out, why.reason.as_bytes());
        for ids in [&buried.files, &buried.pieces] {
            put_varint(out, ids.len() as u64);
            ids.iter()
                .for_each(|id| out.extend_from_slice(id.as_bytes()));
        }
    }
}

pub(super) fn purges(input: &mut Decoder) -> Result<Purges, DecodeError> {
    let mut purges = Purges::new();
    for _ in 0..input.varint_up_to(MAX_REASONS, "too many purges")? {
        let at = input.take(8)?.try_into().expect("eight bytes were taken");
        let why = Purge {
            at: i64::from_le_bytes(at),
            by: text(input)?,
            reason: text(input)?,
        };
        if !why.is_storable() {
            return Err(input.error("a purge for no reason"));
        }
        if purges
            .last_key_value()
            .is_some_and(|(last, _)| *last >= why)
        {
            return Err(input.error("purges are not sorted"));
        }
        let buried = PurgedContent {
            files: ids(input)?,
            pieces: ids(input)?,
        };
        if buried.is_empty() {
            return Err(input.error("a purge of nothing"));
        }
        purges.insert(why, buried);
    }
    Ok(purges)
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

//! Which claims hold: of those that exclude each other, one.

use super::codec::{array, decode_path};
use super::path_index::PathIndex;
use super::{Claim, ClaimBook, DEVICE_BYTES, MAX_CLAIMS, MAX_LISTS, Writer};
use crate::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::object::name::RepoPath;
use std::collections::{BTreeMap, BTreeSet};

const VERSION: u8 = 1;

/// Names a claim: a writer has one for each path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Whose it is.
    pub writer: Writer,
    /// Its path.
    pub path: RepoPath,
}

/// The claims that hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldClaims {
    claims: BTreeSet<ClaimRef>,
}

impl HeldClaims {
    /// Returns whether a claim holds.
    pub fn has(&self, claim: &ClaimRef) -> bool {
        self.claims.contains(claim)
    }

    /// Returns the claims, in order of their writers and paths.
    pub fn iter(&self) -> impl Iterator<Item = &ClaimRef> {
        self.claims.iter()
    }

    /// Returns whether none holds.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Encodes the claims.
    pub fn encode(&self) -> Vec<u8> {
        let mut by_writer: BTreeMap<Writer, Vec<&RepoPath>> = BTreeMap::new();
        for claim in &self.claims {
            by_writer.entry(claim.writer).or_default().push(&claim.path);
        }
        let mut out = vec![VERSION];
        put_varint(&mut out, by_writer.len() as u64);
        for (writer, mut paths) in by_writer {
            out.extend_from_slice(&writer.device);
            out.extend_from_slice(&writer.place);
            put_varint(&mut out, paths.len() as u64);
            paths.sort_by_key(|path| path.as_bytes());
            paths
                .iter()
                .for_each(|path| put_bytes(&mut out, path.as_bytes()));
        }
        out
    }

    /// Decodes the claims.
    pub fn decode(bytes: &[u8]) -> Result<HeldClaims, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.version(VERSION..=VERSION)?;
        let mut claims = Vec::new();
        let mut before: Option<Writer> = None;
        for _ in 0..input.varint_up_to(MAX_LISTS as u64, "too many lists")? {
            let writer = Writer {
                device: array(&mut input)?,
                place: array(&mut input)?,
            };
            if before.is_some_and(|before| before >= writer) {
                return Err(input.error("writers are not in order"));
            }
            before = Some(writer);
            let count = input.varint_up_to(MAX_CLAIMS as u64, "too many claims")?;
            let mut last: Option<RepoPath> = None;
            for _ in 0..count {
                let path = decode_path(&mut input)?;
                let is_after = |last: &RepoPath| last.as_bytes() < path.as_bytes();
                if !last.as_ref().is_none_or(is_after) || claims.len() >= MAX_CLAIMS {
                    return Err(input.error("claims are not in order"));
                }
                last = Some(path.clone());
                claims.push(ClaimRef { writer, path });
            }
            if count == 0 {
                return Err(input.error("a writer without claims"));
            }
        }
        input.finish()?;
        Ok(HeldClaims {
            claims: claims.into_iter().collect(),
        })
    }
}

/// Returns which claims of a book hold, after those of `before` did.
///
/// What holds goes on to hold until its writer drops it or somebody takes it over. Other claims follow in the
/// order of their logical times and keys. One holds unless one of another device on a common path does, or if
/// it takes that one over, which it can only if its time is later. Without `before`, the answer depends on the
/// book alone, so everybody with the same book gives the same one. A claim that somebody has ended never holds.
pub fn settle(book: &ClaimBook, before: &HeldClaims) -> HeldClaims {
    settle_some(book.live_claims(), before)
}

/// The same for some claims: those that nobody has ended on some paths, and all that overlap them.
pub fn settle_some<'b>(
    claims: impl Iterator<Item = (Writer, &'b Claim)>,
    before: &HeldClaims,
) -> HeldClaims {
    let mut index = PathIndex::default();
    let mut waiting = Vec::new();
    for (writer, claim) in claims {
        let path = claim.path.clone();
        if before.has(&ClaimRef { writer, path }) {
            index.add(&claim.path, IndexedClaim { writer, claim });
        } else {
            waiting.push(IndexedClaim { writer, claim });
        }
    }
    waiting.sort_by(|a, b| {
        let order = (a.claim.time, a.writer).cmp(&(b.claim.time, b.writer));
        order.then_with(|| a.claim.path.as_bytes().cmp(b.claim.path.as_bytes()))
    });
    for new in waiting {
        let path = &new.claim.path;
        let others = of_others(&index, &new.writer.device, path);
        let is_over =
            |other: &IndexedClaim<'_>| new.claim.takes && other.claim.time < new.claim.time;
        if others.iter().all(is_over) {
            for other in others {
                index.retain_at(&other.claim.path, |known| known.writer != other.writer);
            }
            index.add(path, new);
        }
    }
    let refs = index.into_values().map(|known| ClaimRef {
        writer: known.writer,
        path: known.claim.path.clone(),
    });
    HeldClaims {
        claims: refs.collect(),
    }
}

/// A claim with its writer.
#[derive(Clone, Copy)]
struct IndexedClaim<'b> {
    writer: Writer,
    claim: &'b Claim,
}

/// Returns the claims of other devices that overlap a path.
fn of_others<'b>(
    index: &PathIndex<IndexedClaim<'b>>,
    device: &[u8; DEVICE_BYTES],
    path: &RepoPath,
) -> Vec<IndexedClaim<'b>> {
    let all = index.overlapping(path);
    let others = all.filter(|known| known.writer.device != *device);
    others.copied().collect()
}

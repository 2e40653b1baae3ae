//! Versions of one text, which samples do not tell.
//!
//! A small chunk has few samples, and a sample that many versions share says nothing about any of them. But
//! versions of a text differ in a few lines only. So a *sketch* of a chunk, the least hashes of all its windows,
//! is nearly that of the version before, and all versions form a *family*. The first one becomes the base of
//! frames in which the others follow each other: a chain for zstd, and one layer of bases for a reader.

use super::{Pieces, Stretch};
use std::collections::HashMap;

/// The number of hashes in a sketch.
const SKETCH: usize = 8;
/// The share of a sketch that makes a chunk a version, in parts of [`SKETCH`]. With a quarter, families mix files;
/// with a half, 19 % more remain alone, of the content of this program's own history.
const ALIKE: usize = 3;
/// Bytes of versions in a frame. To read one of them, all are decoded.
const FRAME_BYTES: usize = 256 << 10;
/// A frame of longer versions has this many of them, up to these bytes.
const FRAME_VERSIONS: usize = 16;
const LONG_FRAME_BYTES: usize = 1 << 20;
/// Most families in a frame. To read it, the bases of all are needed.
const FRAME_FAMILIES: usize = 16;

/// The least hashes of a chunk's windows, in order; `u32::MAX` in place of those that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sketch([u32; SKETCH]);

impl Sketch {
    /// The sketch of a chunk without windows.
    pub const EMPTY: Sketch = Sketch([u32::MAX; SKETCH]);

    /// Adds the hash of a window.
    pub fn add(&mut self, hash: u32) {
        if hash < self.0[SKETCH - 1] && !self.0.contains(&hash) {
            self.0[SKETCH - 1] = hash;
            self.0.sort_unstable();
        }
    }

    /// Returns the least hash, if there is one.
    pub fn least(&self) -> Option<u32> {
        self.hashes().first().copied()
    }

    fn hashes(&self) -> &[u32] {
        let len = self.0.partition_point(|hash| *hash < u32::MAX);
        &self.0[..len]
    }
}

/// Chunks that are versions of each other.
struct Family {
    /// The base of the others.
    base: u32,
    others: Vec<u32>,
}

impl Family {
    /// Turns the others round if the last one resembles the base more than the first one does: an import stores
    /// the newest version last, and the others from new to old.
    fn begin_with_what_resembles_the_base(&mut self, pieces: &Pieces) {
        let sketch = |chunk: u32| &pieces.sketches[chunk as usize];
        let shared = |chunk: Option<&u32>| {
            let hashes = chunk.map_or(&[][..], |chunk| sketch(*chunk).hashes());
            let of_base = sketch(self.base).hashes();
            hashes.iter().filter(|hash| of_base.contains(hash)).count()
        };
        if shared(self.others.last()) > shared(self.others.first()) {
            self.others.reverse();
        }
    }
}

/// Returns stretches of versions with their bases. `order` are the chunks to compare, each before those of which
/// it may be the base.
pub(super) fn stretches(pieces: &Pieces, order: &[u32]) -> Vec<Stretch> {
    let mut families = families(pieces, order);
    families.retain(|family| !family.others.is_empty());
    for family in &mut families {
        family.begin_with_what_resembles_the_base(pieces);
    }
    // Bases that lie together are needed together.
    families.sort_unstable_by_key(|family| family.base);
    let len = |chunk: u32| pieces.lens[chunk as usize] as usize;
    let mut out: Vec<Stretch> = Vec::new();
    let mut bytes = usize::MAX;
    for Family { base, others } in families {
        let room = (FRAME_VERSIONS * len(base)).clamp(FRAME_BYTES, LONG_FRAME_BYTES);
        for chunk in others {
            bytes = bytes.saturating_add(len(chunk));
            let open = out.last_mut().filter(|open| {
                let has_base = open.bases.last() == Some(&base);
                bytes <= room && (has_base || open.bases.len() < FRAME_FAMILIES)
            });
            match open {
                Some(open) => {
                    open.chunks.push(chunk);
                    if open.bases.last() != Some(&base) {
                        open.bases.push(base);
                    }
                }
                None => {
                    bytes = len(chunk);
                    out.push(Stretch {
                        chunks: vec![chunk],
                        bases: vec![base],
                    });
                }
            }
        }
    }
    out
}

/// Joins each chunk to the family that has most of its hashes, if these are enough.
fn families(pieces: &Pieces, order: &[u32]) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    // The family of the last chunk with each hash.
    let mut last: HashMap<u32, u32> = HashMap::new();
    for chunk in order {
        let hashes = pieces.sketches[*chunk as usize].hashes();
        let mut votes: Vec<u32> = hashes
            .iter()
            .filter_map(|hash| last.get(hash))
            .copied()
            .collect();
        votes.sort_unstable();
        let best = votes.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
        let best = best.filter(|same| same.len() * SKETCH >= hashes.len() * ALIKE);
        let number = match best {
            Some(same) if !pieces.pinned[*chunk as usize] => {
                families[same[0] as usize].others.push(*chunk);
                same[0]
            }
            _ => {
                let (base, others) = (*chunk, Vec::new());
                families.push(Family { base, others });
                families.len() as u32 - 1
            }
        };
        last.extend(hashes.iter().map(|hash| (*hash, number)));
    }
    families
}

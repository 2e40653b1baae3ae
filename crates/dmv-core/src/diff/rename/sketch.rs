//! Sketches: a few hundred bytes that represent a file's content.
//!
//! Pieces are lines, or the chunks of long files. A sketch keeps the pieces with the smallest
//! hashes. Which these are depends on the pieces alone, so two contents are sampled alike. If a
//! sketch has room for all pieces, it gives the exact share of two contents, otherwise an estimate.

use crate::hash::ObjectId;
use crate::limits::{MAX_MERGE_TEXT_BYTES, MAX_RENAME_CHUNKS};
use crate::object::list::{Blob, BlobChunks};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::cmp::Ordering;

/// Length in bytes at which a line is cut, so that content without lines has pieces, too.
const PIECE_BYTES: usize = 64;
/// How many pieces are collected, in addition to twice the number kept, before those with greater
/// hashes are dropped.
const PIECES_AT_A_TIME: usize = 1024;

/// The pieces of a content, or a sample of them.
#[derive(Debug, Default)]
pub struct Sketch {
    /// Hash and bytes of content of each piece, by rising hash.
    pieces: Vec<(u64, u64)>,
    /// Pieces with this hash or a greater one were dropped.
    bound: Option<u64>,
}

impl Sketch {
    /// Returns the share of the longer content that is in both, in millionths.
    pub fn share(&self, other: &Sketch, sizes: [u64; 2]) -> u64 {
        let bound = [self.bound, other.bound].into_iter().flatten().min();
        let (mut a, mut b) = (self.below(bound), other.below(bound));
        let bytes =
            |pieces: &[(u64, u64)]| pieces.iter().map(|(_, n)| u128::from(*n)).sum::<u128>();
        let sampled = bytes(a) + bytes(b);
        let mut shared = 0;
        while let ([(x, n), rest_a @ ..], [(y, m), rest_b @ ..]) = (a, b) {
            match x.cmp(y) {
                Ordering::Less => a = rest_a,
                Ordering::Greater => b = rest_b,
                Ordering::Equal => {
                    shared += u128::from(*n.min(m));
                    (a, b) = (rest_a, rest_b);
                }
            }
        }
        let longer = u128::from(sizes[0].max(sizes[1]).max(1));
        let of_longer = match bound {
            None => shared * 1_000_000 / longer,
            Some(_) => {
                let all = u128::from(sizes[0]) + u128::from(sizes[1]);
                shared * all / sampled.max(1) * 1_000_000 / longer
            }
        };
        of_longer.min(1_000_000) as u64
    }

    fn below(&self, bound: Option<u64>) -> &[(u64, u64)] {
        match bound {
            None => &self.pieces,
            Some(bound) => {
                let end = self.pieces.partition_point(|(hash, _)| *hash < bound);
                &self.pieces[..end]
            }
        }
    }

    /// Returns the hashes of the pieces.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.pieces.iter().map(|(hash, _)| *hash)
    }

    /// Returns the pieces: hash, and bytes of content.
    pub(super) fn pieces(&self) -> &[(u64, u64)] {
        &self.pieces
    }
}

/// Builds a sketch.
#[derive(Debug)]
pub struct Sketcher {
    most: usize,
    pieces: Vec<(u64, u64)>,
    bound: Option<u64>,
}

impl Sketcher {
    /// Returns a sketcher that keeps at most `most` pieces.
    pub fn new(most: usize) -> Sketcher {
        Sketcher {
            most,
            pieces: Vec::new(),
            bound: None,
        }
    }

    /// Returns the sketch of a content of at most [`MAX_MERGE_TEXT_BYTES`], by its lines.
    pub(crate) fn of_content(mut self, content: &[u8]) -> Sketch {
        for line in content.split_inclusive(|b| *b == b'\n') {
            for piece in line.chunks(PIECE_BYTES) {
                self.add(hash_of(piece), piece.len() as u64);
            }
        }
        self.finish()
    }

    /// Returns the sketch of a longer content, by its chunks.
    pub fn of_chunks(mut self, chunks: impl IntoIterator<Item = (ObjectId, u64)>) -> Sketch {
        for (id, len) in chunks {
            self.add_chunk(&id, len);
        }
        self.finish()
    }

    fn add_chunk(&mut self, id: &ObjectId, len: u64) {
        let mut hash = [0; 8];
        hash.copy_from_slice(&id.as_bytes()[..8]);
        self.add(u64::from_le_bytes(hash), len);
    }

    fn add(&mut self, hash: u64, bytes: u64) {
        if self.bound.is_some_and(|bound| hash >= bound) {
            return;
        }
        self.pieces.push((hash, bytes));
        if self.pieces.len() >= 2 * self.most + PIECES_AT_A_TIME {
            self.tidy();
        }
    }

    /// Adds up equal pieces, and drops the greatest hashes if there are too many.
    fn tidy(&mut self) {
        self.pieces.sort_unstable();
        self.pieces.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        if let Some((hash, _)) = self.pieces.get(self.most) {
            self.bound = Some(*hash);
            self.pieces.truncate(self.most);
        }
    }

    fn finish(mut self) -> Sketch {
        self.tidy();
        self.pieces.shrink_to_fit();
        Sketch {
            pieces: self.pieces,
            bound: self.bound,
        }
    }
}

/// Returns a number that depends on all bytes of a piece. A provoked collision only makes two files
/// look more alike than they are.
fn hash_of(piece: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = ODD ^ piece.len() as u64;
    for bytes in piece.chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
        hash ^= hash >> 29;
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

/// Returns the sketch of a stored file; `None` if it has too many chunks or is not completely
/// stored. Adds the bytes of content that it reads to `read_bytes`.
pub(crate) fn sketch_of(
    reader: &dyn ObjectRead,
    blob: Blob,
    mut sketcher: Sketcher,
    read_bytes: &mut u64,
) -> Result<Option<Sketch>, ObjectError> {
    let is_short = blob.size <= MAX_MERGE_TEXT_BYTES;
    let mut content = Vec::new();
    for (n, chunk) in BlobChunks::new(reader, blob).enumerate() {
        let (_, id, len) = match chunk {
            Err(ObjectError::Missing { .. }) => return Ok(None),
            chunk => chunk?,
        };
        if n >= MAX_RENAME_CHUNKS {
            return Ok(None);
        }
        if !is_short {
            sketcher.add_chunk(&id, len);
            continue;
        }
        let Some(bytes) = reader.read(ObjectType::Chunk, &id)? else {
            return Ok(None);
        };
        *read_bytes += bytes.len() as u64;
        // The stored content may be longer than its entry says. The limit applies to it, too.
        if (content.len() + bytes.len()) as u64 > MAX_MERGE_TEXT_BYTES {
            return Ok(None);
        }
        content.extend_from_slice(&bytes);
    }
    Ok(Some(if is_short {
        sketcher.of_content(&content)
    } else {
        sketcher.finish()
    }))
}

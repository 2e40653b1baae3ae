//! Blobs are cut into chunks and stored by several threads, in blocks that keep their order.
//!
//! The module knows no trees and no commits.

use crate::error::GitError;
use crate::id::{GitId, GitType};
use crossbeam_channel::{Receiver, Sender};
use dmv_core::ObjectId;
use dmv_core::chunker::{Cutter, MAX_CUT_BYTES};
use dmv_core::object::list::{Blob, ListBuilder};
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::store::{IncomingObjects, MetaWriter};
use std::io::{self, Read};
use std::ops::Range;

/// Bytes of a block, unless one object has more.
pub const BLOCK_BYTES: usize = 1 << 20;
/// The most objects of a block.
const BLOCK_ITEMS: usize = 4096;
/// Bytes of a large file that are cut at a time.
const PIECE_BYTES: usize = 4 << 20;

/// An object, or a part of a blob that ends where a chunk ends.
pub struct Item {
    /// The object.
    pub id: GitId,
    /// Its type.
    pub ty: GitType,
    /// Where its bytes are in the block.
    pub bytes: Range<usize>,
    /// Whether the object ends here.
    pub is_last: bool,
}

/// Consecutive objects.
#[derive(Default)]
pub struct Block {
    /// The place of the block among all.
    pub number: u64,
    /// The bytes of all objects.
    pub bytes: Vec<u8>,
    /// The objects.
    pub items: Vec<Item>,
}

impl Block {
    /// Returns whether the block should be passed on before more is added.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.items.len() >= BLOCK_ITEMS
    }

    /// Adds the bytes from `start` to the end of the block as an object.
    pub fn end_item(&mut self, id: GitId, ty: GitType, start: usize, is_last: bool) {
        self.items.push(Item {
            id,
            ty,
            bytes: start..self.bytes.len(),
            is_last,
        });
    }
}

/// A chunk of a blob.
#[derive(Clone, Copy)]
pub struct StoredChunk {
    /// The chunk.
    pub id: ObjectId,
    /// Its length in bytes.
    pub len: u32,
}

/// A block whose blobs are stored.
pub struct StoredBlock {
    /// The block.
    pub block: Block,
    /// The chunks of all blobs, in order.
    pub chunks: Vec<StoredChunk>,
    /// For each item the number of its chunks; 0 for other objects than blobs.
    pub counts: Vec<u32>,
}

/// Stores the blobs of blocks until there are no more. Several threads do.
pub fn store_blocks(
    incoming: &IncomingObjects<'_>,
    blocks: &Receiver<Block>,
    done: &Sender<Result<StoredBlock, GitError>>,
) {
    let cutter = Cutter::new();
    let mut lane = incoming.lane();
    for block in blocks {
        let stored = store_block(&cutter, &mut lane, block);
        if done.send(stored).is_err() {
            return;
        }
    }
    if let Err(e) = lane.flush() {
        let _ = done.send(Err(e.into()));
    }
}

fn store_block(
    cutter: &Cutter,
    lane: &mut MetaWriter<'_>,
    block: Block,
) -> Result<StoredBlock, GitError> {
    let mut chunks = Vec::new();
    let mut counts = Vec::with_capacity(block.items.len());
    for item in &block.items {
        let before = chunks.len();
        if item.ty == GitType::Blob {
            let mut rest = &block.bytes[item.bytes.clone()];
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(cutter.cut(rest));
                let id = lane.put(ObjectType::Chunk, chunk)?;
                let len = chunk.len() as u32;
                chunks.push(StoredChunk { id, len });
                rest = after;
            }
        }
        counts.push((chunks.len() - before) as u32);
    }
    Ok(StoredBlock {
        block,
        chunks,
        counts,
    })
}

/// Reads content in pieces that end where a chunk ends.
pub struct Pieces<R> {
    input: R,
    cutter: Cutter,
    /// Bytes that were read and belong to the next piece.
    rest: Vec<u8>,
    at_end: bool,
}

impl<R: Read> Pieces<R> {
    /// Returns the pieces of everything that `input` gives.
    pub fn new(input: R) -> Pieces<R> {
        Pieces {
            input,
            cutter: Cutter::new(),
            rest: Vec::new(),
            at_end: false,
        }
    }

    /// Appends the next piece to `out`. Returns whether it is the last one.
    pub fn next(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let start = out.len();
        out.append(&mut self.rest);
        while !self.at_end && out.len() - start < PIECE_BYTES {
            let wanted = (PIECE_BYTES - (out.len() - start)) as u64;
            let read = Read::by_ref(&mut self.input)
                .take(wanted)
                .read_to_end(out)?;
            self.at_end = (read as u64) < wanted;
        }
        if self.at_end {
            return Ok(true);
        }
        let mut end = start;
        while out.len() - end > MAX_CUT_BYTES {
            end += self.cutter.cut(&out[end..]);
        }
        self.rest = out.split_off(end);
        Ok(false)
    }
}

/// Stores everything that `input` gives as one blob, and shows each piece to `look`.
pub fn store_content(
    input: impl Read,
    lane: &mut MetaWriter<'_>,
    mut look: impl FnMut(&[u8]),
) -> Result<Blob, GitError> {
    let mut pieces = Pieces::new(input);
    let mut list = ListBuilder::new();
    let cutter = Cutter::new();
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let is_last = pieces.next(&mut piece).map_err(GitError::Read)?;
        look(&piece);
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(cutter.cut(rest));
            let id = lane.put(ObjectType::Chunk, chunk)?;
            list.push(id, chunk.len() as u64, lane)?;
            rest = after;
        }
        if is_last {
            return Ok(list.finish(lane)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_where_the_whole_is() {
        let bytes = dmv_random::Rng::new(7).bytes(11 << 20);
        let cutter = Cutter::new();
        let cuts = |bytes: &[u8]| {
            let mut lengths = Vec::new();
            let mut rest = bytes;
            while !rest.is_empty() {
                let length = cutter.cut(rest);
                lengths.push(length);
                rest = &rest[length..];
            }
            lengths
        };
        let mut pieces = Pieces::new(&bytes[..]);
        let (mut together, mut all, mut count) = (Vec::new(), Vec::new(), 0);
        loop {
            let mut piece = Vec::new();
            let is_last = pieces.next(&mut piece).expect("memory can be read");
            all.extend(cuts(&piece));
            together.extend(piece);
            count += 1;
            if is_last {
                break;
            }
        }
        assert!(count > 2, "{count} pieces");
        assert!(together == bytes);
        assert_eq!(all, cuts(&bytes));
    }
}

//! Blobs are cut into chunks and stored by several threads, in blocks that keep their order.
//!
//! The module knows no trees and no commits.

use crate::error::GitError;
use crate::id::{GitId, GitType};
use crossbeam_channel::{Receiver, Sender};
use dmv_core::ObjectId;
use dmv_core::chunker::Cutter;
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::store::{IncomingObjects, MetaWriter};
use std::ops::Range;

/// Bytes of a block, unless one object has more.
pub const BLOCK_BYTES: usize = 1 << 20;
/// The most objects of a block.
const BLOCK_ITEMS: usize = 4096;

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

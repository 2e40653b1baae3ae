//! Hashing the chunks of blocks, and storing the new ones.

use super::Block;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectType;
use crate::platform::Origin;
use crate::store::{FrameEncoder, FrameObject, StoreError, StoreWriter};

/// Hashes the chunks of a block and stores the new ones. Returns all of them.
pub(super) fn hash_block(
    block: &Block,
    writer: &StoreWriter<'_>,
    encoder: &mut FrameEncoder,
    picked: &mut Vec<u8>,
    job: &Job,
) -> Result<Vec<(ObjectId, u32)>, StoreError> {
    let mut chunks = Vec::with_capacity(block.cuts.len());
    let mut at = 0;
    let mut fresh: Vec<FrameObject> = Vec::with_capacity(block.cuts.len());
    let mut fresh_at: Vec<usize> = Vec::with_capacity(block.cuts.len());
    for &len in &block.cuts {
        let bytes = &block.buf[at..at + len as usize];
        let id = ObjectType::Chunk.id_of(bytes);
        if writer.claim(&id)? {
            fresh.push(FrameObject {
                id,
                ty: ObjectType::Chunk,
                len,
            });
            fresh_at.push(at);
        }
        chunks.push((id, len));
        at += len as usize;
    }
    if fresh.is_empty() {
        return Ok(chunks);
    }
    Job::add(
        &job.progress.new_bytes,
        fresh.iter().map(|o| u64::from(o.len)).sum(),
    );
    let (first, last) = (fresh_at[0], fresh_at.len() - 1);
    let end = fresh_at[last] + fresh[last].len as usize;
    let len: usize = fresh.iter().map(|object| object.len as usize).sum();
    let origin = block.origin.as_ref().filter(|_| end - first == len);
    let origin = origin.map(|origin| Origin {
        file: &origin.file,
        at: origin.at + first as u64,
    });
    let raw = if end - first == len {
        &block.buf[first..end]
    } else {
        picked.clear();
        for (object, &from) in fresh.iter().zip(&fresh_at) {
            let bytes = &block.buf[from..from + object.len as usize];
            picked.extend_from_slice(bytes);
        }
        picked
    };
    writer.append_read(encoder, raw, &fresh, origin)?;
    Ok(chunks)
}

//! What a transfer would send, without sending it.
//!
//! The numbers come from the walk that a transfer makes and from the lengths with which objects are
//! stored here. Nothing is read but metadata, so they are a little off: frames are packed anew, and
//! the other side may have chunks that no common commit leads to.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::reach::Reach;
use dmv_core::repo::RepoError;
use dmv_core::store::Store;

/// Absent objects that are reported.
const MAX_LACKING: usize = 64;

/// About how many bytes stand in a pack for an object besides its own: in the table of its frame, in the
/// index, and in the places.
pub const OBJECT_BYTES: u64 = 64;

/// What would be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushForecast {
    /// Commits, trees, lists and conflicts.
    pub nodes: u64,
    /// Chunks.
    pub chunks: u64,
    /// The bytes of the chunks in their files.
    pub content_bytes: u64,
    /// The bytes of the chunks as they are stored.
    pub chunk_bytes: u64,
    /// The bytes of the other objects as they are stored.
    pub node_bytes: u64,
}

impl PushForecast {
    /// Returns the number of objects.
    pub fn objects(&self) -> u64 {
        self.nodes + self.chunks
    }

    /// Returns the bytes to be sent, with what stands around each object.
    pub fn bytes(&self) -> u64 {
        self.chunk_bytes + self.node_bytes + OBJECT_BYTES * self.objects()
    }
}

/// Measures what a walk leads to. Returns with it the first objects that are not stored here.
pub fn measure(
    store: &Store,
    mut reach: Reach,
    job: &Job,
) -> Result<(PushForecast, Vec<(ObjectType, ObjectId)>), RepoError> {
    let (mut sum, mut lacking) = (PushForecast::default(), Vec::new());
    let refused = store.refused();
    while let Some(found) = reach.next(store)? {
        job.check()?;
        let is_chunk = found.ty == ObjectType::Chunk;
        if is_chunk && refused.contains(&found.id) {
            continue;
        }
        if !found.here {
            if lacking.len() < MAX_LACKING {
                lacking.push((found.ty, found.id));
            }
            continue;
        }
        let stored = store.stored_len(&found.id)?.unwrap_or(found.len);
        if is_chunk {
            sum.chunks += 1;
            sum.content_bytes += found.len;
            sum.chunk_bytes += stored;
        } else {
            sum.nodes += 1;
            sum.node_bytes += stored;
        }
        Job::add(&job.progress.objects, 1);
    }
    Ok((sum, lacking))
}

//! What a job has written, before it is published.

use super::catalogue::SegmentRow;
use super::random_id::PackId;
use super::table::Table;
use crate::hash::ObjectId;
use crate::vfs::VfsFile;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The result of a finished job before it is published: durable segments, and the locks on their
/// packs.
pub struct FinishedJob {
    /// New segments, in the order of their packs.
    pub segments: Vec<SegmentRow>,
    /// Packs of earlier jobs on whose objects this job relies.
    pub relied: Vec<PackId>,
    /// Bytes appended to packs.
    pub stored_bytes: u64,
    /// Whether the repository's budget limits the job.
    pub(crate) is_limited: bool,
    /// The chunks that the job has moved only into frames without bases.
    pub(super) kept_plain: HashSet<ObjectId>,
    /// Tables of the segments, for [`Store::adopt`].
    pub(super) tables: Vec<Arc<Table>>,
    /// What the job refused to store.
    pub(super) refused: Arc<BTreeSet<ObjectId>>,
    /// The locks on the packs.
    pub(super) locks: Vec<Arc<dyn VfsFile>>,
}

impl FinishedJob {
    /// Joins the results of two writers of one job, to be published together.
    pub fn join(mut self, later: FinishedJob) -> FinishedJob {
        self.segments.extend(later.segments);
        // Objects that the second writer found in segments of the first are new, not relied on.
        let own: HashSet<PackId> = self.segments.iter().map(|row| row.pack).collect();
        let relied = later.relied.into_iter().filter(|id| !own.contains(id));
        self.relied.extend(relied);
        self.stored_bytes += later.stored_bytes;
        self.is_limited |= later.is_limited;
        self.kept_plain.extend(later.kept_plain);
        self.tables.extend(later.tables);
        self.locks.extend(later.locks);
        self
    }
}

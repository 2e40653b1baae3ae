//! When stored segments were stored.

use crate::refs::Timestamp;
use crate::repo::base::repo::Repo;
use crate::store::{PackId, SegmentRow};
use std::collections::HashMap;
use std::time::UNIX_EPOCH;

/// Returns when each segment was stored: as the catalogue notes it, or else when its pack was last
/// written to.
pub(super) fn ages(
    repo: &Repo,
    segments: &[(SegmentRow, Option<i64>)],
    now: Timestamp,
) -> HashMap<(PackId, u64), i64> {
    let mut files = HashMap::new();
    let mut of_file = |pack| {
        *files.entry(pack).or_insert_with(|| {
            let modified = std::fs::metadata(repo.store.pack_path(pack)).and_then(|m| m.modified());
            let since = modified
                .ok()
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            since.and_then(|since| i64::try_from(since.as_secs()).ok())
        })
    };
    let age = |(row, at): &(SegmentRow, Option<i64>)| {
        let at = at.or_else(|| of_file(row.pack)).unwrap_or(now.seconds);
        ((row.pack, row.end), at)
    };
    segments.iter().map(age).collect()
}

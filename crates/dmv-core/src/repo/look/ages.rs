//! When stored segments were stored.

use crate::hash::ObjectId;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::store::{PackId, SegmentRow};
use std::collections::HashMap;
use std::time::UNIX_EPOCH;

/// Returns when each segment was stored: as the catalogue notes it, or else when its pack was last
/// written to, or else `unknown`.
pub fn ages(
    repo: &Repo,
    segments: &[(SegmentRow, Option<i64>)],
    unknown: i64,
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
        let at = at.or_else(|| of_file(row.pack)).unwrap_or(unknown);
        ((row.pack, row.end), at)
    };
    segments.iter().map(age).collect()
}

/// When objects were stored here: the times of all segments, read once.
pub struct StoredTimes(Vec<(SegmentRow, i64)>);

impl StoredTimes {
    /// Reads the times. A segment of unknown age counts as stored after all others.
    pub fn read(repo: &Repo) -> Result<StoredTimes, RepoError> {
        let segments = repo.refs.census()?.segments;
        let ages = ages(repo, &segments, i64::MAX);
        let of = |(row, _): (SegmentRow, _)| Some((row, *ages.get(&(row.pack, row.end))?));
        Ok(StoredTimes(segments.into_iter().filter_map(of).collect()))
    }

    /// Returns when an object was stored, in seconds since 1970; `None` if no segment has it. If it was
    /// stored several times, any of them.
    pub fn of(&self, repo: &Repo, id: &ObjectId) -> Result<Option<i64>, RepoError> {
        let Some((pack, place)) = repo.store.place_to_name(id, None)? else {
            return Ok(None);
        };
        let has =
            |row: &SegmentRow| row.pack == pack && (row.start..row.end).contains(&place.offset);
        let found = self.0.iter().find(|(row, _)| has(row));
        Ok(found.map(|(_, at)| *at))
    }
}

//! What a partial server stores: the summary in its Hello, as both sides use it.

use crate::wire::{Hello, SliceSummary};
use dmv_core::reach::Filter;
use dmv_core::repo::Repo;
use dmv_core::subset::Subset;

/// What another repository says it stores. This is advisory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSlice {
    /// The paths that it stores.
    pub subset: Subset,
    /// Whether it stores no file content.
    pub metadata_only: bool,
    /// The number of commits at which its history ends.
    pub boundary: u32,
    /// The number of files whose content it has dropped or that has expired.
    pub dropped: u32,
}

impl PeerSlice {
    /// Reads the summary in a Hello. Returns `None` if there is none or if it is malformed.
    pub fn read(hello: &Hello) -> Option<PeerSlice> {
        let held = hello.held()?;
        let subset = if held.subset.is_empty() {
            Subset::everything()
        } else {
            Subset::new(held.subset.iter().map(Vec::as_slice)).ok()?
        };
        Some(PeerSlice {
            subset,
            metadata_only: held.metadata_only,
            boundary: held.boundary,
            dropped: held.dropped,
        })
    }

    /// Returns whether it stores everything.
    pub fn is_everything(&self) -> bool {
        self.subset.is_everything()
            && !self.metadata_only
            && self.boundary == 0
            && self.dropped == 0
    }

    /// Returns whether it certainly cannot give all of `filter` to an empty receiver. If the answer
    /// depends on the commits' content, this returns `false` and the transfer finds out.
    pub fn cannot_give(&self, filter: &Filter) -> bool {
        let all_history = filter.depth == 0 && filter.since.is_none();
        (self.metadata_only && !filter.metadata_only)
            || (self.boundary > 0 && all_history)
            || (!self.subset.is_everything() && filter.paths.is_everything())
    }
}

/// Returns the summary of what `repo` stores. Returns `None` if the record of its slice is
/// unreadable: that must stop the commands that need it, but not a Hello.
pub fn held_by(repo: &Repo) -> Option<SliceSummary> {
    let slice = repo.slice().ok()?;
    let tips = repo.offered().ok()?.refs.into_iter().map(|(_, id)| id);
    let ends = repo.ends_of_history(&slice, tips.collect()).len();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Some(SliceSummary {
        subset: slice.subset.patterns().map(<[u8]>::to_vec).collect(),
        metadata_only: slice.metadata_only,
        boundary: count(ends),
        // No peer gets purged content, so a repository without it is complete.
        dropped: count(slice.dropped.len() + slice.expired.len()),
    })
}

/// Returns whether content of `repo` was purged. An unreadable record of its slice must stop the
/// commands that need it, but not a Hello.
pub fn has_purged(repo: &Repo) -> bool {
    repo.slice().is_ok_and(|slice| !slice.purged.is_empty())
}

//! What a server holds, as it says to its clients.

use crate::wire::{Held, Hello};
use dmv_core::reach::Filter;
use dmv_core::repo::Repo;
use dmv_core::subset::Subset;

/// What another repository holds, by what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSlice {
    /// The paths.
    pub subset: Subset,
    /// Whether it holds no content of files.
    pub metadata_only: bool,
    /// Commits at which its history ends.
    pub boundary: u32,
    /// Files whose content it has given up.
    pub dropped: u32,
}

impl PeerSlice {
    /// What a greeting says; `None`: nothing, or nothing that makes sense.
    pub fn read(hello: &Hello) -> Option<PeerSlice> {
        let held = hello.held()?;
        let subset = match held.subset.is_empty() {
            true => Subset::everything(),
            false => Subset::new(held.subset.iter().map(Vec::as_slice)).ok()?,
        };
        Some(PeerSlice {
            subset,
            metadata_only: held.metadata_only,
            boundary: held.boundary,
            dropped: held.dropped,
        })
    }

    /// Whether that is everything.
    pub fn is_everything(&self) -> bool {
        self.subset.is_everything()
            && !self.metadata_only
            && self.boundary == 0
            && self.dropped == 0
    }

    /// Whether it cannot give all of this to somebody who has nothing. Where that depends on what
    /// the commits have, the transfer will tell.
    pub fn cannot_give(&self, filter: &Filter) -> bool {
        let all_history = filter.depth == 0 && filter.since.is_none();
        (self.metadata_only && !filter.metadata_only)
            || (self.boundary > 0 && all_history)
            || (!self.subset.is_everything() && filter.paths.is_everything())
    }
}

/// What `repo` holds. A record of it that cannot be read stops what depends on it, and not a
/// greeting: nothing is said then.
pub fn held_by(repo: &Repo) -> Option<Held> {
    let slice = repo.slice().ok()?;
    let tips = repo.offered().ok()?.refs.into_iter().map(|(_, id)| id);
    let ends = repo.ends_of_history(&slice, tips.collect()).len();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Some(Held {
        subset: slice.subset.patterns().map(<[u8]>::to_vec).collect(),
        metadata_only: slice.metadata_only,
        boundary: count(ends),
        dropped: count(slice.dropped.len()),
    })
}

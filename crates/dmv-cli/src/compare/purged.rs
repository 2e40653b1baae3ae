//! Sides of a comparison whose content was purged: they have no lines, and no remote is asked for them.

use crate::compare::side::Side;
use crate::failure::Failure;
use crate::partial::{PurgeValue, purge_words};
use dmv_core::object::root::Root;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Purge, Repo, RepoError, RepoSlice};
use serde::Serialize;
use std::cell::OnceCell;

/// Who has purged what. Reads the list only when some content turns out to be absent.
pub struct Purges<'a> {
    repo: &'a Repo,
    slice: OnceCell<RepoSlice>,
}

impl<'a> Purges<'a> {
    /// The purges that a repository knows of, its own and those of its remotes.
    pub fn known_to(repo: &'a Repo) -> Purges<'a> {
        let slice = OnceCell::new();
        Purges { repo, slice }
    }

    /// Returns who has purged the content of an entry. Content that is here counts as not purged: other
    /// files need all of it.
    pub fn of(&self, entry: &TreeEntry) -> Result<Option<&Purge>, RepoError> {
        let is_absent = entry.kind.is_blob()
            && entry.size > 0
            && self.repo.is_partial()
            && !self.repo.has_root(Root::of(entry))?;
        if !is_absent {
            return Ok(None);
        }
        if self.slice.get().is_none() {
            // Nobody else fills it: the cell is not shared between threads.
            let _ = self.slice.set(self.repo.slice()?);
        }
        Ok(self.slice.get().and_then(|slice| slice.purge_of(&entry.id)))
    }

    /// Returns which of two sides are purged, if one is.
    pub fn among(&self, old: &Side<'_>, new: &Side<'_>) -> Result<Option<PurgedSides>, Failure> {
        let of = |side: &Side<'_>| match side {
            Side::Entry(entry) => self.of(entry),
            Side::Nothing | Side::Disk(_) => Ok(None),
        };
        let (old, new) = (of(old)?, of(new)?);
        if old.is_none() && new.is_none() {
            return Ok(None);
        }
        let lines = [("old", old), ("new", new)]
            .into_iter()
            .filter_map(|(side, purge)| Some((side, purge_words(purge?))))
            .map(|(side, words)| format!("{side} content {words}"));
        Ok(Some(PurgedSides {
            lines: lines.collect(),
            old: old.map(PurgeValue::from),
            new: new.map(PurgeValue::from),
        }))
    }
}

/// Which sides are purged, and why.
#[derive(Serialize)]
pub struct PurgedSides {
    /// For people: a line for each side.
    #[serde(skip)]
    pub lines: Vec<String>,
    old: Option<PurgeValue>,
    new: Option<PurgeValue>,
}

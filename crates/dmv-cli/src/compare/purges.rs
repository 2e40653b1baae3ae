//! Content that was purged: it has no lines to compare, and no remote is asked for it.

use dmv_core::object::root::Root;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Purge, Repo, RepoError, RepoSlice};
use std::cell::OnceCell;

/// The purges of a repository. They are read only if some content turns out to be absent.
pub struct Purges<'a> {
    /// The repository.
    pub repo: &'a Repo,
    slice: OnceCell<RepoSlice>,
}

impl<'a> Purges<'a> {
    /// The purges that a repository knows of, its own and those of its remotes.
    pub fn known_to(repo: &'a Repo) -> Purges<'a> {
        let slice = OnceCell::new();
        Purges { repo, slice }
    }

    /// Returns the purge of an entry's content. Returns `None` if the content is stored, because other files
    /// need all of it.
    pub fn of(&self, entry: &TreeEntry) -> Result<Option<&Purge>, RepoError> {
        let is_absent = entry.kind.is_blob()
            && entry.size > 0
            && self.repo.is_partial()
            && !self.repo.has_root(Root::of(entry))?;
        if !is_absent {
            return Ok(None);
        }
        if self.slice.get().is_none() {
            // The cell is not shared between threads, so it is still empty.
            let _ = self.slice.set(self.repo.slice()?);
        }
        Ok(self.slice.get().and_then(|slice| slice.purge_of(&entry.id)))
    }
}

//! Content that a switch needs: what is absent has to be fetched first, and what was purged is not
//! written.

use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::object::root::has_blob;
use crate::object::tree::TreeEntry;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::look::entries::blob_of;
use crate::repo::look::lack;
use crate::repo::look::lack::refuse;
use std::collections::BTreeSet;

/// Why a purged file is not written.
pub const WHY: &str = "its content was purged (dmv purge --status)";

/// Why a file is not written whose content may stay absent.
pub const WHY_ABSENT: &str = "its content is absent from this repository";

/// Returns the contents that were purged, here or at a remote that was asked for them. A damaged slice
/// hides them: then the switch needs their content, and says that it is absent.
pub fn purged(repo: &Repo) -> BTreeSet<ObjectId> {
    let slice = repo.slice().unwrap_or_default();
    slice
        .purged
        .into_keys()
        .chain(slice.told.into_keys())
        .collect()
}

impl Switch<'_> {
    /// Fails with a list of all needed content that is not stored.
    pub fn check_content_here(&self, force: bool) -> Result<(), RepoError> {
        let mut lacks = Vec::new();
        let is_purged = |entry: &TreeEntry| self.known.purged.contains(&entry.id);
        self.differences().each(&mut |path, _, new| {
            let new = new.filter(|new| !is_purged(new));
            if let Some(new) = new.filter(|_| !self.stays(path.as_bytes())) {
                lacks.extend(lack::lack_at(self.request.repo, path, new)?);
            }
            Ok(())
        })?;
        for path in self.known.dirty.keys().filter(|_| force) {
            if let Some(entry) = self.target_entry(path)?.filter(|entry| !is_purged(entry)) {
                lacks.extend(lack::lack_at(
                    self.request.repo,
                    &RepoPath::from_checked(path.clone()),
                    &entry,
                )?);
            }
        }
        lacks.sort_by(|a, b| a.path.cmp(&b.path));
        lacks.dedup_by(|a, b| a.path == b.path);
        refuse(lacks)
    }

    /// Returns whether the content that is absent stays absent.
    pub fn skips_absent(&self) -> bool {
        self.request
            .brings
            .is_some_and(|brings| brings.skips_absent)
    }

    /// Returns whether the content of an entry at `path` is absent, or that which tells it.
    pub fn is_absent(&self, path: &[u8], entry: &TreeEntry) -> Result<bool, RepoError> {
        if self.request.form.is_unknown(path) {
            return Ok(true);
        }
        let path = RepoPath::from_checked(path.to_vec());
        Ok(lack::lack_at(self.request.repo, &path, entry)?.is_some())
    }

    /// Returns whether the content of an entry was purged. Other files may need all of it.
    pub fn is_purged(&self, entry: &TreeEntry) -> Result<bool, RepoError> {
        let is_purged = entry.kind.is_blob() && self.known.purged.contains(&entry.id);
        Ok(is_purged && !has_blob(self.request.repo, blob_of(entry))?)
    }
}

//! Writes the stat cache after a checkout.

use crate::fsutil::Fingerprint;
use crate::hash::ObjectId;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::repo::Repo;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::checkout::written::WrittenFiles;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::worktree::base::TreeBase;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::join;
use crate::worktree::scan::BaseEntries;
use crate::worktree::statcache::Section;
use std::collections::BTreeMap;

impl Switch<'_> {
    /// Writes the stat cache for the target.
    pub fn remember(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.progress.written.sort();
        let tree = TreeBase::new(
            self.request.repo.objects(),
            Some(self.request.target),
            self.request.tree.cache.as_ref(),
            self.request.subset,
        );
        let known = CacheEntries {
            tree,
            written: &self.progress.written,
            dirty: &self.known.dirty,
        };
        let mut cache = CacheUpdate::new(
            &self.request.tree.own,
            self.request.repo.id,
            self.request.subset,
            &known,
        );
        cache.keep_all_under(Vec::new());
        cache.finish(&self.request.target, true)
    }
}

/// Writes the stat cache of a worktree for another base, whose form is the tree `base`. What the
/// cache says about entries that are equal in both bases stays valid.
pub fn remember_base(
    repo: &Repo,
    tree: &OpenWorktree,
    base: ObjectId,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (older, subset) = (tree.cache.as_ref(), &tree.subset);
    let known = TreeBase::new(repo.objects(), Some(base), older, subset);
    let mut cache = CacheUpdate::new(&tree.own, repo.id, subset, &known);
    cache.keep_all_under(Vec::new());
    cache.finish(&base, true)
}

/// The entries that the stat cache may have after a checkout.
struct CacheEntries<'a> {
    tree: TreeBase<'a>,
    written: &'a WrittenFiles,
    dirty: &'a BTreeMap<Vec<u8>, ChangeKind>,
}

impl BaseEntries for CacheEntries<'_> {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        let Some(mut section) = self.tree.section(dir)? else {
            return Ok(None);
        };
        let mut any = false;
        let entries = if self.dirty.is_empty() {
            0
        } else {
            section.len()
        };
        for index in 0..entries {
            if self.dirty.contains_key(&join(dir, section.get(index).name)) {
                section.set_fingerprint(index, Fingerprint::SUSPECT);
                any = true;
            }
        }
        any |= self.written.apply(dir, &mut section)?;
        if any {
            // This fingerprint belongs to the former state of the directory.
            section.set_dir_fingerprint(Fingerprint::SUSPECT);
        }
        Ok(Some(section))
    }

    fn close(&self) {
        self.tree.close();
    }
}

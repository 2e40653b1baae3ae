//! Stores content that only files of a lean worktree have, before a command replaces or removes them.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::root::{Root, has_blob};
use crate::object::tree::Kind;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::lean::each_unchanged;
use crate::repo::base::publish;
use crate::repo::base::repo::Repo;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::look::entries::blob_of;
use crate::store::Framer;
use crate::subset::Subset;
use crate::worktree::checkout::Plan;
use std::ops::ControlFlow;

impl Switch<'_> {
    /// Stores the committed content of the files that a plan replaces or removes, as far as no pack has it.
    ///
    /// A remote has confirmed that it keeps this content. But it may be out of reach when somebody wants the
    /// content back, and the file is the only copy here.
    pub fn keep_lean(&self, plan: &Plan<Blob>) -> Result<(), RepoError> {
        let repo = self.request.repo;
        if !repo.is_lean() {
            return Ok(());
        }
        let removed = plan.remove.iter().map(|removal| &removal.path);
        let replaced = plan.files.iter().filter(|file| file.replaces.is_some());
        let links = plan.symlinks.iter().filter(|link| link.replaces.is_some());
        let gone = removed
            .chain(replaced.map(|file| &file.path))
            .chain(links.map(|link| &link.path));
        let mut blobs = Vec::new();
        for path in gone {
            let entry = self.base_entry(path)?;
            let is_file = |kind| matches!(kind, Kind::File | Kind::Executable);
            blobs.extend(
                entry
                    .filter(|entry| is_file(entry.kind))
                    .map(|entry| blob_of(&entry)),
            );
        }
        store_lean(repo, &blobs, self.request.job).map(drop)
    }
}

/// Stores what of `blobs` only files of the worktree have. Returns the bytes that it took.
///
/// Content that is in no file any more, because the user has edited it, stays absent.
pub fn store_lean(repo: &Repo, blobs: &[Blob], job: &Job) -> Result<u64, RepoError> {
    let writer = repo.store.writer()?;
    let (mut framer, mut bytes) = (Framer::default(), Vec::new());
    let mut stored = Vec::new();
    for blob in blobs {
        let mut any = false;
        for chunk in BlobChunks::new(&repo.store, *blob) {
            job.check()?;
            let (_, id, _) = match chunk {
                Err(ObjectError::Missing { .. }) => break,
                chunk => chunk?,
            };
            if repo.store.holds(ObjectType::Chunk, &id)? {
                continue;
            }
            bytes.clear();
            if !repo.read_lean(&id, &mut bytes) {
                break;
            }
            any |= framer.add(&writer, id, ObjectType::Chunk, &bytes)?;
        }
        stored.extend(any.then_some(Root::Blob(*blob)));
    }
    if stored.is_empty() {
        return Ok(0);
    }
    framer.flush(&writer)?;
    let sealed = publish::noting_failed_sync(repo, writer.finish())?;
    let stored_bytes = sealed.stored_bytes;
    publish::keep(repo, sealed)?;
    repo.have_come(&stored)?;
    Ok(stored_bytes)
}

/// Stores what of a tree only files of the worktree have: another worktree reads it in packs. Does nothing in a
/// repository that is not lean.
pub fn store_lean_of(
    repo: &Repo,
    tree: ObjectId,
    subset: &Subset,
    job: &Job,
) -> Result<(), RepoError> {
    if !repo.is_lean() {
        return Ok(());
    }
    let mut blobs = Vec::new();
    repo.list_subset(&RepoPath::root(), tree, subset, &mut |listed| {
        if matches!(listed.entry.kind, Kind::File | Kind::Executable) {
            blobs.push(blob_of(&listed.entry));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    store_lean(repo, &blobs, job).map(drop)
}

/// The content of unchanged files of the worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeanUse {
    /// The number of files whose content is not completely in packs.
    pub lean_files: u64,
    /// Their bytes.
    pub lean_bytes: u64,
    /// The number of files whose content is in packs, too.
    pub stored_files: u64,
    /// Their bytes.
    pub stored_bytes: u64,
}

impl Repo {
    /// Returns how much content only files of the worktree have. Empty files and symlinks do not count.
    pub fn lean_use(&self) -> Result<LeanUse, RepoError> {
        let mut found = LeanUse::default();
        each_unchanged(self, &mut |_, blob| {
            let (files, bytes) = if has_blob(&self.store, blob)? {
                (&mut found.stored_files, &mut found.stored_bytes)
            } else {
                (&mut found.lean_files, &mut found.lean_bytes)
            };
            *files += 1;
            *bytes += blob.size;
            Ok(())
        })?;
        Ok(found)
    }

    /// Stores all content that only files of the worktree have. Returns the bytes that it took.
    pub fn store_lean_files(&self, job: &Job) -> Result<u64, RepoError> {
        let mut blobs = Vec::new();
        each_unchanged(self, &mut |_, blob| {
            blobs.push(blob);
            Ok(())
        })?;
        store_lean(self, &blobs, job)
    }
}

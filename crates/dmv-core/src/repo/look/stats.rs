//! Sizes: logical, unique and stored bytes.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectType;
use crate::object::list::BlobChunks;
use crate::object::tree::Kind;
use crate::path::PathError;
use crate::platform::{OwnAccess, open_own, shared_bytes};
use crate::repo::base::budget::disk_size;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::look::entries::{Selection, blob_of};
use crate::repo::look::stored::StoredLens;
use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;

/// The size of a directory or file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of the different chunks among them.
    pub unique_bytes: u64,
    /// Bytes that those of them that are stored here take in packs. Each has its part of its frame.
    pub stored_bytes: u64,
    /// The number of files.
    pub files: u64,
}

/// The size of the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Stored commits.
    pub commits: u64,
    /// Stored tree nodes.
    pub trees: u64,
    /// Stored list nodes.
    pub lists: u64,
    /// Stored chunks.
    pub chunks: u64,
    /// Pack files, including the log pack.
    pub packs: u64,
    /// Bytes in data packs.
    pub data_bytes: u64,
    /// Bytes in meta packs.
    pub meta_bytes: u64,
    /// Bytes of everything under `.dmv`.
    pub disk_bytes: u64,
    /// Files under `.dmv`.
    pub disk_files: u64,
    /// Index tables in use.
    pub tables: u64,
    /// Bytes of the head commit's tree.
    pub head_bytes: u64,
    /// Files of the head commit's tree.
    pub head_files: u64,
}

impl Repo {
    /// Adds up the sizes of `wanted`. Reads metadata only, and no content.
    ///
    /// Memory: 32 bytes for each different chunk.
    pub fn disk_use(&self, wanted: Selection<'_>, job: &Job) -> Result<DiskUse, RepoError> {
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let mut sum = DiskUse::default();
        let mut lens = StoredLens::new(self);
        let mut stored_bytes = 0;
        let mut count = |(), len: u64| stored_bytes += len;
        let mut add = |entry: &crate::object::tree::TreeEntry| -> Result<(), RepoError> {
            job.check()?;
            sum.files += u64::from(entry.kind != Kind::Directory);
            sum.bytes += entry.size;
            if !entry.kind.is_blob() && entry.kind != Kind::Symlink {
                return Ok(());
            }
            for chunk in BlobChunks::new(self.objects(), blob_of(entry)) {
                let (_, id, len) = chunk?;
                if seen.insert(id) {
                    sum.unique_bytes += len;
                    lens.ask(id, (), &mut count)?;
                }
            }
            Ok(())
        };
        self.list_wanted(wanted, &mut |listed| {
            add(&listed.entry)?;
            Ok(ControlFlow::Continue(()))
        })?;
        lens.finish(&mut count)?;
        sum.stored_bytes = stored_bytes;
        Ok(sum)
    }

    /// Returns how many bytes of packs lie in blocks that other files have, too: files of worktrees, other clones,
    /// snapshots of the file system. `None` if the file system does not tell it.
    pub fn shared_bytes(&self, job: &Job) -> Result<Option<u64>, RepoError> {
        let mut shared = 0;
        for pack in self.store.packs() {
            job.check()?;
            let path = self.store.pack_path(pack.id);
            let file = match open_own(&path, OwnAccess::Read) {
                Ok(file) => file,
                // A pack that goes meanwhile does not count.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(RepoError::Io(PathError::new("open", path, e))),
            };
            let Ok(bytes) = shared_bytes(&file) else {
                return Ok(None);
            };
            shared += bytes;
        }
        Ok(Some(shared))
    }

    /// Counts the objects and bytes of the store.
    pub fn store_stats(&self) -> Result<StoreStats, RepoError> {
        let mut out = StoreStats::default();
        self.store.for_each_object(&mut |_, ty, _| {
            *match ty {
                ObjectType::Chunk => &mut out.chunks,
                ObjectType::List => &mut out.lists,
                ObjectType::Tree => &mut out.trees,
                ObjectType::Commit => &mut out.commits,
                ObjectType::Conflict => return Ok(()),
            } += 1;
            Ok(())
        })?;
        for pack in self.store.packs() {
            match pack.kind {
                crate::store::PackKind::Data => out.data_bytes += pack.len,
                _ => out.meta_bytes += pack.len,
            }
            out.packs += 1;
        }
        out.packs += 1;
        out.tables = self.store.table_stats().0 as u64;
        (out.disk_files, out.disk_bytes) = disk_size(&self.dmv)?;
        if let Some(head) = self.head_commit()? {
            let commit = self.read_commit(&head)?;
            out.head_bytes = commit.tree_bytes;
            out.head_files = commit.tree_files;
        }
        Ok(out)
    }
}

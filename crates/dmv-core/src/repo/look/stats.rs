//! Sizes: logical, unique and stored bytes.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::BlobChunks;
use crate::object::tree::Kind;
use crate::object::{ObjectRead, ObjectType};
use crate::path::PathError;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::slice;
use crate::repo::base::worktree;
use crate::repo::look::entries;
use crate::repo::look::entries::{Selection, blob_of};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;

/// The size of a directory or file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of the different chunks among them.
    pub unique_bytes: u64,
    /// Bytes that those of them that are stored here take in packs, estimated from the compression of the whole
    /// store.
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

/// Adds up the sizes of `wanted`. Reads metadata only, and no content.
pub(in crate::repo) fn disk_use(
    repo: &Handle,
    wanted: Selection<'_>,
    job: &Job,
) -> Result<DiskUse, RepoError> {
    let mut seen: HashSet<ObjectId> = HashSet::new();
    let mut sum = DiskUse::default();
    let is_partial = slice::is_partial(repo);
    let mut here = 0;
    let mut add = |entry: &crate::object::tree::TreeEntry| -> Result<(), RepoError> {
        if job.is_cancelled() {
            return Err(RepoError::Cancelled);
        }
        sum.files += u64::from(entry.kind != Kind::Directory);
        sum.bytes += entry.size;
        if !entry.kind.is_blob() && entry.kind != Kind::Symlink {
            return Ok(());
        }
        for chunk in BlobChunks::new(repo.objects(), blob_of(entry)) {
            let (_, id, len) = chunk?;
            if seen.insert(id) {
                sum.unique_bytes += len;
                let is_here = !is_partial || repo.holds(ObjectType::Chunk, &id)?;
                here += if is_here { len } else { 0 };
            }
        }
        Ok(())
    };
    entries::list_wanted(repo, wanted, &mut |listed| {
        add(&listed.entry)?;
        Ok(ControlFlow::Continue(()))
    })?;
    sum.stored_bytes = in_packs(here, compression(repo)?);
    Ok(sum)
}

/// Returns what `bytes` of content take in packs if they are compressed as well as everything else.
pub(in crate::repo) fn in_packs(bytes: u64, (raw, stored): (u64, u64)) -> u64 {
    match raw {
        0 => bytes,
        raw => (u128::from(bytes) * u128::from(stored) / u128::from(raw)) as u64,
    }
}

/// Returns the raw and the stored bytes of the frames in data packs.
pub(in crate::repo) fn compression(repo: &Handle) -> Result<(u64, u64), RepoError> {
    let (mut raw, mut stored) = (0, 0);
    repo.store.for_each_frame(&mut |r, s| {
        raw += r;
        stored += s;
    })?;
    Ok((raw, stored))
}

/// Counts the objects and bytes of the store.
pub(in crate::repo) fn store_stats(repo: &Handle) -> Result<StoreStats, RepoError> {
    let mut out = StoreStats::default();
    repo.store.for_each_object(&mut |_, ty, _| {
        *match ty {
            ObjectType::Chunk => &mut out.chunks,
            ObjectType::List => &mut out.lists,
            ObjectType::Tree => &mut out.trees,
            ObjectType::Commit => &mut out.commits,
            ObjectType::Conflict => return Ok(()),
        } += 1;
        Ok(())
    })?;
    for pack in repo.store.packs() {
        match pack.kind {
            crate::store::PackKind::Data => out.data_bytes += pack.len,
            _ => out.meta_bytes += pack.len,
        }
        out.packs += 1;
    }
    out.packs += 1;
    out.tables = repo.store.table_stats().0 as u64;
    (out.disk_files, out.disk_bytes) = disk_size(&repo.dmv)?;
    if let Some(head) = worktree::head_commit(repo)? {
        let commit = entries::read_commit(repo, &head)?;
        out.head_bytes = commit.tree_bytes;
        out.head_files = commit.tree_files;
    }
    Ok(out)
}

/// Returns the number of a repository's own files and their bytes, below the directory `.dmv` that has
/// them. Files that go meanwhile do not count.
pub fn disk_size(dmv: &Path) -> Result<(u64, u64), RepoError> {
    let (mut files, mut bytes) = (0, 0);
    let mut dirs = vec![dmv.to_owned()];
    while let Some(dir) = dirs.pop() {
        let io = |source| RepoError::Io(PathError::new("list", &dir, source));
        for entry in std::fs::read_dir(&dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let meta = match entry.metadata() {
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                meta => meta.map_err(io)?,
            };
            if meta.is_dir() {
                dirs.push(entry.path())
            } else {
                files += 1;
                bytes += meta.len();
            }
        }
    }
    Ok((files, bytes))
}

//! Compares a file of the worktree with a tree entry, byte for byte, and what else commits keep of it.

use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::fsutil::{FileKind, FileStat, SafeDir, notice_mapped_writes};
use crate::job::Job;
use crate::object::ObjectType;
use crate::object::list::BlobChunks;
use crate::object::tree::{Kind, TreeEntry, Xattrs};
use crate::path::PathError;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::look::entries::blob_of;
use crate::worktree::snapshot::entry_kind;
use crate::worktree::split_path;
use std::io::Read;

/// Why a comparison failed.
pub enum SameError {
    /// The file could not be read.
    Path(PathError),
    /// The repository could not be read.
    Repo(RepoError),
}

impl<E: Into<RepoError>> From<E> for SameError {
    fn from(e: E) -> SameError {
        SameError::Repo(e.into())
    }
}

impl SameError {
    /// Returns the error for callers to whom both kinds mean the same.
    pub fn any(self) -> RepoError {
        match self {
            SameError::Path(e) => e.into(),
            SameError::Repo(e) => e,
        }
    }
}

/// Returns whether the file at `path` has the content, kind and privacy of `entry`. Its extended attributes do not
/// count.
pub fn equals(
    repo: &Repo,
    root: &SafeDir,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
) -> Result<bool, SameError> {
    equals_in_job(repo, root, path, entry, stat, &Job::default())
}

/// Returns whether the file at `path` is as `entry` says: its content, kind and privacy, and the extended attributes
/// that commits keep of it. Stops at the first chunk that differs.
pub fn same_as(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
) -> Result<bool, SameError> {
    same_in_job(repo, tree, path, entry, stat, &Job::default())
}

/// Like [`same_as`], and counts the bytes that it reads. It ends early if the job is cancelled.
pub fn same_in_job(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
    job: &Job,
) -> Result<bool, SameError> {
    let is_file = stat.kind == FileKind::File && entry.kind.is_blob();
    // The size costs nothing; for the attributes, the file has to be opened.
    if is_file
        && (stat.size != entry.size || xattrs_at(repo, tree, path, Some(entry))? != entry.xattrs())
    {
        return Ok(false);
    }
    equals_in_job(repo, &tree.root, path, entry, stat, job)
}

/// Returns the extended attributes that a commit keeps of the file at `path`. `old` is the entry that it has there
/// so far.
pub fn xattrs_at(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &[u8],
    old: Option<&TreeEntry>,
) -> Result<Xattrs, SameError> {
    let was = old.map(TreeEntry::xattrs).unwrap_or_default();
    let names = tree.properties_of(repo, path).xattrs;
    if names.is_none() {
        return Ok(was);
    }
    let (dir, name) = split_path(path).unwrap_or((b"", path));
    let opened = tree
        .root
        .open_dir(dir)
        .and_then(|dir| dir.open_file_read(name));
    let (file, _) = opened.map_err(SameError::Path)?;
    let action = "read the extended attributes of";
    let found = names
        .read(&file)
        .map_err(|e| SameError::Path(PathError::new(action, path, e)))?;
    Ok(names.updated(&was, &found))
}

fn equals_in_job(
    repo: &Repo,
    root: &SafeDir,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
    job: &Job,
) -> Result<bool, SameError> {
    if !matches!(stat.kind, FileKind::Symlink | FileKind::File) {
        return Ok(false);
    }
    let kind = entry_kind(stat, Some(entry.kind));
    let has_other_privacy = stat.privacy().is_some_and(|is| is != entry.is_private());
    if kind != entry.kind || stat.size != entry.size || has_other_privacy {
        return Ok(false);
    }
    let (dir, name) = split_path(path).unwrap_or((b"", path));
    let dir = root.open_dir(dir).map_err(SameError::Path)?;
    if kind == Kind::Symlink {
        let target = dir.readlink(name).map_err(SameError::Path)?;
        return Ok(ObjectType::Chunk.id_of(&target) == entry.id);
    }
    let (mut file, _) = dir.open_file_read(name).map_err(SameError::Path)?;
    notice_mapped_writes(&file, stat);
    let cutter = Cutter::new();
    let mut buf = Vec::new();
    let mut at = 0;
    for chunk in BlobChunks::new(repo.objects(), blob_of(entry)) {
        let (_, id, len) = chunk?;
        // The cut may depend on the byte after the chunk, so more bytes than the longest chunk are
        // read.
        if buf.len() - at <= MAX_CUT_BYTES {
            buf.drain(..at);
            at = 0;
            let want = 4 * MAX_CUT_BYTES - buf.len();
            job.check()?;
            let read = file.by_ref().take(want as u64).read_to_end(&mut buf);
            let read = read.map_err(|e| SameError::Path(PathError::new("read", path, e)))?;
            Job::add(&job.progress.bytes, read as u64);
        }
        let cut = cutter.cut(&buf[at..]);
        if cut as u64 != len || ObjectType::Chunk.id_of(&buf[at..at + cut]) != id {
            return Ok(false);
        }
        at += cut;
    }
    Ok(at == buf.len())
}

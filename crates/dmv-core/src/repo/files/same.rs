//! Compares a file of the worktree with a tree entry, byte for byte.

use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::fsutil::{FileKind, FileStat, SafeDir, notice_mapped_writes};
use crate::job::Job;
use crate::object::ObjectType;
use crate::object::list::BlobChunks;
use crate::object::tree::{Kind, TreeEntry};
use crate::path::PathError;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::look::entries::blob_of;
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

/// Like [`same_as`], for callers to whom both kinds of errors mean the same.
pub fn equals(
    repo: &Repo,
    root: &SafeDir,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
) -> Result<bool, RepoError> {
    same_as(repo, root, path, entry, stat).map_err(|e| match e {
        SameError::Path(e) => e.into(),
        SameError::Repo(e) => e,
    })
}

/// Returns whether the file at `path` has the content, kind and privacy of `entry`. Stops at the first chunk that
/// differs.
pub fn same_as(
    repo: &Repo,
    root: &SafeDir,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
) -> Result<bool, SameError> {
    same_in_job(repo, root, path, entry, stat, &Job::default())
}

/// Like [`same_as`], and counts the bytes that it reads. It ends early if the job is cancelled.
pub fn same_in_job(
    repo: &Repo,
    root: &SafeDir,
    path: &[u8],
    entry: &TreeEntry,
    stat: &FileStat,
    job: &Job,
) -> Result<bool, SameError> {
    let kind = match (stat.kind, stat.exec) {
        (FileKind::Symlink, _) => Kind::Symlink,
        (FileKind::File, true) => Kind::Executable,
        (FileKind::File, false) => Kind::File,
        _ => return Ok(false),
    };
    let has_other_privacy = stat.privacy().is_some_and(|is| is != entry.is_private());
    if kind != entry.kind || stat.size != entry.size || has_other_privacy {
        return Ok(false);
    }
    let (dir, name) = match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b""[..], path),
    };
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
            if job.is_cancelled() {
                return Err(RepoError::Cancelled.into());
            }
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

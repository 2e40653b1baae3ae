//! Reading the content of files in commits.

use crate::hash::ObjectId;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::path::PathContext;
use crate::repo::base::error::{AbsentError, LookError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::look::entries::{Location, blob_of};
use crate::store::BytesFrom;
use std::io::Write;
use std::ops::Range;

impl Repo {
    /// Writes the bytes in `range` of the file at `path` in the commit that `revision` names.
    ///
    /// Returns the number of bytes written. Fails with
    /// [`LookError::NoSuchPath`](crate::repo::LookError::NoSuchPath) if the commit has no file there.
    pub fn read_file(
        &self,
        revision: &str,
        path: &RepoPath,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        let commit = self.read_commit(&self.resolve(revision)?)?;
        match self.locate(revision, &commit, path)? {
            Location::Entry(e) if matches!(e.kind, Kind::File | Kind::Executable) => {
                self.cat(blob_of(&e), range, out)
            }
            _ => Err(LookError::NoSuchPath {
                revision: revision.to_owned(),
                path: path.into(),
            }
            .into()),
        }
    }

    /// Writes a file's bytes in `range` to `out`. Reads only the chunks that hold them.
    ///
    /// Returns the number of bytes written. Verifies each chunk before it writes any of it.
    pub fn cat(
        &self,
        blob: Blob,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        let range = range.unwrap_or(0..blob.size);
        let end = range.end.min(blob.size);
        let mut written = 0;
        let mut bytes = Vec::new();
        if range.start >= end {
            return Ok(0);
        }
        for chunk in BlobChunks::starting_at(self.objects(), blob, range.start) {
            let (offset, id, len) = chunk?;
            if offset >= end {
                break;
            }
            bytes.clear();
            read_chunk(self, &id, len, &mut bytes)?;
            let from = range.start.saturating_sub(offset) as usize;
            let to = (end - offset).min(bytes.len() as u64) as usize;
            out.write_all(&bytes[from..to])
                .context("write to", &b"output"[..])
                .map_err(RepoError::Io)?;
            written += (to - from) as u64;
        }
        Ok(written)
    }
}

/// Appends a chunk's verified bytes to `out`. Fails unless there are exactly `len` of them, the
/// length that its list or entry names. Returns where they come from.
pub fn read_chunk(
    repo: &Repo,
    id: &ObjectId,
    len: u64,
    out: &mut Vec<u8>,
) -> Result<BytesFrom, RepoError> {
    let start = out.len();
    let ty = ObjectType::Chunk;
    let made = if repo.made.is_empty() {
        None
    } else {
        repo.made.read(ty, id)?
    };
    let from = if let Some(bytes) = made {
        out.extend_from_slice(&bytes);
        BytesFrom::Memory
    } else {
        let from = repo.store.read_from(ty, id, out)?;
        match from {
            Some(from) => from,
            None if repo.read_lean(id, out) => BytesFrom::Memory,
            None => return Err(AbsentError::Object { id: *id, ty }.into()),
        }
    };
    if (out.len() - start) as u64 == len {
        return Ok(from);
    }
    let why = format!("it has {} bytes instead of {len}", out.len() - start);
    Err(ObjectError::Damaged { id: *id, ty, why }.into())
}

impl Repo {
    /// Returns a symlink's target.
    pub fn link_target(&self, entry: &TreeEntry) -> Result<Vec<u8>, RepoError> {
        let mut out = Vec::new();
        read_chunk(self, &entry.id, entry.size, &mut out)?;
        Ok(out)
    }
}

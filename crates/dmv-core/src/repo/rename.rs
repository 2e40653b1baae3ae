//! Files that were moved, among the changes of a worktree.

use super::{ChangeKind, PathChange, Repo, RepoError};
use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectType;
use crate::object::list::BlobChunks;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::repo::look::blob_of;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};

/// A file that is gone in one place and new in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Where it was.
    pub from: Vec<u8>,
    /// Where it is.
    pub to: Vec<u8>,
}

/// What a deleted and an added file must share to be looked at closer.
type Key = (u64, ObjectId);

impl Repo {
    /// Pairs deleted with added files: those of one size whose first and last chunks are equal.
    ///
    /// What is between is not read, so that a look at a moved film costs no more than one at a
    /// moved note. It is for showing only: a commit stores what is there. Each file is in one pair
    /// at most; empty files and symlinks are in none.
    pub fn renames(&self, changes: &[PathChange], job: &Job) -> Result<Vec<Rename>, RepoError> {
        let of = |kind| changes.iter().filter(move |change| change.kind == kind);
        let any = |kind| of(kind).next().is_some();
        let (true, true, Some(base)) = (
            any(ChangeKind::Deleted),
            any(ChangeKind::Added),
            self.base_commit()?,
        ) else {
            return Ok(Vec::new());
        };
        let tree = self.read_commit(&base)?.tree;
        let mut gone: HashMap<Key, Vec<(&[u8], TreeEntry)>> = HashMap::new();
        // The last comes out of each list first.
        for change in of(ChangeKind::Deleted)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            let path = Repo::parse_path(&change.path)?;
            let entry = lookup_path(self.objects(), &tree, &path)?;
            let Some(entry) = entry.filter(|e| e.kind.is_blob() && e.size > 0) else {
                continue;
            };
            let first = BlobChunks::new(self.objects(), blob_of(&entry)).next();
            if let Some((_, id, _)) = first.transpose()? {
                let list = gone.entry((entry.size, id)).or_default();
                list.push((&change.path, entry));
            }
        }
        let sizes: HashSet<u64> = gone.keys().map(|(size, _)| *size).collect();
        let mut out = Vec::new();
        for change in of(ChangeKind::Added) {
            if job.is_cancelled() {
                return Err(RepoError::Cancelled);
            }
            // What cannot be read is just not known to have been moved.
            let Ok((file, key, kind)) = self.first_chunk(&change.path, &sizes) else {
                continue;
            };
            let Some(list) = key.and_then(|key| gone.get_mut(&key)) else {
                continue;
            };
            let mut found = None;
            for (index, (_, entry)) in list.iter().enumerate().rev() {
                if entry.kind == kind && self.ends_alike(&file, entry)? {
                    found = Some(index);
                    break;
                }
            }
            if let Some(index) = found {
                let (from, _) = list.remove(index);
                out.push(Rename {
                    from: from.to_vec(),
                    to: change.path.clone(),
                });
            }
        }
        Ok(out)
    }

    /// Opens a file and hashes its first chunk, if its size is one of `sizes`.
    fn first_chunk(
        &self,
        path: &[u8],
        sizes: &HashSet<u64>,
    ) -> Result<(File, Option<Key>, Kind), RepoError> {
        let path = RepoPath::parse(path).map_err(|e| RepoError::BadPath {
            path: path.to_vec(),
            why: e.to_string(),
        })?;
        let stat = self.stat_worktree(&path)?;
        let io = |source| {
            RepoError::Path(crate::fsutil::PathError::new(
                "read",
                path.as_bytes(),
                source,
            ))
        };
        if stat.kind != FileKind::File {
            return Err(io(io::ErrorKind::InvalidInput.into()));
        }
        let kind = match stat.exec {
            true => Kind::Executable,
            false => Kind::File,
        };
        let file = self.open_worktree_file(&path)?;
        let size = file.metadata().map_err(io)?.size();
        if !sizes.contains(&size) {
            return Ok((file, None, kind));
        }
        let mut start = Vec::new();
        let most = MAX_CUT_BYTES as u64 + 1;
        (&file).take(most).read_to_end(&mut start).map_err(io)?;
        let cut = Cutter::new().cut(&start);
        let id = ObjectType::Chunk.id_of(&start[..cut]);
        Ok((file, Some((size, id)), kind))
    }

    /// Whether the file's last chunk is that of `entry`.
    fn ends_alike(&self, file: &File, entry: &TreeEntry) -> Result<bool, RepoError> {
        let blob = blob_of(entry);
        let last = BlobChunks::starting_at(self.objects(), blob, entry.size - 1).next();
        let Some((offset, id, len)) = last.transpose()? else {
            return Ok(false);
        };
        let mut end = vec![0; len as usize];
        Ok(file.read_exact_at(&mut end, offset).is_ok() && ObjectType::Chunk.id_of(&end) == id)
    }
}

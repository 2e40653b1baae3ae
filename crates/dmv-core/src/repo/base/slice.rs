//! What a repository holds on purpose: the file `slice` (docs/format/slice.md).
//!
//! An absent object is an ordinary state of a repository. Only this module tells whether it is absent by
//! choice or was lost.

use crate::hash::{ID_BYTES, ObjectId, check, encode_hex};
use crate::limits::{MAX_SLICE_BOUNDARY, MAX_SLICE_DROPPED, MAX_SUBSET_BYTES};
use crate::object::ObjectType;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::lock::lock_file;
use crate::subset::{Extent, Subset};
use crate::vfs::{OsVfs, Vfs, read_small, write_durably};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const SLICE_FILE: &str = "slice";

const LOCK_FILE: &str = "slice.lock";

const FIRST_LINE: &[u8] = b"dmv-slice 1";

/// Bytes of a line that ends with an id, generously.
const ID_LINE_BYTES: usize = 16 + 2 * ID_BYTES;

/// Bytes of a file that is believed: a subset's patterns may each be one byte long.
const MAX_BYTES: usize =
    256 + 16 * MAX_SUBSET_BYTES + ID_LINE_BYTES * (MAX_SLICE_BOUNDARY + MAX_SLICE_DROPPED);

/// What a repository holds of the commits that it names. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepoSlice {
    /// The paths.
    pub subset: Subset,
    /// Whether chunks are not held.
    pub metadata_only: bool,
    /// Commits that are here and whose parents need not be.
    pub boundary: BTreeSet<ObjectId>,
    /// Blobs, by their root, whose bytes were given up.
    pub dropped: BTreeSet<ObjectId>,
}

/// Why bytes are no slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSlice {
    /// A version from the future.
    TooNew,
    /// Anything else, as a clause.
    Damaged(&'static str),
}

impl RepoSlice {
    /// Whether everything is held.
    pub fn is_everything(&self) -> bool {
        *self == RepoSlice::default()
    }

    /// Whether the parents of the commit `child` may be absent by choice.
    pub fn may_lack_parents(&self, child: &ObjectId) -> bool {
        self.boundary.contains(child)
    }

    /// Whether an object other than a commit may be absent by choice where it is used at `path`:
    /// the path of the file, the directory or the conflict that it belongs to, or of the conflict
    /// that has that as a side. `blob`: the root of the file's content, of a list or chunk.
    ///
    /// An object that is used at several places is lost if it is called for at any of them.
    pub fn may_lack(&self, ty: ObjectType, path: &[u8], blob: Option<&ObjectId>) -> bool {
        let has_file = || self.subset.includes(path, false);
        let has_dir = || self.subset.extent(path) != Extent::None;
        match ty {
            ObjectType::Commit => false,
            ObjectType::Tree => !has_dir(),
            ObjectType::Conflict => !has_file() && !has_dir(),
            ObjectType::Chunk if self.metadata_only => true,
            ObjectType::List | ObjectType::Chunk => {
                blob.is_some_and(|blob| self.dropped.contains(blob)) || !has_file()
            }
        }
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [FIRST_LINE, b"\n"].concat();
        if self.metadata_only {
            out.extend_from_slice(b"metadata-only\n");
        }
        for pattern in self.subset.patterns() {
            out.extend_from_slice(&[b"subset ", pattern, b"\n"].concat());
        }
        for (word, ids) in [("boundary", &self.boundary), ("dropped", &self.dropped)] {
            for id in ids {
                out.extend_from_slice(format!("{word} {id}\n").as_bytes());
            }
        }
        let check = encode_hex(&check(&[&out]));
        out.extend_from_slice(format!("check {check}\n").as_bytes());
        out
    }

    /// What the file's bytes say. Only what [`encode`](Self::encode) writes is taken.
    pub fn decode(bytes: &[u8]) -> Result<RepoSlice, BadSlice> {
        use BadSlice::{Damaged, TooNew};
        let mut lines = bytes.split(|b| *b == b'\n');
        let first = lines.next().unwrap_or_default();
        let version = first.strip_prefix(b"dmv-slice ");
        let version = version.and_then(|v| std::str::from_utf8(v).ok()?.parse::<u32>().ok());
        match version {
            Some(1) => {}
            Some(2..) => return Err(TooNew),
            _ => return Err(Damaged("it does not begin with 'dmv-slice'")),
        }
        let mut slice = RepoSlice::default();
        let mut patterns = Vec::new();
        for line in lines {
            let (word, rest) = match line.iter().position(|b| *b == b' ') {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (line, &[][..]),
            };
            let id = || {
                let hex = std::str::from_utf8(rest).ok();
                hex.and_then(ObjectId::from_hex)
                    .ok_or(Damaged("an id is invalid"))
            };
            match word {
                b"metadata-only" => slice.metadata_only = true,
                b"subset" => patterns.push(rest),
                b"boundary" => slice.boundary.extend([id()?]),
                b"dropped" => slice.dropped.extend([id()?]),
                _ => {}
            }
        }
        // One pattern per line, and each in canonical form: what this reads other than it was
        // written is found by the comparison below, as is everything that has no place here.
        slice.subset =
            Subset::parse(&patterns.join(&b'\n')).map_err(|_| Damaged("its subset is invalid"))?;
        slice.check_limits()?;
        match slice.encode() == bytes {
            true => Ok(slice),
            false => Err(Damaged("its check or its form is wrong")),
        }
    }

    fn check_limits(&self) -> Result<(), BadSlice> {
        match () {
            () if self.boundary.len() > MAX_SLICE_BOUNDARY => {
                Err(BadSlice::Damaged("its history ends in too many places"))
            }
            () if self.dropped.len() > MAX_SLICE_DROPPED => {
                Err(BadSlice::Damaged("too many files are dropped"))
            }
            () => Ok(()),
        }
    }
}

/// Whether objects may be absent by choice in the repository at `dmv`.
pub(in crate::repo) fn is_there(dmv: &Path) -> bool {
    // It is there only while it says something.
    dmv.join(SLICE_FILE).exists()
}

fn slice_file(repo: &Handle) -> PathBuf {
    repo.dmv_dir().join(SLICE_FILE)
}

/// What this repository holds on purpose.
pub(in crate::repo) fn slice(repo: &Handle) -> Result<RepoSlice, RepoError> {
    let path = slice_file(repo);
    let bytes = match read_small(&OsVfs, &path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(RepoSlice::default()),
        Err(source) => {
            let action = "read";
            return Err(RepoError::Io {
                action,
                path,
                source,
            });
        }
    };
    RepoSlice::decode(&bytes).map_err(|bad| match bad {
        BadSlice::Damaged(why) => RepoError::Damaged {
            path,
            why: why.to_owned(),
        },
        BadSlice::TooNew => {
            let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
            let found = String::from_utf8_lossy(first).into_owned();
            RepoError::TooNew { path, found }
        }
    })
}

/// Whether objects may be absent here by choice.
pub(in crate::repo) fn is_partial(repo: &Handle) -> bool {
    is_there(repo.dmv_dir())
}

/// Changes what this repository holds on purpose, durably; returns what it is then.
pub(in crate::repo) fn change_slice(
    repo: &Handle,
    change: impl FnOnce(&mut RepoSlice),
) -> Result<RepoSlice, RepoError> {
    repo.check_own()?;
    let _lock = lock_file(&repo.dmv_dir().join(LOCK_FILE))?;
    let old = slice(repo)?;
    let mut new = old.clone();
    change(&mut new);
    let path = slice_file(repo);
    if let Err(BadSlice::Damaged(why)) = new.check_limits() {
        let why = format!("the new slice cannot be stored: {why}");
        return Err(RepoError::Text(format!("{}: {why}", path.display())));
    }
    let io = |action| {
        let path = path.clone();
        move |source| RepoError::Io {
            action,
            path,
            source,
        }
    };
    if new == old {
        return Ok(new);
    }
    if new.is_everything() {
        OsVfs.remove(&path).map_err(io("remove"))?;
        OsVfs.sync_dir(repo.dmv_dir()).map_err(io("sync"))?;
        return Ok(new);
    }
    write_durably(&OsVfs, &path, &new.encode()).map_err(io("write"))?;
    Ok(new)
}

#[cfg(test)]
mod tests;

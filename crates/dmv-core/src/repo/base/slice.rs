//! The slice: what a repository stores on purpose, recorded in the file `slice`
//! (docs/format/slice.md).
//!
//! An absent object is normal in a partial repository. Only this module decides whether an object
//! is absent by choice or lost.

use crate::hash::{ID_BYTES, ObjectId, check, encode_hex};
use crate::limits::{
    MAX_KEEP_LINE_BYTES, MAX_SLICE_BOUNDARY, MAX_SLICE_DROPPED, MAX_SLICE_EXPIRIES,
    MAX_SUBSET_BYTES,
};
use crate::object::ObjectType;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::lock::lock_file;
use crate::subset::{Extent, Subset};
use crate::vfs::{OsVfs, Vfs, read_small, write_durably};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SLICE_FILE: &str = "slice";

const LOCK_FILE: &str = "slice.lock";

const FIRST_LINE: &[u8] = b"dmv-slice 1";

/// The first line of a file with expired files. Earlier versions of dmv would take them for lost.
const FIRST_LINE_EXPIRED: &[u8] = b"dmv-slice 2";

/// The greatest length of the time and the words of a line `expiry`, in bytes.
const EXPIRY_WORDS: usize = 32;

/// The greatest length of a line that ends with an id, in bytes. Real lines are shorter.
const ID_LINE_BYTES: usize = 16 + 2 * ID_BYTES;

/// The greatest accepted file size in bytes. Each pattern of a subset may be one byte long.
const MAX_BYTES: usize = 256
    + 16 * MAX_SUBSET_BYTES
    + ID_LINE_BYTES * (MAX_SLICE_BOUNDARY + 2 * MAX_SLICE_DROPPED)
    + (EXPIRY_WORDS + MAX_KEEP_LINE_BYTES) * MAX_SLICE_EXPIRIES;

/// The part of its commits that a repository stores. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepoSlice {
    /// The paths that are stored.
    pub subset: Subset,
    /// Whether chunks are left out.
    pub metadata_only: bool,
    /// Stored commits whose parents may be absent.
    pub boundary: BTreeSet<ObjectId>,
    /// Blobs whose bytes were dropped, each named by its root.
    pub dropped: BTreeSet<ObjectId>,
    /// Blobs whose bytes have expired, each named by its root, and why. None of them is in `dropped`.
    pub expired: BTreeMap<ObjectId, Arc<Expiry>>,
}

/// Why the content of files was given up by a keep rule, and when.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry {
    /// When, in seconds since 1970.
    pub at: i64,
    /// The rule, such as `last:5`.
    pub rule: String,
    /// The pattern of the rule.
    pub pattern: String,
}

impl Expiry {
    /// Returns whether a line of the file can hold it.
    pub fn is_storable(&self) -> bool {
        let is_word = !self.rule.is_empty() && !self.rule.contains([' ', '\n']);
        let is_line = !self.pattern.is_empty() && !self.pattern.contains('\n');
        is_word && is_line && self.rule.len() + self.pattern.len() < MAX_KEEP_LINE_BYTES
    }

    fn parse(line: &[u8]) -> Option<Expiry> {
        let line = std::str::from_utf8(line).ok()?;
        let (at, line) = line.split_once(' ')?;
        let (rule, pattern) = line.split_once(' ')?;
        let expiry = Expiry {
            at: at.parse().ok()?,
            rule: rule.to_owned(),
            pattern: pattern.to_owned(),
        };
        expiry.is_storable().then_some(expiry)
    }
}

/// The reason why bytes are not a valid slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSlice {
    /// A newer version of dmv wrote them.
    TooNew,
    /// Any other reason, as a clause.
    Damaged(&'static str),
}

impl RepoSlice {
    /// Returns whether everything is stored.
    pub fn is_everything(&self) -> bool {
        *self == RepoSlice::default()
    }

    /// Returns whether the bytes of a blob were dropped or have expired.
    pub fn is_given_up(&self, blob: &ObjectId) -> bool {
        self.dropped.contains(blob) || self.expired.contains_key(blob)
    }

    /// Returns the blobs whose bytes were dropped or have expired.
    pub fn given_up(&self) -> BTreeSet<ObjectId> {
        let expired = self.expired.keys().copied();
        self.dropped.iter().copied().chain(expired).collect()
    }

    /// Notes that blobs are stored again and stay: they are given up no longer.
    pub fn take_back(&mut self, blobs: &BTreeSet<ObjectId>) {
        self.dropped.retain(|id| !blobs.contains(id));
        self.expired.retain(|id, _| !blobs.contains(id));
    }

    /// Returns whether the parents of the commit `child` may be absent by choice.
    pub fn may_lack_parents(&self, child: &ObjectId) -> bool {
        self.boundary.contains(child)
    }

    /// Returns whether an object other than a commit may be absent by choice where `path` uses it.
    ///
    /// `path` is the path of the file, directory or conflict that the object belongs to. If that is
    /// a side of a conflict, `path` is the path of the conflict. For a list or chunk, `blob` is the
    /// root of the file's content.
    ///
    /// An object that several paths use is lost if it is called for at any of them.
    pub fn may_lack(&self, ty: ObjectType, path: &[u8], blob: Option<&ObjectId>) -> bool {
        let has_file = || self.subset.includes(path, false);
        let has_dir = || self.subset.extent(path) != Extent::None;
        match ty {
            ObjectType::Commit => false,
            ObjectType::Tree => !has_dir(),
            ObjectType::Conflict => !has_file() && !has_dir(),
            ObjectType::Chunk if self.metadata_only => true,
            ObjectType::List | ObjectType::Chunk => {
                blob.is_some_and(|blob| self.is_given_up(blob)) || !has_file()
            }
        }
    }

    /// Returns the file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let first = match self.expired.is_empty() {
            true => FIRST_LINE,
            false => FIRST_LINE_EXPIRED,
        };
        let mut out = [first, b"\n"].concat();
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
        for (expiry, ids) in self.by_expiry() {
            let Expiry { at, rule, pattern } = expiry;
            out.extend_from_slice(format!("expiry {at} {rule} {pattern}\n").as_bytes());
            for id in ids {
                out.extend_from_slice(format!("expired {id}\n").as_bytes());
            }
        }
        let check = encode_hex(&check(&[&out]));
        out.extend_from_slice(format!("check {check}\n").as_bytes());
        out
    }

    /// Returns the expired blobs by the reason.
    fn by_expiry(&self) -> BTreeMap<&Expiry, Vec<&ObjectId>> {
        let mut out: BTreeMap<&Expiry, Vec<&ObjectId>> = BTreeMap::new();
        for (id, expiry) in &self.expired {
            out.entry(expiry).or_default().push(id);
        }
        out
    }

    /// Parses the file's bytes. Accepts only what [`encode`](Self::encode) writes.
    pub fn decode(bytes: &[u8]) -> Result<RepoSlice, BadSlice> {
        use BadSlice::{Damaged, TooNew};
        let mut lines = bytes.split(|b| *b == b'\n');
        let first = lines.next().unwrap_or_default();
        let version = first.strip_prefix(b"dmv-slice ");
        let version = version.and_then(|v| std::str::from_utf8(v).ok()?.parse::<u32>().ok());
        match version {
            Some(1 | 2) => {}
            Some(3..) => return Err(TooNew),
            _ => return Err(Damaged("it does not begin with 'dmv-slice'")),
        }
        let mut slice = RepoSlice::default();
        let mut patterns = Vec::new();
        let mut expiry = None;
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
                b"expiry" => {
                    let parsed = Expiry::parse(rest).ok_or(Damaged("a keep rule is invalid"))?;
                    expiry = Some(Arc::new(parsed));
                }
                b"expired" => {
                    let why = expiry.clone();
                    let why = why.ok_or(Damaged("a file has expired for no reason"))?;
                    slice.expired.insert(id()?, why);
                }
                _ => {}
            }
        }
        // Each line has one pattern in canonical form. The comparison below finds lines that do not
        // read back as they were written, and lines that do not belong here.
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
            () if self.expired.len() > MAX_SLICE_DROPPED => {
                Err(BadSlice::Damaged("too many files have expired"))
            }
            () if self.by_expiry().len() > MAX_SLICE_EXPIRIES => {
                Err(BadSlice::Damaged("files have expired for too many reasons"))
            }
            () if self.expired.keys().any(|id| self.dropped.contains(id)) => {
                Err(BadSlice::Damaged("a file was dropped and has expired"))
            }
            () => Ok(()),
        }
    }
}

/// Returns whether objects may be absent by choice in the repository at `dmv`.
pub(in crate::repo) fn is_there(dmv: &Path) -> bool {
    // The file exists only while the slice is not everything.
    dmv.join(SLICE_FILE).exists()
}

fn slice_file(repo: &Handle) -> PathBuf {
    repo.dmv_dir().join(SLICE_FILE)
}

/// Returns the slice: what this repository stores on purpose.
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

/// Returns whether this repository is partial: objects may be absent by choice.
pub(in crate::repo) fn is_partial(repo: &Handle) -> bool {
    is_there(repo.dmv_dir())
}

/// Changes the slice durably and returns the new one.
pub(in crate::repo) fn change_slice(
    repo: &Handle,
    change: impl FnOnce(&mut RepoSlice),
) -> Result<RepoSlice, RepoError> {
    repo.check_own()?;
    let _lock = lock_file(&repo.dmv_dir().join(LOCK_FILE))?;
    let old = slice(repo)?;
    let mut new = old.clone();
    change(&mut new);
    // What was dropped since is dropped.
    let RepoSlice {
        dropped, expired, ..
    } = &mut new;
    expired.retain(|id, _| !dropped.contains(id));
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

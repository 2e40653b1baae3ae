//! The slice: what a repository stores on purpose, recorded in the file `slice`
//! (docs/format/slice.md).
//!
//! An absent object is normal in a partial repository. Only this module decides whether an object
//! is absent by choice or lost.

use crate::hash::{ID_BYTES, ObjectId, check, encode_hex};
use crate::limits::{
    MAX_KEEP_LINE_BYTES, MAX_PURGE_LINE_BYTES, MAX_SLICE_BOUNDARY, MAX_SLICE_DROPPED,
    MAX_SLICE_EXPIRIES, MAX_SLICE_PURGED, MAX_SLICE_TOLD, MAX_SLICE_TOLD_REASONS, MAX_SUBSET_BYTES,
    MAX_TOLD_PLACE_BYTES,
};
use crate::object::ObjectType;
use crate::path::PathError;
use crate::platform::{OwnAccess, open_own, stat_at_unfollowed};
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::lock::lock_file;
use crate::repo::base::repo::Repo;
use crate::subset::{Extent, Subset};
use crate::vfs::{OsVfs, Vfs, read_small, write_durably};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

const SLICE_FILE: &str = "slice";

const LOCK_FILE: &str = "slice.lock";

const FIRST_LINE: &[u8] = b"dmv-slice 1";

/// The first line of a file with expired files. Earlier versions of dmv would take them for lost.
const FIRST_LINE_EXPIRED: &[u8] = b"dmv-slice 2";

/// The first line of a file with files that were purged, here or at a remote.
const FIRST_LINE_PURGED: &[u8] = b"dmv-slice 3";

/// The greatest length of the time and the words of a line `expiry` or `purge`, in bytes.
const EXPIRY_WORDS: usize = 32;

/// The greatest length of a line that ends with an id, in bytes. Real lines are shorter.
const ID_LINE_BYTES: usize = 16 + 2 * ID_BYTES;

/// The greatest accepted file size in bytes. Each pattern of a subset may be one byte long.
const MAX_BYTES: usize = 256
    + 16 * MAX_SUBSET_BYTES
    + ID_LINE_BYTES * (MAX_SLICE_BOUNDARY + 2 * MAX_SLICE_DROPPED + 2 * MAX_SLICE_PURGED)
    + (EXPIRY_WORDS + MAX_KEEP_LINE_BYTES) * MAX_SLICE_EXPIRIES
    + (EXPIRY_WORDS + MAX_PURGE_LINE_BYTES) * MAX_SLICE_EXPIRIES
    + ID_LINE_BYTES * MAX_SLICE_TOLD
    + (EXPIRY_WORDS + MAX_PURGE_LINE_BYTES + MAX_TOLD_PLACE_BYTES) * MAX_SLICE_TOLD_REASONS;

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
    /// Blobs that this repository's user has purged here, each named by its root, and why. None of them
    /// is in `dropped`, `expired` or `told`.
    pub purged: BTreeMap<ObjectId, Arc<Purge>>,
    /// Chunks that only purged blobs needed: they must not be stored again.
    pub pieces: BTreeMap<ObjectId, Arc<Purge>>,
    /// Blobs that a fetch has left out because a remote has purged them, each named by its root. This
    /// only explains why they are absent. None of them is in `dropped` or `expired`.
    pub told: BTreeMap<ObjectId, Arc<PurgesElsewhere>>,
}

/// What a remote tells of content that it has purged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurgesElsewhere {
    /// Who has purged it there, when and why, as the remote says.
    pub purge: Purge,
    /// The name of the remote.
    pub place: String,
}

impl PurgesElsewhere {
    /// Returns whether a line of the file can hold it.
    pub fn is_storable(&self) -> bool {
        let is_text = !self.place.is_empty() && !self.place.contains(char::is_control);
        is_text && self.place.len() <= MAX_TOLD_PLACE_BYTES && self.purge.is_storable()
    }

    fn parse(line: &[u8]) -> Option<PurgesElsewhere> {
        let tab = line.iter().rposition(|b| *b == b'\t')?;
        let told = PurgesElsewhere {
            purge: Purge::parse(&line[..tab])?,
            place: std::str::from_utf8(&line[tab + 1..]).ok()?.to_owned(),
        };
        told.is_storable().then_some(told)
    }
}

/// Who has purged files, when and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Purge {
    /// When, in seconds since 1970.
    pub at: i64,
    /// Who.
    pub by: String,
    /// The reason that they gave.
    pub reason: String,
}

impl Purge {
    /// Returns whether a line of the file can hold it.
    pub fn is_storable(&self) -> bool {
        let is_text = |text: &str| !text.is_empty() && !text.contains(char::is_control);
        let len = self.by.len() + self.reason.len();
        is_text(&self.by) && is_text(&self.reason) && len < MAX_PURGE_LINE_BYTES
    }

    fn parse(line: &[u8]) -> Option<Purge> {
        let line = std::str::from_utf8(line).ok()?;
        let (at, line) = line.split_once(' ')?;
        let (by, reason) = line.split_once('\t')?;
        let purge = Purge {
            at: at.parse().ok()?,
            by: by.to_owned(),
            reason: reason.to_owned(),
        };
        purge.is_storable().then_some(purge)
    }
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

    /// Returns whether the bytes of a blob were dropped, have expired or were purged, here or at a remote.
    pub(crate) fn is_given_up(&self, blob: &ObjectId) -> bool {
        self.dropped.contains(blob)
            || self.expired.contains_key(blob)
            || self.told.contains_key(blob)
            || self.purged.contains_key(blob)
    }

    /// Returns whether everything is stored but purged content, which nobody is to have.
    pub fn is_complete(&self) -> bool {
        self.subset.is_everything()
            && !self.metadata_only
            && self.boundary.is_empty()
            && self.dropped.is_empty()
            && self.expired.is_empty()
    }

    /// Returns who has purged a blob, here or at a remote.
    pub fn purge_of(&self, blob: &ObjectId) -> Option<&Purge> {
        let told = self.told.get(blob).map(|told| &told.purge);
        self.purged.get(blob).map(Arc::as_ref).or(told)
    }

    /// Returns the blobs whose bytes were dropped, have expired or were purged, here or at a remote.
    pub fn given_up(&self) -> BTreeSet<ObjectId> {
        let others = self.expired.keys().chain(self.purged.keys());
        let others = others.chain(self.told.keys());
        self.dropped.iter().chain(others).copied().collect()
    }

    /// Notes that blobs are stored again and stay: they are given up no longer. What was purged stays
    /// purged.
    pub fn take_back(&mut self, blobs: &BTreeSet<ObjectId>) {
        self.dropped.retain(|id| !blobs.contains(id));
        self.expired.retain(|id, _| !blobs.contains(id));
        self.told.retain(|id, _| !blobs.contains(id));
    }

    /// Returns whether the parents of the commit `child` may be absent by choice.
    pub(crate) fn may_lack_parents(&self, child: &ObjectId) -> bool {
        self.boundary.contains(child)
    }

    /// Returns whether an object other than a commit may be absent by choice where `path` uses it.
    ///
    /// `path` is the path of the file, directory or conflict that the object belongs to. If that is
    /// a side of a conflict, `path` is the path of the conflict. For a list or chunk, `blob` is the
    /// root of the file's content.
    ///
    /// An object that several paths use is lost if it is called for at any of them.
    pub(crate) fn may_lack(&self, ty: ObjectType, path: &[u8], blob: Option<&ObjectId>) -> bool {
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
        let first = match (self.expired.is_empty(), self.is_purged()) {
            (_, true) => FIRST_LINE_PURGED,
            (false, _) => FIRST_LINE_EXPIRED,
            (true, _) => FIRST_LINE,
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
        for (expiry, ids) in by_reason(&self.expired) {
            let Expiry { at, rule, pattern } = expiry;
            out.extend_from_slice(format!("expiry {at} {rule} {pattern}\n").as_bytes());
            for id in ids {
                out.extend_from_slice(format!("expired {id}\n").as_bytes());
            }
        }
        let mut pieces = by_reason(&self.pieces);
        for (purge, ids) in by_reason(&self.purged) {
            let Purge { at, by, reason } = purge;
            out.extend_from_slice(format!("purge {at} {by}\t{reason}\n").as_bytes());
            let pieces = pieces.remove(purge).unwrap_or_default();
            for (word, ids) in [("purged", ids), ("piece", pieces)] {
                for id in ids {
                    out.extend_from_slice(format!("{word} {id}\n").as_bytes());
                }
            }
        }
        for (told, ids) in by_reason(&self.told) {
            let (Purge { at, by, reason }, place) = (&told.purge, &told.place);
            out.extend_from_slice(format!("told {at} {by}\t{reason}\t{place}\n").as_bytes());
            for id in ids {
                out.extend_from_slice(format!("absent {id}\n").as_bytes());
            }
        }
        let check = encode_hex(&check(&[&out]));
        out.extend_from_slice(format!("check {check}\n").as_bytes());
        out
    }

    fn is_purged(&self) -> bool {
        !self.purged.is_empty() || !self.pieces.is_empty() || !self.told.is_empty()
    }

    /// Parses the file's bytes. Accepts only what [`encode`](Self::encode) writes.
    pub fn decode(bytes: &[u8]) -> Result<RepoSlice, BadSlice> {
        use BadSlice::{Damaged, TooNew};
        let mut lines = bytes.split(|b| *b == b'\n');
        let first = lines.next().unwrap_or_default();
        let version = first.strip_prefix(b"dmv-slice ");
        let version = version.and_then(|v| std::str::from_utf8(v).ok()?.parse::<u32>().ok());
        match version {
            Some(1..=3) => {}
            Some(4..) => return Err(TooNew),
            _ => return Err(Damaged("it does not begin with 'dmv-slice'")),
        }
        let mut reader = SliceReader::default();
        for line in lines {
            reader.read(line)?;
        }
        let SliceReader {
            mut slice,
            patterns,
            ..
        } = reader;
        // Each line has one pattern in canonical form. The comparison below finds lines that do not
        // read back as they were written, and lines that do not belong here.
        slice.subset =
            Subset::parse(&patterns.join(&b'\n')).map_err(|_| Damaged("its subset is invalid"))?;
        slice.check_limits()?;
        if slice.encode() == bytes {
            Ok(slice)
        } else {
            Err(Damaged("its check or its form is wrong"))
        }
    }

    fn is_purged_and_given_up(&self) -> bool {
        let is_given_up = |id| self.dropped.contains(id) || self.expired.contains_key(id);
        self.purged.keys().chain(self.told.keys()).any(is_given_up)
            || self.told.keys().any(|id| self.purged.contains_key(id))
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
            () if by_reason(&self.expired).len() > MAX_SLICE_EXPIRIES => {
                Err(BadSlice::Damaged("files have expired for too many reasons"))
            }
            () if self.expired.keys().any(|id| self.dropped.contains(id)) => {
                Err(BadSlice::Damaged("a file was dropped and has expired"))
            }
            () if self.purged.len() > MAX_SLICE_PURGED => {
                Err(BadSlice::Damaged("too many files were purged"))
            }
            () if self.pieces.len() > MAX_SLICE_PURGED => {
                Err(BadSlice::Damaged("the purged files have too many chunks"))
            }
            () if by_reason(&self.purged).len() > MAX_SLICE_EXPIRIES => {
                Err(BadSlice::Damaged("files were purged for too many reasons"))
            }
            () if self.told.len() > MAX_SLICE_TOLD => {
                Err(BadSlice::Damaged("remotes have purged too many files"))
            }
            () if by_reason(&self.told).len() > MAX_SLICE_TOLD_REASONS => Err(BadSlice::Damaged(
                "remotes have purged files for too many reasons",
            )),
            () if self.is_purged_and_given_up() => {
                Err(BadSlice::Damaged("a file was purged and given up"))
            }
            () => Ok(()),
        }
    }
}

/// What the lines of a slice's file have said so far.
#[derive(Default)]
struct SliceReader<'b> {
    slice: RepoSlice,
    patterns: Vec<&'b [u8]>,
    /// The reasons that the following ids have.
    expiry: Option<Arc<Expiry>>,
    purge: Option<Arc<Purge>>,
    told: Option<Arc<PurgesElsewhere>>,
}

impl<'b> SliceReader<'b> {
    /// Reads one line. Ignores words that it does not know: decoding compares the result with the bytes.
    fn read(&mut self, line: &'b [u8]) -> Result<(), BadSlice> {
        use BadSlice::Damaged;
        let (word, rest) = match line.iter().position(|b| *b == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let id = || {
            let hex = std::str::from_utf8(rest).ok();
            hex.and_then(ObjectId::from_hex)
                .ok_or(Damaged("an id is invalid"))
        };
        let slice = &mut self.slice;
        match word {
            b"metadata-only" => slice.metadata_only = true,
            b"subset" => self.patterns.push(rest),
            b"boundary" => slice.boundary.extend([id()?]),
            b"dropped" => slice.dropped.extend([id()?]),
            b"expiry" => {
                let parsed = Expiry::parse(rest).ok_or(Damaged("a keep rule is invalid"))?;
                self.expiry = Some(Arc::new(parsed));
            }
            b"expired" => {
                let why = because(&self.expiry, "a file has expired for no reason")?;
                slice.expired.insert(id()?, why);
            }
            b"purge" => {
                let parsed = Purge::parse(rest).ok_or(Damaged("a purge is invalid"))?;
                self.purge = Some(Arc::new(parsed));
            }
            b"told" => {
                let parsed =
                    PurgesElsewhere::parse(rest).ok_or(Damaged("what a remote told is invalid"))?;
                self.told = Some(Arc::new(parsed));
            }
            b"absent" => {
                let why = because(&self.told, "a file is absent for no reason")?;
                slice.told.insert(id()?, why);
            }
            b"purged" => {
                let why = because(&self.purge, "a file was purged for no reason")?;
                slice.purged.insert(id()?, why);
            }
            b"piece" => {
                let why = because(&self.purge, "a file was purged for no reason")?;
                slice.pieces.insert(id()?, why);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the reason that a line before has given.
fn because<R>(given: &Option<Arc<R>>, why_not: &'static str) -> Result<Arc<R>, BadSlice> {
    given.clone().ok_or(BadSlice::Damaged(why_not))
}

/// Returns ids by the reason.
fn by_reason<R: Ord>(ids: &BTreeMap<ObjectId, Arc<R>>) -> BTreeMap<&R, Vec<&ObjectId>> {
    let mut out: BTreeMap<&R, Vec<&ObjectId>> = BTreeMap::new();
    for (id, why) in ids {
        out.entry(why).or_default().push(id);
    }
    out
}

/// Returns whether objects may be absent by choice in the repository at `dmv`.
pub fn is_there(dmv: &Path) -> bool {
    // The file exists only while the slice is not everything. If it cannot be examined, the command
    // fails when it reads it.
    match stat_at_unfollowed(&dmv.join(SLICE_FILE)) {
        Err(e) => e.kind() != ErrorKind::NotFound,
        Ok(_) => true,
    }
}

fn slice_file(repo: &Repo) -> PathBuf {
    repo.dmv_dir().join(SLICE_FILE)
}

impl Repo {
    /// Returns the slice: what this repository stores on purpose.
    pub fn slice(&self) -> Result<RepoSlice, RepoError> {
        let path = slice_file(self);
        let bytes = match read_small(&OsVfs, &path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(RepoSlice::default()),
            Err(e) => return Err(RepoError::Io(PathError::new("read", path, e))),
        };
        RepoSlice::decode(&bytes).map_err(|bad| match bad {
            BadSlice::Damaged(why) => RepoError::Place(PlaceError::Damaged {
                path,
                why: why.to_owned(),
            }),
            BadSlice::TooNew => {
                let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
                let found = String::from_utf8_lossy(first).into_owned();
                RepoError::Place(PlaceError::TooNew { path, found })
            }
        })
    }
}

/// Returns what tells this state of the file from others, without reading all of it; `None` if nothing
/// is purged.
pub fn stamp_if_purged(repo: &Repo) -> Option<(u64, SystemTime)> {
    let mut file = open_own(&slice_file(repo), OwnAccess::Read).ok()?;
    let mut first = [0; FIRST_LINE_PURGED.len()];
    file.read_exact(&mut first).ok()?;
    let data = file.metadata().ok()?;
    (first == *FIRST_LINE_PURGED).then_some((data.len(), data.modified().ok()?))
}

impl Repo {
    /// Returns whether this repository is partial: objects may be absent by choice.
    pub fn is_partial(&self) -> bool {
        is_there(self.dmv_dir())
    }

    /// Changes the slice durably and returns the new one.
    ///
    /// `change` receives the slice as the file has it now. Commands that change the slice at the same
    /// time wait for one another, a few seconds at most, and then fail with
    /// [`BusyError::Worktree`](crate::repo::BusyError::Worktree). The new slice must not call for
    /// objects that are absent from this repository.
    pub fn change_slice(
        &self,
        change: impl FnOnce(&mut RepoSlice),
    ) -> Result<RepoSlice, RepoError> {
        self.check_own()?;
        let _lock = lock_file(&self.dmv_dir().join(LOCK_FILE))?;
        let old = self.slice()?;
        let mut new = old.clone();
        change(&mut new);
        // What was dropped since is dropped, and what was purged is purged.
        let RepoSlice {
            dropped,
            expired,
            purged,
            pieces,
            told,
            ..
        } = &mut new;
        dropped.retain(|id| !purged.contains_key(id));
        expired.retain(|id, _| !dropped.contains(id) && !purged.contains_key(id));
        told.retain(|id, _| {
            !dropped.contains(id) && !expired.contains_key(id) && !purged.contains_key(id)
        });
        let reasons: BTreeSet<&Purge> = purged.values().map(Arc::as_ref).collect();
        pieces.retain(|_, why| reasons.contains(&**why));
        let path = slice_file(self);
        if let Err(BadSlice::Damaged(why)) = new.check_limits() {
            let why = format!("the new slice cannot be stored: {why}");
            return Err(RepoError::Text(format!("{}: {why}", path.display())));
        }
        let io = |action| {
            let path = path.clone();
            move |source: std::io::Error| RepoError::Io(PathError::new(action, path, source))
        };
        if new == old {
            return Ok(new);
        }
        if new.is_everything() {
            OsVfs.remove(&path).map_err(io("remove"))?;
            OsVfs.sync_dir(self.dmv_dir()).map_err(io("sync"))?;
            return Ok(new);
        }
        write_durably(&OsVfs, &path, &new.encode()).map_err(io("write"))?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests;

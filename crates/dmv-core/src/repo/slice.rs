//! What a repository holds on purpose: the file `slice` (docs/format/slice.md).
//!
//! That an object is absent is an ordinary state of a repository. Whether it is so by choice or was
//! lost is asked here and nowhere else.

use super::worktree::{lock_file, subset_key};
use super::{LackOf, Located, Repo, RepoError, Wanted};
use crate::hash::{ID_BYTES, ObjectId, check, encode_hex};
use crate::limits::{
    MAX_SLICE_BOUNDARY, MAX_SLICE_DROPPED, MAX_SUBSET_BYTES, MAX_UNION_BYTES, MAX_UNION_SUBSETS,
};
use crate::object::ObjectType;
use crate::object::name::RepoPath;
use crate::reach::Filter;
use crate::subset::{Extent, Subset, Union};
use crate::vfs::{OsVfs, Vfs, read_small, write_durably};
use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const SLICE_FILE: &str = "slice";
const LOCK_FILE: &str = "slice.lock";
const FIRST_LINE: &[u8] = b"dmv-slice 1";
/// Commits that are looked at to tell which part of the boundary still counts.
const MAX_WALKED: usize = 10_000;
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
pub(super) fn is_there(dmv: &Path) -> bool {
    // It is there only while it says something.
    dmv.join(SLICE_FILE).exists()
}

impl Repo {
    fn slice_file(&self) -> PathBuf {
        self.dmv_dir().join(SLICE_FILE)
    }

    /// What this repository holds on purpose.
    pub fn slice(&self) -> Result<RepoSlice, RepoError> {
        let path = self.slice_file();
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
    pub fn is_partial(&self) -> bool {
        is_there(self.dmv_dir())
    }

    /// Changes what this repository holds on purpose, durably; returns what it is then.
    ///
    /// `change` gets what the file says now; commands that change it at the same time wait for
    /// one another, a few seconds at most ([`RepoError::Busy`]). It must call for nothing that is
    /// not here.
    pub fn change_slice(
        &self,
        change: impl FnOnce(&mut RepoSlice),
    ) -> Result<RepoSlice, RepoError> {
        self.check_own()?;
        let _lock = lock_file(&self.dmv_dir().join(LOCK_FILE))?;
        let old = self.slice()?;
        let mut new = old.clone();
        change(&mut new);
        let path = self.slice_file();
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
            OsVfs.sync_dir(self.dmv_dir()).map_err(io("sync"))?;
            return Ok(new);
        }
        write_durably(&OsVfs, &path, &new.encode()).map_err(io("write"))?;
        Ok(new)
    }

    /// Whether the roots of directories are here; if not, nothing can be told of what is in them.
    pub fn holds_trees(&self, roots: impl IntoIterator<Item = Option<ObjectId>>) -> bool {
        // What cannot be looked up is read, so that the failure comes out.
        let objects = self.objects();
        let held = |id: &ObjectId| objects.holds(ObjectType::Tree, id).unwrap_or(true);
        roots.into_iter().flatten().all(|id| held(&id))
    }

    /// What a transfer into this repository has to bring: what its slice calls for, and the paths
    /// that its worktrees have. Behind a boundary, only what is not older than the boundary is.
    pub fn wanted(&self) -> Result<Filter, RepoError> {
        let slice = self.slice()?;
        let mut paths = vec![slice.subset.clone()];
        let mut bytes = slice.subset.text().len();
        for subset in self.checked_out()? {
            bytes += subset.text().len();
            // What does not fit is brought by the checkout that needs it.
            if paths.len() < MAX_UNION_SUBSETS && bytes < MAX_UNION_BYTES {
                paths.push(subset);
            }
        }
        let mut since: Option<i64> = None;
        let ends = match self.complete_commits()? {
            // What a transfer has brought before it was cut off.
            none if none.is_empty() => slice.boundary.clone(),
            tips => self.ends_of_history(&slice, tips),
        };
        for id in &ends {
            // The last commits themselves are the oldest that history goes back to.
            let behind = self.read_commit(id)?.committer.seconds.saturating_add(1);
            since = Some(since.map_or(behind, |since| since.min(behind)));
        }
        Ok(Filter {
            paths: Union::of(paths),
            metadata_only: slice.metadata_only,
            depth: 0,
            since,
            shallow: slice.boundary,
            dropped: slice.dropped,
        })
    }

    /// The subsets of the worktrees that have files.
    fn checked_out(&self) -> Result<Vec<Subset>, RepoError> {
        let mut out = Vec::new();
        for (key, _) in self.refs.with_prefix("worktree/")? {
            let name = key.strip_prefix("worktree/");
            let Some(name) = name.and_then(|rest| rest.strip_suffix("/base")) else {
                continue;
            };
            let value = self.refs.get(&subset_key(name))?;
            out.push(self.subset_value(name, value.as_deref())?);
        }
        Ok(out)
    }

    /// The subsets of the worktrees that have files of which, as far as `of` looks, everything is here
    /// in the commit with this `root`. What they have beyond the slice is held of new commits, and of
    /// old ones only if it was asked for.
    pub fn checked_out_here(&self, root: &Located, of: LackOf) -> Result<Vec<Subset>, RepoError> {
        let mut here = Vec::new();
        for subset in self.checked_out()? {
            let wanted = Wanted {
                path: &RepoPath::root(),
                located: root,
                subset: &subset,
            };
            if self.lacking(wanted, of)?.is_empty() {
                here.push(subset);
            }
        }
        Ok(here)
    }

    /// Notes where a transfer ended history, and which commits of the boundary it went beyond.
    pub fn note_boundary(
        &self,
        ends: &BTreeSet<ObjectId>,
        passed: &BTreeSet<ObjectId>,
    ) -> Result<(), RepoError> {
        if ends.is_empty() && passed.is_empty() {
            return Ok(());
        }
        let known = self.commits_within()?;
        self.change_slice(|slice| {
            slice.boundary.retain(|id| !passed.contains(id));
            // A transfer with a limit may end before what is here does.
            let ends = ends.iter().filter(|id| !known.contains(id));
            slice.boundary.extend(ends);
        })?;
        self.forget_idle_ends()
    }

    /// Takes commits off the boundary behind which nothing is lacking: their branch is gone, and
    /// what it grew from has come by another one.
    fn forget_idle_ends(&self) -> Result<(), RepoError> {
        let boundary = self.slice()?.boundary;
        if boundary.is_empty() {
            return Ok(());
        }
        let within = self.commits_within()?;
        let mut idle = Vec::new();
        for id in boundary {
            let parents = self.read_commit(&id)?.parents;
            if parents.iter().all(|parent| within.contains(parent)) {
                idle.push(id);
            }
        }
        self.change_slice(|slice| slice.boundary.retain(|id| !idle.contains(id)))?;
        Ok(())
    }

    /// The commits of the boundary at which the history of `tips` ends. The boundary may have others,
    /// of branches that are gone: they stay, since an undo brings a branch back and not what is behind
    /// it. Of a long history, which would have to be walked, and of one that cannot be read, the whole
    /// boundary.
    pub fn ends_of_history(&self, slice: &RepoSlice, tips: Vec<ObjectId>) -> BTreeSet<ObjectId> {
        let boundary = &slice.boundary;
        let (mut stack, mut seen, mut ends) = (tips, HashSet::new(), BTreeSet::new());
        while let Some(id) = stack.pop() {
            if ends.len() == boundary.len() {
                break;
            }
            if !seen.insert(id) {
                continue;
            }
            if boundary.contains(&id) {
                ends.insert(id);
                continue;
            }
            match self.read_commit(&id) {
                Ok(commit) if seen.len() <= MAX_WALKED => stack.extend(commit.parents),
                _ => return boundary.clone(),
            }
        }
        ends
    }

    /// The commits that are called for, but for the boundary: their parents are called for as well.
    fn commits_within(&self) -> Result<HashSet<ObjectId>, RepoError> {
        let boundary = self.slice()?.boundary;
        let mut within = HashSet::new();
        let mut stack = self.complete_commits()?;
        while let Some(id) = stack.pop() {
            if !boundary.contains(&id) && within.insert(id) {
                stack.extend(self.read_commit(&id)?.parents);
            }
        }
        Ok(within)
    }
}

#[cfg(test)]
mod tests;

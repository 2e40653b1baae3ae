//! Looking into commits: entries, listings, content.

use super::{Repo, RepoError};
use crate::diff::entries_in;
use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::commit::Commit;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, lookup_path};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::subset::{Extent, PathSet};
use crate::worktree::select::is_under;
use std::io::Write;
use std::ops::{ControlFlow, Range};

/// A place in a commit: the root, or an entry.
#[derive(Clone, Debug)]
pub enum Located {
    /// The root directory.
    Root {
        /// Its tree.
        tree: ObjectId,
        /// Bytes under it.
        bytes: u64,
        /// Files under it.
        files: u64,
    },
    /// Something below.
    Entry(TreeEntry),
}

impl Located {
    /// The tree, if this is a directory.
    pub fn tree(&self) -> Option<ObjectId> {
        match self {
            Located::Root { tree, .. } => Some(*tree),
            Located::Entry(e) => (e.kind == Kind::Directory).then_some(e.id),
        }
    }
}

/// What of a commit is wanted: a place in it, and there the paths in a subset.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The place's path from the commit's root, where the subset's patterns begin.
    pub path: &'a RepoPath,
    /// What is there.
    pub located: &'a Located,
    /// The paths.
    pub subset: &'a dyn PathSet,
}

impl Wanted<'_> {
    /// Bytes and files of it, as far as they are known without looking at each.
    pub fn totals(&self) -> (u64, u64) {
        match self.located {
            _ if !self.subset.is_everything() => (0, 0),
            Located::Root { bytes, files, .. } => (*bytes, *files),
            Located::Entry(entry) => (entry.size, entry.file_count()),
        }
    }
}

/// What there is at a path that a command on the worktree is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It is in the worktree, or its commit has it.
    Known,
    /// It is neither in the worktree nor in its commit.
    Unknown,
    /// It is outside of the worktree's subset.
    Outside {
        /// Something of that name is on disk.
        on_disk: bool,
        /// There, or below, is a conflict of the commit, and whether one is settled by a choice.
        conflict: Option<bool>,
    },
}

/// One line of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Path from the root of the commit.
    pub path: RepoPath,
    /// The entry.
    pub entry: TreeEntry,
}

impl Repo {
    /// Reads a commit.
    pub fn read_commit(&self, id: &ObjectId) -> Result<Commit, RepoError> {
        Ok(load_commit(self.objects(), id)?)
    }

    /// Parses a path as given by a user: `.` and trailing slashes mean what they look like.
    pub fn parse_path(path: &[u8]) -> Result<RepoPath, RepoError> {
        let parts = path
            .split(|b| *b == b'/')
            .filter(|part| !part.is_empty() && *part != b".");
        let joined = parts.collect::<Vec<_>>().join(&b'/');
        RepoPath::parse(&joined).map_err(|e| RepoError::BadPath {
            path: path.to_vec(),
            why: e.to_string(),
        })
    }

    /// Whether the worktree's file at `path` came from that content, and is still there.
    pub fn is_checked_out(&self, path: &RepoPath, blob: &Blob) -> bool {
        let base = self.base_commit().ok().flatten();
        let tree = base.and_then(|id| self.read_commit(&id).ok());
        let entry = tree.and_then(|commit| lookup_path(self.objects(), &commit.tree, path).ok()?);
        entry.is_some_and(|entry| blob_of(&entry) == *blob) && self.stat_worktree(path).is_ok()
    }

    /// What there is at `path`, from the worktree's root.
    pub fn path_state(&self, path: &RepoPath) -> Result<PathState, RepoError> {
        let root = SafeDir::open_root(self.worktree_root().ok_or(RepoError::NoWorktree)?)?;
        let on_disk = path.is_root() || super::settle::stat_of(&root, path.as_bytes()).is_some();
        let commit = self.base_commit()?.map(|id| self.read_commit(&id));
        let commit = commit.transpose()?;
        let subset = self.subset()?;
        let bytes = path.as_bytes();
        let is_inside = subset.includes(bytes, false) || subset.extent(bytes) != Extent::None;
        let Some(commit) = commit else {
            return Ok(match (is_inside, on_disk) {
                (false, _) => PathState::Outside {
                    on_disk,
                    conflict: None,
                },
                (true, true) => PathState::Known,
                (true, false) => PathState::Unknown,
            });
        };
        if is_inside {
            let is_known = on_disk || lookup_path(self.objects(), &commit.tree, path)?.is_some();
            return Ok(match is_known {
                true => PathState::Known,
                false => PathState::Unknown,
            });
        }
        let is_below = |at: &RepoPath| is_under(at.as_bytes(), bytes);
        let has_conflict = self.conflict_paths(&commit)?.iter().any(is_below);
        let chosen = self.chosen(self.record()?, &commit.tree)?;
        let is_settled = chosen.iter().any(|chosen| is_below(&chosen.path));
        Ok(PathState::Outside {
            on_disk,
            conflict: has_conflict.then_some(is_settled),
        })
    }

    /// What a commit has at `path`; `revision` is for the message when it has nothing.
    pub fn locate(
        &self,
        revision: &str,
        commit: &Commit,
        path: &RepoPath,
    ) -> Result<Located, RepoError> {
        if path.is_root() {
            let (tree, bytes, files) = (commit.tree, commit.tree_bytes, commit.tree_files);
            return Ok(Located::Root { tree, bytes, files });
        }
        let found = lookup_path(self.objects(), &commit.tree, path)?;
        found
            .map(Located::Entry)
            .ok_or_else(|| RepoError::NoSuchPath {
                revision: revision.to_owned(),
                path: path.as_bytes().to_vec(),
            })
    }

    /// Visits what is in the directory `tree`, whose path is `at`, in path order.
    ///
    /// `deep`: everything below, files and empty directories; else the directory's own entries.
    pub fn list(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        deep: bool,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let mut stack = vec![(at.clone(), TreeIter::new(self.objects(), tree))];
        while let Some((path, iter)) = stack.last_mut() {
            let Some(entry) = iter.next().transpose()? else {
                stack.pop();
                continue;
            };
            let path = self.path_in(path, tree, &entry)?;
            let empty = entry.id == crate::object::tree::empty_tree_id();
            if deep && entry.kind == Kind::Directory && !empty {
                stack.push((path, TreeIter::new(self.objects(), entry.id)));
            } else if visit(Listed { path, entry })?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Visits what is in the directory `tree`, whose path is `at`, and in `subset`, in path order:
    /// files and empty directories. What the subset leaves out is not read.
    pub fn list_subset(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        subset: &dyn PathSet,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let mut stack = Vec::new();
        let mut next = Some((at.clone(), tree));
        let mut flow = ControlFlow::Continue(());
        loop {
            if let Some((dir, tree)) = next.take() {
                match subset.extent(dir.as_bytes()) {
                    Extent::None => {}
                    Extent::All => self.list(&dir, tree, true, &mut |listed| {
                        flow = visit(listed)?;
                        Ok(flow)
                    })?,
                    Extent::Part => {
                        let entries = entries_in(self.objects(), &tree, subset, &dir)?;
                        stack.push((dir, entries.into_iter()));
                    }
                }
            }
            let Some((dir, entries)) = stack.last_mut().filter(|_| flow.is_continue()) else {
                return Ok(());
            };
            let Some(entry) = entries.next() else {
                stack.pop();
                continue;
            };
            let path = self.path_in(dir, tree, &entry)?;
            let is_empty = entry.id == crate::object::tree::empty_tree_id();
            if entry.kind != Kind::Directory {
                flow = visit(Listed { path, entry })?;
            } else if !is_empty {
                next = Some((path, entry.id));
            } else if subset.includes(path.as_bytes(), true) {
                flow = visit(Listed { path, entry })?;
            }
        }
    }

    /// Visits the files and empty directories of what is wanted, in path order. Paths begin at the
    /// place; that of a place that is a file is its name.
    pub fn list_wanted(
        &self,
        wanted: Wanted<'_>,
        visit: &mut dyn FnMut(Listed) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let Wanted {
            path: at,
            located,
            subset,
        } = wanted;
        if let Some(tree) = located.tree() {
            if at.is_root() {
                return self.list_subset(at, tree, subset, visit);
            }
            return self.list_subset(at, tree, subset, &mut |Listed { path, entry }| {
                let names = path.components().skip(at.depth());
                let below = names.collect::<Vec<_>>().join(&b'/');
                let path = Repo::parse_path(&below)?;
                visit(Listed { path, entry })
            });
        }
        if let Located::Entry(entry) = located
            && subset.includes(at.as_bytes(), false)
        {
            let (path, entry) = (RepoPath::from(&entry.name), entry.clone());
            // It is the only one.
            let _ = visit(Listed { path, entry })?;
        }
        Ok(())
    }

    pub(super) fn path_in(
        &self,
        dir: &RepoPath,
        tree: ObjectId,
        entry: &TreeEntry,
    ) -> Result<RepoPath, RepoError> {
        dir.join(&entry.name).map_err(|e| RepoError::Damaged {
            path: self.store().packs_dir().to_owned(),
            why: format!("directory {tree} contains an invalid path: {e}"),
        })
    }

    /// Writes the bytes in `range` of the file at `path` in the commit that `revision` names.
    ///
    /// Returns the bytes written. Fails with [`RepoError::NoSuchPath`] where the commit has no file
    /// there.
    pub fn read_file(
        &self,
        revision: &str,
        path: &RepoPath,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        let commit = self.read_commit(&self.resolve(revision)?)?;
        match self.locate(revision, &commit, path)? {
            Located::Entry(e) if matches!(e.kind, Kind::File | Kind::Executable) => {
                self.cat(blob_of(&e), range, out)
            }
            _ => Err(RepoError::NoSuchPath {
                revision: revision.to_owned(),
                path: path.as_bytes().to_vec(),
            }),
        }
    }

    /// Writes a file's bytes in `range` to `out`, reading only the chunks that hold them.
    ///
    /// Returns the bytes written. Every chunk is verified before any of it is written.
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
            self.read_chunk(&id, len, &mut bytes)?;
            let from = range.start.saturating_sub(offset) as usize;
            let to = (end - offset).min(bytes.len() as u64) as usize;
            out.write_all(&bytes[from..to])
                .map_err(|source| RepoError::Io {
                    action: "write to",
                    path: "output".into(),
                    source,
                })?;
            written += (to - from) as u64;
        }
        Ok(written)
    }

    /// Appends a chunk's verified bytes, which must be as many as whoever names it says.
    pub(super) fn read_chunk(
        &self,
        id: &ObjectId,
        len: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), RepoError> {
        let start = out.len();
        let ty = ObjectType::Chunk;
        let made = match self.made.is_empty() {
            true => None,
            false => self.made.read(ty, id)?,
        };
        if let Some(bytes) = made {
            out.extend_from_slice(&bytes);
        } else if !self.store.read_into(ty, id, out)? {
            return Err(RepoError::Absent { id: *id, ty });
        }
        if (out.len() - start) as u64 == len {
            return Ok(());
        }
        let why = format!("it has {} bytes instead of {len}", out.len() - start);
        Err(ObjectError::Damaged { id: *id, ty, why }.into())
    }

    /// A symlink's target.
    pub fn link_target(&self, entry: &TreeEntry) -> Result<Vec<u8>, RepoError> {
        let mut out = Vec::new();
        self.read_chunk(&entry.id, entry.size, &mut out)?;
        Ok(out)
    }
}

/// A file's content, as its tree entry names it.
pub fn blob_of(entry: &TreeEntry) -> Blob {
    Blob {
        id: entry.id,
        is_list: entry.is_list,
        size: entry.size,
    }
}

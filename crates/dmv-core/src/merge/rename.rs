//! Files and directories that one side moved and the other changed.
//!
//! The search covers only what one side deleted and the other changed, and looks only among what
//! the first side added. A directory is found by its id, a file as in `diff::rename`. Everything
//! else that the side deleted is paired first with its likely new place. So each of several equal
//! files goes to its own place.

mod dirs;

use super::content::blob_of;
use super::{MergeError, MovedEntry, Trees};
use crate::diff::rename::{Candidate, Contents, Side, Sketch, Sketcher, pair, sketch_of};
use crate::diff::{DiffVisitor, diff_trees};
use crate::hash::ObjectId;
use crate::limits::MAX_RENAME_PATHS;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectRead};
use dirs::{Dir, is_inside, pair_dirs};
use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

/// A path that one side deleted and the other changed.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub path: RepoPath,
    pub base: TreeEntry,
}

/// The moves of both sides, by their destination.
#[derive(Debug, Default)]
pub(super) struct Moves {
    to: BTreeMap<RepoPath, (RepoPath, usize)>,
    from: BTreeMap<RepoPath, Kind>,
}

impl Moves {
    pub fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    pub fn len(&self) -> usize {
        self.to.len()
    }

    /// Returns whether a move begins or ends below `path`.
    pub fn has_below(&self, path: &RepoPath) -> bool {
        is_any_below(&self.to, path) || is_any_below(&self.from, path)
    }

    /// Returns whether something was moved away from `path`.
    pub fn is_source(&self, path: &RepoPath) -> bool {
        self.from.contains_key(path)
    }

    /// Returns whether the entry of this kind (a directory, or a file) was moved away from `path`.
    pub fn moves_away(&self, path: &RepoPath, kind: Kind) -> bool {
        let moved = self.from.get(path);
        moved.is_some_and(|moved| (*moved == Kind::Directory) == (kind == Kind::Directory))
    }

    /// Returns the former path of the entry at `path`, and the side that moved it: 0 for ours.
    pub fn to(&self, path: &RepoPath) -> Option<(&RepoPath, usize)> {
        self.to.get(path).map(|(from, side)| (from, *side))
    }

    pub fn into_list(self) -> Vec<MovedEntry> {
        let moves = self.to.into_iter();
        moves
            .map(|(to, (from, _))| MovedEntry { from, to })
            .collect()
    }

    fn add(&mut self, from: &RepoPath, kind: Kind, to: &RepoPath, side: usize) {
        self.from.insert(from.clone(), kind);
        self.to.insert(to.clone(), (from.clone(), side));
    }
}

/// Returns whether a path in `paths` lies below `dir`.
fn is_any_below<T>(paths: &BTreeMap<RepoPath, T>, dir: &RepoPath) -> bool {
    let mut behind = paths.range((Bound::Excluded(dir), Bound::Unbounded));
    behind.next().is_some_and(|(path, _)| path.starts_with(dir))
}

/// The result of the search.
#[derive(Default)]
pub(super) struct RenameResult {
    pub moves: Moves,
    /// Whether a limit kept some files from being compared.
    pub skipped: bool,
    pub content_bytes: u64,
}

/// Looks for what `sources` became on the side that deleted them: first ours, then theirs.
pub(super) fn find(
    reader: &dyn ObjectRead,
    trees: Trees,
    sources: &[Vec<Source>; 2],
    cancel: &AtomicBool,
) -> Result<RenameResult, MergeError> {
    let mut found = RenameResult::default();
    for (side, sources) in sources.iter().enumerate() {
        if sources.is_empty() {
            continue;
        }
        let (tree, other) = match side {
            0 => (trees.ours, trees.theirs),
            _ => (trees.theirs, trees.ours),
        };
        let is_wanted = |source: &&Source| match source.base.kind {
            Kind::Directory => source.base.files > 0,
            _ => source.base.size > 0,
        };
        let wanted = sources.iter().filter(is_wanted);
        let mut search = Search {
            reader,
            base: trees.base,
            tree,
            other,
            cancel,
            wanted: wanted.map(|source| &source.path).collect(),
            gone_dirs: Vec::new(),
            new_dirs: Vec::new(),
            gone: Vec::new(),
            added: Vec::new(),
            is_limited: false,
        };
        search.walk()?;
        search.find(&mut found, side)?;
        found.skipped |= search.is_limited;
    }
    Ok(found)
}

/// A file with its path.
struct ListedFile {
    path: RepoPath,
    entry: TreeEntry,
}

struct Search<'a> {
    reader: &'a dyn ObjectRead,
    base: Option<ObjectId>,
    tree: ObjectId,
    other: ObjectId,
    cancel: &'a AtomicBool,
    /// Paths of the sources.
    wanted: HashSet<&'a RepoPath>,
    /// Directories and files that the side deleted, and those that it added.
    gone_dirs: Vec<Dir>,
    new_dirs: Vec<Dir>,
    gone: Vec<ListedFile>,
    added: Vec<ListedFile>,
    is_limited: bool,
}

impl Search<'_> {
    /// Lists what was removed and added.
    fn walk(&mut self) -> Result<(), MergeError> {
        let (base, tree) = (self.base, self.tree);
        // The result is never `Break`: paths beyond the limit are ignored.
        let _ = diff_trees(self.reader, base, Some(tree), self)?;
        Ok(())
    }

    fn find(&mut self, found: &mut RenameResult, side: usize) -> Result<(), MergeError> {
        let dirs = self.paired_dirs()?;
        let (mut left, mut taken) = (HashSet::new(), HashSet::new());
        for (from, to) in dirs {
            let (from, to) = (&self.gone_dirs[from].path, &self.new_dirs[to].path);
            left.insert(from);
            taken.insert(to);
            if self.wanted.contains(from) {
                found.moves.add(from, Kind::Directory, to, side);
            }
        }
        self.gone.retain(|file| !is_inside(&file.path, &left));
        self.added.retain(|file| !is_inside(&file.path, &taken));
        self.find_files(found, side)
    }

    fn paired_dirs(&self) -> Result<Vec<(usize, usize)>, MergeError> {
        let any = |dir: &Dir| self.wanted.contains(&dir.path);
        if !self.gone_dirs.iter().any(any) {
            return Ok(Vec::new());
        }
        pair_dirs(&self.gone_dirs, &self.new_dirs, &mut |from, to| {
            self.go_on()?;
            let (from, to) = (&self.gone_dirs[from].path, &self.new_dirs[to].path);
            let was_there = match self.base {
                Some(base) => lookup_path(self.reader, &base, to)?.is_some(),
                None => false,
            };
            Ok(!was_there && self.may_go(from, to)?)
        })
    }

    /// Pairs files of equal content, then those that share at least half of it.
    fn find_files(&self, found: &mut RenameResult, side: usize) -> Result<(), MergeError> {
        let of_gone = |file| candidate(file, !self.wanted.contains(&file.path));
        let gone: Vec<_> = self.gone.iter().map(of_gone).collect();
        let new: Vec<_> = self.added.iter().map(|f| candidate(f, false)).collect();
        let mut read = Read {
            search: self,
            read_bytes: 0,
        };
        let pairs = pair(&gone, &new, &mut read)?;
        found.content_bytes += read.read_bytes;
        found.skipped |= pairs.is_limited;
        for pair in pairs.list {
            let (from, to) = (&self.gone[pair.from], &self.added[pair.to]);
            if self.wanted.contains(&from.path) {
                found.moves.add(&from.path, from.entry.kind, &to.path, side);
            }
        }
        Ok(())
    }

    /// Returns whether the path that a move leads to is free on the other side. This matters only
    /// for moves that are to be followed.
    fn may_go(&self, from: &RepoPath, to: &RepoPath) -> Result<bool, ObjectError> {
        Ok(!self.wanted.contains(from) || lookup_path(self.reader, &self.other, to)?.is_none())
    }

    fn go_on(&self) -> Result<(), MergeError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(MergeError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Returns whether a list accepts a further path. Sources are always accepted.
    fn has_room(&mut self, len: usize, path: &RepoPath) -> bool {
        let has_room = len < MAX_RENAME_PATHS || self.wanted.contains(path);
        self.is_limited |= !has_room;
        has_room
    }
}

impl DiffVisitor for Search<'_> {
    type Error = MergeError;

    fn enter(&mut self, dir: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        let (is_gone, id) = match sides {
            [Some(old), None] => (true, old),
            [None, Some(new)] => (false, new),
            _ => return true,
        };
        let list = if is_gone {
            &self.gone_dirs
        } else {
            &self.new_dirs
        };
        if self.has_room(list.len(), dir) {
            let path = dir.clone();
            let list = if is_gone {
                &mut self.gone_dirs
            } else {
                &mut self.new_dirs
            };
            list.push(Dir { path, id });
        }
        true
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, MergeError> {
        self.go_on()?;
        let (is_gone, entry) = match (old, new) {
            (Some(old), None) => (true, old),
            (None, Some(new)) => (false, new),
            _ => return Ok(ControlFlow::Continue(())),
        };
        let is_file = !matches!(entry.kind, Kind::Directory | Kind::Conflict);
        let len = if is_gone {
            self.gone.len()
        } else {
            self.added.len()
        };
        if is_file && entry.size > 0 && self.has_room(len, path) {
            let (path, entry) = (path.clone(), entry.clone());
            let list = if is_gone {
                &mut self.gone
            } else {
                &mut self.added
            };
            list.push(ListedFile { path, entry });
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn candidate(file: &ListedFile, equal_only: bool) -> Candidate<'_> {
    Candidate {
        equal_only,
        ..Candidate::of_entry(file.path.as_bytes(), &file.entry)
    }
}

/// Reads the content to be compared.
struct Read<'a, 's> {
    search: &'a Search<'s>,
    read_bytes: u64,
}

impl Contents for Read<'_, '_> {
    type Error = MergeError;

    fn sketch(
        &mut self,
        side: Side,
        n: usize,
        sketcher: Sketcher,
    ) -> Result<Option<Sketch>, MergeError> {
        let entry = match side {
            Side::Gone => &self.search.gone[n].entry,
            Side::New => &self.search.added[n].entry,
        };
        let Some(term) = Term::of_entry(entry) else {
            return Ok(None);
        };
        let read_bytes = &mut self.read_bytes;
        Ok(sketch_of(
            self.search.reader,
            blob_of(&term),
            sketcher,
            read_bytes,
        )?)
    }

    fn reading_ranks(&mut self, side: Side, files: &[usize]) -> Result<Vec<u32>, MergeError> {
        let list = match side {
            Side::Gone => &self.search.gone,
            Side::New => &self.search.added,
        };
        let terms = files.iter().map(|n| Term::of_entry(&list[*n].entry));
        // Only files are read, and they have a term.
        let roots = terms.map(|term| term.map(|term| blob_of(&term).root()));
        match roots.collect::<Option<Vec<_>>>() {
            Some(roots) => Ok(self.search.reader.reading_ranks(&roots)?),
            None => Ok(vec![0; files.len()]),
        }
    }

    fn is_free(&mut self, gone: usize, new: usize) -> Result<bool, MergeError> {
        let (from, to) = (&self.search.gone[gone].path, &self.search.added[new].path);
        Ok(self.search.may_go(from, to)?)
    }

    fn go_on(&mut self) -> Result<(), MergeError> {
        self.search.go_on()
    }
}

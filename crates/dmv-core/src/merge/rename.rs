//! Files and directories that one side moved and the other changed.
//!
//! Only what one side deleted and the other changed is looked for, and only among what the first
//! side added. A directory is found by its id, a file as `diff::rename` does.

use super::content::blob_of;
use super::{MergeError, Moved, Trees};
use crate::diff::rename::{Candidate, Contents, Side, Sketch, Sketcher, pair, sketch_of};
use crate::diff::{DiffVisitor, diff_trees};
use crate::hash::ObjectId;
use crate::limits::MAX_RENAME_PATHS;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectRead};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// What one side deleted and the other changed.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub path: RepoPath,
    pub base: TreeEntry,
}

/// Moves of either side, by where they lead.
#[derive(Debug, Default)]
pub(super) struct Moves {
    to: BTreeMap<RepoPath, (RepoPath, usize)>,
    from: BTreeMap<RepoPath, Kind>,
    /// All paths of both.
    touched: BTreeSet<RepoPath>,
}

impl Moves {
    pub fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    pub fn len(&self) -> usize {
        self.to.len()
    }

    /// Whether a move begins or ends below `path`.
    pub fn has_below(&self, path: &RepoPath) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut behind = self.touched.range(path.clone()..);
        behind
            .find(|touched| *touched != path)
            .is_some_and(|touched| touched.starts_with(path))
    }

    /// Whether something was moved away from `path`.
    pub fn is_source(&self, path: &RepoPath) -> bool {
        self.from.contains_key(path)
    }

    /// Whether it is what has this kind: a directory, or a file.
    pub fn moves_away(&self, path: &RepoPath, kind: Kind) -> bool {
        let moved = self.from.get(path);
        moved.is_some_and(|moved| (*moved == Kind::Directory) == (kind == Kind::Directory))
    }

    /// Where what is at `path` was before, and which side (0 is ours) moved it.
    pub fn to(&self, path: &RepoPath) -> Option<(&RepoPath, usize)> {
        self.to.get(path).map(|(from, side)| (from, *side))
    }

    pub fn listed(&self) -> Vec<Moved> {
        let moved = |(to, (from, _)): (&RepoPath, &(RepoPath, usize))| Moved {
            from: from.clone(),
            to: to.clone(),
        };
        self.to.iter().map(moved).collect()
    }

    fn add(&mut self, source: &Source, to: &RepoPath, side: usize) {
        self.touched.insert(source.path.clone());
        self.touched.insert(to.clone());
        self.from.insert(source.path.clone(), source.base.kind);
        self.to.insert(to.clone(), (source.path.clone(), side));
    }
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    pub moves: Moves,
    /// There was too much to look at all of it.
    pub skipped: bool,
    pub content_bytes: u64,
}

/// Looks for what `sources` became on the side that deleted them: ours first, then theirs.
pub(super) fn find(
    reader: &dyn ObjectRead,
    trees: Trees,
    sources: &[Vec<Source>; 2],
    cancel: &AtomicBool,
) -> Result<Found, MergeError> {
    let mut found = Found::default();
    for (side, sources) in sources.iter().enumerate() {
        if sources.is_empty() {
            continue;
        }
        let (tree, other) = match side {
            0 => (trees.ours, trees.theirs),
            _ => (trees.theirs, trees.ours),
        };
        let mut search = Search {
            reader,
            base: trees.base,
            tree,
            other,
            side,
            cancel,
            wanted_dirs: HashMap::new(),
            dirs: BTreeMap::new(),
            added: Vec::new(),
            is_limited: false,
            failed: None,
        };
        search.run(sources, &mut found)?;
        found.skipped |= search.is_limited;
    }
    Ok(found)
}

struct Search<'a> {
    reader: &'a dyn ObjectRead,
    base: Option<ObjectId>,
    tree: ObjectId,
    other: ObjectId,
    side: usize,
    cancel: &'a AtomicBool,
    /// Directories looked for, by id.
    wanted_dirs: HashMap<ObjectId, usize>,
    /// Those that were found: which, and where.
    dirs: BTreeMap<usize, RepoPath>,
    /// Files that the side added.
    added: Vec<(RepoPath, TreeEntry)>,
    is_limited: bool,
    failed: Option<MergeError>,
}

impl Search<'_> {
    fn run(&mut self, sources: &[Source], found: &mut Found) -> Result<(), MergeError> {
        for (n, source) in sources.iter().enumerate() {
            if source.base.kind == Kind::Directory && source.base.files > 0 {
                self.wanted_dirs.entry(source.base.id).or_insert(n);
            }
        }
        let (base, tree) = (self.base, self.tree);
        let walked = diff_trees(self.reader, base, Some(tree), self);
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        // Never `Break`: what is too much is passed over.
        let _ = walked?;
        for (n, to) in &self.dirs {
            found.moves.add(&sources[*n], to, self.side);
        }
        let moved: HashSet<&RepoPath> = self.dirs.keys().map(|n| &sources[*n].path).collect();
        let is_inside = |path: &RepoPath| {
            let mut above = path.parent();
            while let Some(dir) = above {
                if moved.contains(&dir) {
                    return true;
                }
                above = dir.parent();
            }
            false
        };
        let open: Vec<&Source> = sources
            .iter()
            .filter(|source| source.base.kind != Kind::Directory && source.base.size > 0)
            .filter(|source| moved.is_empty() || !is_inside(&source.path))
            .collect();
        self.take_files(&open, found)
    }

    /// Pairs files of the same content, then those that share at least half of it.
    fn take_files(&mut self, open: &[&Source], found: &mut Found) -> Result<(), MergeError> {
        let gone: Vec<Candidate<'_>> = open
            .iter()
            .map(|source| Candidate::of_entry(source.path.as_bytes(), &source.base))
            .collect();
        let new: Vec<Candidate<'_>> = self
            .added
            .iter()
            .map(|(path, entry)| Candidate::of_entry(path.as_bytes(), entry))
            .collect();
        let mut read = Read {
            search: self,
            open,
            read_bytes: 0,
        };
        let pairs = pair(&gone, &new, &mut read)?;
        found.content_bytes += read.read_bytes;
        found.skipped |= pairs.is_limited;
        for pair in pairs.list {
            let to = &self.added[pair.to].0;
            found.moves.add(open[pair.from], to, self.side);
        }
        Ok(())
    }

    /// Whether nothing of the other side is where a move leads.
    fn is_free(&self, to: &RepoPath) -> Result<bool, ObjectError> {
        Ok(lookup_path(self.reader, &self.other, to)?.is_none())
    }

    /// Whether the directory at `dir` is one that is looked for, under a new name.
    fn enter_dir(&mut self, dir: &RepoPath) -> Result<bool, MergeError> {
        let here = lookup_path(self.reader, &self.tree, dir)?;
        let Some(n) = here.and_then(|here| self.wanted_dirs.get(&here.id).copied()) else {
            return Ok(true);
        };
        let was_there = match self.base {
            Some(base) => lookup_path(self.reader, &base, dir)?.is_some(),
            None => false,
        };
        if was_there || self.dirs.contains_key(&n) || !self.is_free(dir)? {
            return Ok(true);
        }
        self.dirs.insert(n, dir.clone());
        Ok(false)
    }
}

impl DiffVisitor for Search<'_> {
    type Error = MergeError;

    fn enter(&mut self, dir: &RepoPath, _: [Option<ObjectId>; 2]) -> bool {
        if self.wanted_dirs.is_empty() || self.failed.is_some() {
            return true;
        }
        self.enter_dir(dir).unwrap_or_else(|e| {
            self.failed = Some(e);
            false
        })
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, MergeError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(MergeError::Cancelled);
        }
        if let (None, Some(new)) = (old, new)
            && !matches!(new.kind, Kind::Directory | Kind::Conflict)
            && new.size > 0
        {
            if self.added.len() >= MAX_RENAME_PATHS {
                self.is_limited = true;
                return Ok(ControlFlow::Continue(()));
            }
            self.added.push((path.clone(), new.clone()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Reads what is compared.
struct Read<'a, 's> {
    search: &'a Search<'s>,
    open: &'a [&'a Source],
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
            Side::Gone => &self.open[n].base,
            Side::New => &self.search.added[n].1,
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

    fn is_free(&mut self, new: usize) -> Result<bool, MergeError> {
        Ok(self.search.is_free(&self.search.added[new].0)?)
    }

    fn go_on(&mut self) -> Result<(), MergeError> {
        match self.search.cancel.load(Ordering::Relaxed) {
            true => Err(MergeError::Cancelled),
            false => Ok(()),
        }
    }
}

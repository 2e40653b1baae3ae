//! Files and directories that one side moved and the other changed.
//!
//! Only what one side deleted and the other changed is looked for, and only among what the first
//! side added. A directory is found by its id, a file by the id of its content, then by how much
//! of its content is left: at least half of the longer of the two, as in Git.

use super::content::{blob_of, read_short};
use super::{MergeError, Moved, Trees};
use crate::diff::rename::{Pieces, pieces_of};
use crate::diff::{DiffVisitor, diff_trees};
use crate::hash::ObjectId;
use crate::limits::{MAX_MERGE_TEXT_BYTES, MAX_RENAME_BYTES, MAX_RENAME_PAIRS, MAX_RENAME_PATHS};
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectRead};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
            dirs: Vec::new(),
            added: Vec::new(),
            too_many: false,
            failed: None,
        };
        search.run(sources, &mut found)?;
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
    dirs: Vec<(usize, RepoPath)>,
    /// Files that the side added.
    added: Vec<(RepoPath, TreeEntry)>,
    too_many: bool,
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
        // It breaks off only when there is too much.
        let _ = walked?;
        if self.too_many {
            found.skipped = true;
            return Ok(());
        }
        let mut open: Vec<&Source> = Vec::new();
        let dirs = std::mem::take(&mut self.dirs);
        for (n, to) in &dirs {
            found.moves.add(&sources[*n], to, self.side);
        }
        for source in sources.iter().filter(|s| s.base.kind != Kind::Directory) {
            let inside = |(n, _): &(usize, RepoPath)| source.path.starts_with(&sources[*n].path);
            if !dirs.iter().any(inside) && source.base.size > 0 {
                open.push(source);
            }
        }
        let open = self.take_equal(open, found)?;
        self.take_similar(&open, found)
    }

    /// Whether nothing of the other side is where a move leads.
    fn is_free(&self, to: &RepoPath) -> Result<bool, ObjectError> {
        Ok(lookup_path(self.reader, &self.other, to)?.is_none())
    }

    /// Pairs files of the same content; those of the same name first. Returns the rest.
    fn take_equal<'s>(
        &mut self,
        open: Vec<&'s Source>,
        found: &mut Found,
    ) -> Result<Vec<&'s Source>, MergeError> {
        let mut by_id: HashMap<(ObjectId, bool), Vec<usize>> = HashMap::new();
        for (n, (_, entry)) in self.added.iter().enumerate() {
            let key = (entry.id, entry.kind.is_blob());
            by_id.entry(key).or_default().push(n);
        }
        let mut rest = Vec::new();
        let mut taken = BTreeSet::new();
        for source in open {
            let key = (source.base.id, source.base.kind.is_blob());
            let mut fits = Vec::new();
            for n in by_id.get(&key).into_iter().flatten().copied() {
                if !taken.contains(&n) && self.is_free(&self.added[n].0)? {
                    fits.push(n);
                }
            }
            let name = source.path.file_name();
            let same_name = fits.iter().find(|n| self.added[**n].0.file_name() == name);
            match same_name.or(fits.first()).copied() {
                Some(n) => {
                    taken.insert(n);
                    found.moves.add(source, &self.added[n].0, self.side);
                }
                None => rest.push(source),
            }
        }
        let mut n = 0;
        self.added.retain(|_| {
            n += 1;
            !taken.contains(&(n - 1))
        });
        Ok(rest)
    }

    /// Pairs files that share at least half of their content, the most alike first.
    fn take_similar(&mut self, open: &[&Source], found: &mut Found) -> Result<(), MergeError> {
        let open: Vec<&Source> = open
            .iter()
            .filter(|source| source.base.kind.is_blob())
            .copied()
            .collect();
        let is_near = |a: u64, b: u64| a.min(b) >= a.max(b).div_ceil(2);
        let mut pairs = Vec::new();
        for (s, source) in open.iter().enumerate() {
            for (n, (_, entry)) in self.added.iter().enumerate() {
                if entry.kind.is_blob() && is_near(entry.size, source.base.size) {
                    pairs.push((s, n));
                }
            }
        }
        let wanted: BTreeSet<usize> = pairs.iter().map(|(_, n)| *n).collect();
        let short = |entry: &TreeEntry| entry.size <= MAX_MERGE_TEXT_BYTES;
        let bytes: u64 = wanted
            .iter()
            .map(|n| &self.added[*n].1)
            .chain(open.iter().map(|source| &source.base))
            .filter(|entry| short(entry))
            .map(|entry| entry.size)
            .sum();
        if pairs.len() > MAX_RENAME_PAIRS || bytes > MAX_RENAME_BYTES {
            found.skipped = true;
            return Ok(());
        }
        let mut before: HashMap<usize, Option<Pieces>> = HashMap::new();
        let mut after: HashMap<usize, Option<Pieces>> = HashMap::new();
        let mut scored = Vec::new();
        for (s, n) in pairs {
            let source = &open[s].base;
            let entry = &self.added[n].1;
            if short(source) != short(entry) {
                continue;
            }
            for (map, key, entry) in [(&mut before, s, source), (&mut after, n, entry)] {
                if let std::collections::hash_map::Entry::Vacant(slot) = map.entry(key) {
                    if self.cancel.load(Ordering::Relaxed) {
                        return Err(MergeError::Cancelled);
                    }
                    slot.insert(pieces(self.reader, entry, &mut found.content_bytes)?);
                }
            }
            let (Some(a), Some(b)) = (&before[&s], &after[&n]) else {
                continue;
            };
            let (shared, longer) = (a.shared_with(b), source.size.max(entry.size));
            if shared >= longer.div_ceil(2) {
                let other_name = self.added[n].0.file_name() != open[s].path.file_name();
                let share = u128::from(shared) * 1_000_000 / u128::from(longer.max(1));
                scored.push((std::cmp::Reverse(share), other_name, s, n));
            }
        }
        scored.sort_unstable();
        let (mut used, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for (_, _, s, n) in scored {
            let to = &self.added[n].0;
            if !used.contains(&s) && !taken.contains(&n) && self.is_free(to)? {
                used.insert(s);
                taken.insert(n);
                found.moves.add(open[s], to, self.side);
            }
        }
        Ok(())
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
        if was_there || self.dirs.iter().any(|(found, _)| *found == n) || !self.is_free(dir)? {
            return Ok(true);
        }
        self.dirs.push((n, dir.clone()));
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
            self.too_many = self.added.len() >= MAX_RENAME_PATHS;
            if self.too_many {
                return Ok(ControlFlow::Break(()));
            }
            self.added.push((path.clone(), new.clone()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The pieces of a file; `None` when it is too long or not all here.
fn pieces(
    reader: &dyn ObjectRead,
    entry: &TreeEntry,
    count: &mut u64,
) -> Result<Option<Pieces>, ObjectError> {
    let Some(term) = Term::of_entry(entry) else {
        return Ok(None);
    };
    if entry.size <= MAX_MERGE_TEXT_BYTES {
        let content = read_short(reader, blob_of(&term), count)?;
        return Ok(content.map(|content| Pieces::of_content(&content)));
    }
    pieces_of(reader, blob_of(&term))
}

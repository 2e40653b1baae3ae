//! The differences between two trees.
//!
//! The walk goes through both trees in step, in path order. It skips equal ids, of directories and
//! of the nodes inside one, without reading them. So its cost depends on the difference and not on
//! the size. The module reads objects through `ObjectRead` and knows no store and no files.
//! `merge`, `worktree` and `repo` use it.

pub mod blame;
pub mod chunks;
mod histogram;
pub mod lines;
pub mod rename;
mod slice;

pub use slice::is_wanted;
pub(crate) use slice::{Slice, diff_slices, each_entry_in, entries_in};

use crate::hash::ObjectId;
use crate::limits::MAX_PATH_DEPTH;
use crate::object::name::RepoPath;
use crate::object::tree::{Cursor, Kind, Peek, TreeEntry, empty_tree_id};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Receives the differences that [`diff_trees`] finds.
///
/// A closure
/// `FnMut(&RepoPath, Option<&TreeEntry>, Option<&TreeEntry>) -> Result<ControlFlow<()>, E>` is a
/// visitor that enters every directory.
pub trait DiffVisitor {
    /// The errors of the visitor and of reading.
    type Error: From<ObjectError>;

    /// Returns whether to look for differences below `dir`. `sides` are its trees, the old one
    /// first. Nothing below it has been read yet.
    fn enter(&mut self, dir: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        let _ = (dir, sides);
        true
    }

    /// Returns whether an empty directory and something else that replace each other are one change, and not a
    /// deletion and an addition. What is shown to a user has one line for each path.
    fn joins_kinds(&self) -> bool {
        false
    }

    /// Receives one path that differs. `Break` ends the walk.
    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, Self::Error>;
}

impl<F, E> DiffVisitor for F
where
    F: FnMut(&RepoPath, Option<&TreeEntry>, Option<&TreeEntry>) -> Result<ControlFlow<()>, E>,
    E: From<ObjectError>,
{
    type Error = E;

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, E> {
        self(path, old, new)
    }
}

/// The same for a user: see [`DiffVisitor::joins_kinds`].
pub struct ForDisplay<F>(pub F);

impl<F, E> DiffVisitor for ForDisplay<F>
where
    F: FnMut(&RepoPath, Option<&TreeEntry>, Option<&TreeEntry>) -> Result<ControlFlow<()>, E>,
    E: From<ObjectError>,
{
    type Error = E;

    fn joins_kinds(&self) -> bool {
        true
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, E> {
        (self.0)(path, old, new)
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: RepoPath,
    /// The old entry.
    pub old: Option<TreeEntry>,
    /// The new entry.
    pub new: Option<TreeEntry>,
}

/// Returns all differences between two trees, as [`diff_trees`] reports them.
pub fn changes(
    reader: &dyn ObjectRead,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<Vec<Change>, ObjectError> {
    let mut all = Vec::new();
    let mut keep = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        all.push(Change {
            path: path.clone(),
            old: old.cloned(),
            new: new.cloned(),
        });
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`: `keep` accepts every change.
    let _ = diff_trees(reader, old, new, &mut keep)?;
    Ok(all)
}

/// Reports the differences between the directories `old` and `new` in path order. `None` is a
/// missing directory. Returns `Break` if the visitor ended the walk.
///
/// Two entries are equal if their kind, id, list flag and attributes are equal. It reports
///
/// - every file, symlink and conflict that was added, removed or changed;
/// - a directory that was added or removed, only if it is empty or has attributes. The entries
///   below it show any other such directory;
/// - a directory on both sides, if its attributes differ or exactly one of the two is empty.
///
/// If a directory replaced a file, or a file a directory, it reports both, each with one side
/// absent and the old one first. A visitor may want one report of both, if the directory is empty.
pub fn diff_trees<V: DiffVisitor + ?Sized>(
    reader: &dyn ObjectRead,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    visitor: &mut V,
) -> Result<ControlFlow<()>, V::Error> {
    diff_dirs(reader, &RepoPath::root(), old, new, visitor)
}

/// Like [`diff_trees`], for two directories whose path is `at`.
fn diff_dirs<V: DiffVisitor + ?Sized>(
    reader: &dyn ObjectRead,
    at: &RepoPath,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    visitor: &mut V,
) -> Result<ControlFlow<()>, V::Error> {
    let mut walk = Walk {
        reader,
        empty: empty_tree_id(),
        path: at.clone(),
        dirs: Vec::new(),
    };
    if old != new {
        walk.descend(old, new)?;
    }
    while let Some(dir) = walk.dirs.last_mut() {
        let flow = match dir.next()? {
            Some((old, new)) => walk.compare(old, new, visitor)?,
            None => {
                walk.dirs.pop();
                walk.path.pop();
                ControlFlow::Continue(())
            }
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Returns the names whose entries differ in two directories, with both entries, the old one first. At most
/// `limit`; nothing below the directories is read.
pub(crate) fn differing_names(
    reader: &dyn ObjectRead,
    old: ObjectId,
    new: ObjectId,
    limit: usize,
) -> Result<Vec<[Option<TreeEntry>; 2]>, ObjectError> {
    let mut pair = DirPair::open(reader, Some(old), Some(new))?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some((old, new)) = pair.next()?
    {
        found.push([old, new]);
    }
    Ok(found)
}

struct Walk<'r> {
    reader: &'r dyn ObjectRead,
    empty: ObjectId,
    /// The path of the topmost directory in `dirs`.
    path: RepoPath,
    dirs: Vec<DirPair<'r>>,
}

impl<'r> Walk<'r> {
    /// Reports the difference of one name, and descends if it is a directory.
    fn compare<V: DiffVisitor + ?Sized>(
        &mut self,
        old: Option<TreeEntry>,
        new: Option<TreeEntry>,
        visitor: &mut V,
    ) -> Result<ControlFlow<()>, V::Error> {
        let Some(either) = old.as_ref().or(new.as_ref()) else {
            return Ok(ControlFlow::Continue(()));
        };
        self.path.push(&either.name).map_err(|error| {
            // The entry is wrong, not the object that it names.
            let holder = self.dirs.last().and_then(|dir| match old {
                Some(_) => dir.ids.0,
                None => dir.ids.1,
            });
            damaged_tree(holder.unwrap_or(self.empty), error.why())
        })?;
        let (old, new) = (old.as_ref(), new.as_ref());
        let is_dir = |entry: &TreeEntry| entry.kind == Kind::Directory;
        for (old, new) in reports(old, new, visitor.joins_kinds(), self.empty) {
            if is_reported(old, new, self.empty) && visitor.change(&self.path, old, new)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        let content = |entry: Option<&TreeEntry>| {
            entry
                .filter(|e| is_dir(e) && e.id != self.empty)
                .map(|e| e.id)
        };
        let (old, new) = (content(old), content(new));
        if old != new && visitor.enter(&self.path, [old, new]) {
            self.descend(old, new)?;
        } else {
            self.path.pop();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Makes the directories at the current path the next ones to walk.
    fn descend(&mut self, old: Option<ObjectId>, new: Option<ObjectId>) -> Result<(), ObjectError> {
        let too_deep = self.dirs.len() >= MAX_PATH_DEPTH;
        if too_deep {
            let id = old.or(new).unwrap_or(self.empty);
            return Err(damaged_tree(id, "directories are nested too deep"));
        }
        self.dirs.push(DirPair::open(self.reader, old, new)?);
        Ok(())
    }
}

/// What one name has in both trees.
type Sides<'e> = (Option<&'e TreeEntry>, Option<&'e TreeEntry>);

/// Splits a difference into two reports if a directory and something else replace each other. An empty directory
/// `joins` what replaces it.
fn reports<'e>(
    old: Option<&'e TreeEntry>,
    new: Option<&'e TreeEntry>,
    joins: bool,
    empty: ObjectId,
) -> [Sides<'e>; 2] {
    let is_dir = |entry: &TreeEntry| entry.kind == Kind::Directory;
    match (old, new) {
        (Some(a), Some(b)) if is_dir(a) != is_dir(b) => {
            let dir = if is_dir(a) { a } else { b };
            if joins && dir.id == empty {
                [(old, new), (None, None)]
            } else {
                [(old, None), (None, new)]
            }
        }
        _ => [(old, new), (None, None)],
    }
}

/// Returns whether to report a difference itself, instead of the entries below the directory.
fn is_reported(old: Option<&TreeEntry>, new: Option<&TreeEntry>, empty: ObjectId) -> bool {
    match (old, new) {
        (None, None) => false,
        (Some(one), None) | (None, Some(one)) => {
            one.kind != Kind::Directory || one.id == empty || one.attrs.is_some()
        }
        (Some(a), Some(b)) if a.kind == Kind::Directory && b.kind == Kind::Directory => {
            a.attrs != b.attrs || (a.id == empty) != (b.id == empty)
        }
        (Some(_), Some(_)) => true,
    }
}

fn damaged_tree(id: ObjectId, why: &str) -> ObjectError {
    ObjectError::Damaged {
        id,
        ty: ObjectType::Tree,
        why: why.to_owned(),
    }
}

/// Two directories at the same path.
struct DirPair<'r> {
    /// The ids of both, the old one first, for messages.
    ids: (Option<ObjectId>, Option<ObjectId>),
    old: Cursor<'r>,
    new: Cursor<'r>,
}

type EntryPair = (Option<TreeEntry>, Option<TreeEntry>);

impl<'r> DirPair<'r> {
    fn open(
        reader: &'r dyn ObjectRead,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
    ) -> Result<DirPair<'r>, ObjectError> {
        let ids = (old, new);
        let open = |id: Option<ObjectId>| match id {
            Some(id) => Cursor::open(reader, &id),
            None => Ok(Cursor::nowhere(reader)),
        };
        let [old, new] = match ids {
            (Some(old), Some(new)) => Cursor::open_both(reader, &old, &new)?,
            _ => [open(old)?, open(new)?],
        };
        Ok(DirPair { ids, old, new })
    }

    /// Returns the next name whose entries differ; `None` at the end.
    fn next(&mut self) -> Result<Option<EntryPair>, ObjectError> {
        loop {
            let order = match (self.old.peek(), self.new.peek()) {
                (Peek::End, Peek::End) => return Ok(None),
                (Peek::Node(old_level, old), Peek::Node(new_level, new)) => {
                    let at = |level, id| NodeAt { level, id };
                    let (old, new) = (at(old_level, old.id), at(new_level, new.id));
                    self.step_into(old, new)?;
                    continue;
                }
                // This node also follows later on the other side, so it stays unread. Everything
                // that the other side has before it is on that side only.
                (Peek::Node(level, node), other) => {
                    let id = node.id;
                    let entry = matches!(other, Peek::Entry(_));
                    if !(entry && self.new.is_ahead(level, &id)) {
                        self.old.expand()?;
                        continue;
                    }
                    Ordering::Greater
                }
                (other, Peek::Node(level, node)) => {
                    let id = node.id;
                    let entry = matches!(other, Peek::Entry(_));
                    if !(entry && self.old.is_ahead(level, &id)) {
                        self.new.expand()?;
                        continue;
                    }
                    Ordering::Less
                }
                (Peek::Entry(_), Peek::End) => Ordering::Less,
                (Peek::End, Peek::Entry(_)) => Ordering::Greater,
                (Peek::Entry(old), Peek::Entry(new)) => old.name.cmp(&new.name),
            };
            match order {
                Ordering::Less => return Ok(Some((self.old.take_entry(), None))),
                Ordering::Greater => return Ok(Some((None, self.new.take_entry()))),
                Ordering::Equal => {
                    let pair = (self.old.take_entry(), self.new.take_entry());
                    match &pair {
                        (Some(old), Some(new)) if old.same_content(new) => {}
                        _ => return Ok(Some(pair)),
                    }
                }
            }
        }
    }

    /// Skips equal nodes, or reads the nodes that block the walk.
    fn step_into(&mut self, old: NodeAt, new: NodeAt) -> Result<(), ObjectError> {
        if old == new {
            self.old.skip_node();
            self.new.skip_node();
            return Ok(());
        }
        // The higher node may contain the lower one. If both are on one level, one of them may
        // follow later on the other side, so the walk keeps it.
        match old.level.cmp(&new.level) {
            Ordering::Greater => self.old.expand(),
            Ordering::Less => self.new.expand(),
            Ordering::Equal if self.old.is_ahead(new.level, &new.id) => self.old.expand(),
            Ordering::Equal if self.new.is_ahead(old.level, &old.id) => self.new.expand(),
            Ordering::Equal => Cursor::expand_both(&mut self.old, &mut self.new),
        }
    }
}

/// A node of a list of entries, and how high it stands above them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeAt {
    level: u8,
    id: ObjectId,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::mem::MemObjects;
    use crate::object::name::SafeName;
    use crate::object::tree::{TreeBuilder, TreeSummary};
    use proptest::collection::btree_map;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Outcome = Result<(), ObjectError>;

    #[derive(Clone, Debug)]
    enum Item {
        File(u8),
        Dir(Dir),
    }

    type Dir = BTreeMap<String, Item>;
    type Flat = BTreeMap<RepoPath, TreeEntry>;

    fn entry(name: &str, kind: Kind, id: ObjectId) -> TreeEntry {
        TreeEntry {
            name: SafeName::new(name.as_bytes()).expect("test names are allowed"),
            kind,
            is_list: false,
            id,
            size: 1,
            files: 0,
            attrs: None,
        }
    }

    fn file(name: &str, content: u8) -> TreeEntry {
        entry(name, Kind::File, ObjectType::Chunk.id_of(&[content]))
    }

    fn join(at: &RepoPath, name: &SafeName) -> RepoPath {
        at.join(name).expect("paths in tests are short")
    }

    /// Writes `dir`, and adds to `flat` what a diff reports: files and empty directories.
    fn build(
        mem: &MemObjects,
        at: &RepoPath,
        dir: &Dir,
        flat: &mut Flat,
    ) -> Result<TreeSummary, ObjectError> {
        let mut writer = mem;
        let mut builder = TreeBuilder::new();
        for (name, item) in dir {
            let entry = match item {
                Item::File(content) => file(name, *content),
                Item::Dir(below) => {
                    let dir = entry(name, Kind::Directory, empty_tree_id());
                    let below = build(mem, &join(at, &dir.name), below, flat)?;
                    TreeEntry {
                        id: below.id,
                        size: below.bytes,
                        files: below.files,
                        ..dir
                    }
                }
            };
            builder.push(&entry, &mut writer)?;
            if entry.kind != Kind::Directory || entry.id == empty_tree_id() {
                flat.insert(join(at, &entry.name), entry);
            }
        }
        builder.finish(&mut writer)
    }

    fn put(mem: &MemObjects, dir: &Dir) -> Result<(ObjectId, Flat), ObjectError> {
        let mut flat = Flat::new();
        let root = build(mem, &RepoPath::root(), dir, &mut flat)?;
        Ok((root.id, flat))
    }

    fn files(names: impl IntoIterator<Item = u64>) -> Dir {
        names
            .into_iter()
            .map(|n| (format!("{n:06}"), Item::File(n as u8)))
            .collect()
    }

    fn tell(change: &Change) -> String {
        let sign = match (&change.old, &change.new) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '*',
        };
        format!("{sign}{}", change.path)
    }

    fn told(old: &Dir, new: &Dir) -> Result<Vec<String>, ObjectError> {
        let mem = MemObjects::new();
        let (old, new) = (put(&mem, old)?.0, put(&mem, new)?.0);
        let changes = changes(&mem, Some(old), Some(new))?;
        Ok(changes.iter().map(tell).collect())
    }

    fn dir<const N: usize>(items: [(&str, Item); N]) -> Dir {
        items.map(|(name, item)| (name.to_owned(), item)).into()
    }

    /// Checks that the changes lead from one flat tree to the other, in order, without further
    /// changes.
    fn assert_leads(old: &Flat, new: &Flat, changes: &[Change]) {
        assert!(changes.is_sorted_by(|a, b| {
            a.path < b.path || (a.path == b.path && a.new.is_none() && b.old.is_none())
        }));
        let mut flat = old.clone();
        for Change {
            path,
            old: a,
            new: b,
        } in changes
        {
            assert_ne!(old.get(path), new.get(path), "{path:?} did not change");
            assert_ne!(a, b);
            let plain = |e: &&TreeEntry| e.kind != Kind::Directory || e.id == empty_tree_id();
            assert_eq!(a.as_ref().filter(plain), flat.get(path), "{path:?}");
            match b.as_ref().filter(plain) {
                Some(entry) => flat.insert(path.clone(), entry.clone()),
                None => flat.remove(path),
            };
        }
        assert_eq!(&flat, new);
    }

    fn arb_dir() -> impl Strategy<Value = Dir> {
        let leaf = prop_oneof![(0u8..3).prop_map(Item::File), Just(Item::Dir(Dir::new())),];
        let item = leaf.prop_recursive(4, 40, 5, |inner| {
            btree_map("[a-d]", inner, 0..5).prop_map(Item::Dir)
        });
        btree_map("[a-d]{1,2}", item, 0..12)
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_tree_to_the_other(old in arb_dir(), new in arb_dir()) {
            let mem = MemObjects::new();
            let (old, old_flat) = put(&mem, &old)?;
            let (new, new_flat) = put(&mem, &new)?;
            assert_leads(&old_flat, &new_flat, &changes(&mem, Some(old), Some(new))?);
            let none = Flat::new();
            assert_leads(&none, &new_flat, &changes(&mem, None, Some(new))?);
            assert_leads(&old_flat, &none, &changes(&mem, Some(old), None)?);
            prop_assert_eq!(changes(&mem, Some(new), Some(new))?, vec![]);
        }

        #[test]
        fn changes_of_large_directories_agree_with_the_sets(
            cuts in proptest::collection::vec((0u64..3000, 1u64..400, 0u8..3), 0..4),
        ) {
            let mem = MemObjects::new();
            let (mut old, mut new): (BTreeSet<_>, BTreeSet<_>) =
                ((0..3000).collect(), (0..3000).collect());
            for (from, len, side) in cuts {
                let keep = |n: &u64| !(from..from + len).contains(n);
                match side {
                    0 => old.retain(keep),
                    1 => new.retain(keep),
                    _ => new.extend(4000 + from..4000 + from + len),
                }
            }
            let (old, old_flat) = put(&mem, &files(old))?;
            let (new, new_flat) = put(&mem, &files(new))?;
            assert_leads(&old_flat, &new_flat, &changes(&mem, Some(old), Some(new))?);
        }
    }

    #[test]
    fn one_changed_entry_among_many_reads_one_path_on_each_side() -> Outcome {
        let mem = MemObjects::new();
        let mut all = files(0..30_000);
        let old = put(&mem, &all)?.0;
        all.insert("015000".to_owned(), Item::File(255));
        let new = put(&mem, &all)?.0;
        mem.reset_reads();
        assert_eq!(changes(&mem, Some(old), Some(new))?.len(), 1);
        assert!(mem.reads() <= 6, "{} reads", mem.reads());
        Ok(())
    }

    #[test]
    fn a_run_of_new_names_does_not_make_the_rest_be_read() -> Outcome {
        let mem = MemObjects::new();
        let old = put(&mem, &files((0..10_000).chain(20_000..30_000)))?.0;
        let new = put(&mem, &files((0..10_400).chain(20_000..30_000)))?.0;
        let both = [(old, new), (new, old)];
        for (old, new) in both {
            mem.reset_reads();
            assert_eq!(changes(&mem, Some(old), Some(new))?.len(), 400);
            // 400 names are about three nodes. The two nodes around them and the paths come in
            // addition.
            assert!(mem.reads() <= 20, "{} reads", mem.reads());
        }
        Ok(())
    }

    #[test]
    fn equal_directories_are_not_read() -> Outcome {
        let mem = MemObjects::new();
        let same = Item::Dir(files(0..100));
        let old = put(&mem, &dir([("a", same.clone()), ("b", Item::File(1))]))?.0;
        let new = put(&mem, &dir([("a", same), ("b", Item::File(2))]))?.0;
        mem.reset_reads();
        assert_eq!(changes(&mem, Some(old), Some(new))?.len(), 1);
        assert_eq!(mem.reads(), 2);
        assert_eq!(changes(&mem, Some(old), Some(old))?, vec![]);
        assert_eq!(mem.reads(), 2);
        Ok(())
    }

    #[test]
    fn a_directory_in_a_files_place_is_a_removal_and_additions() -> Outcome {
        let as_file = dir([("p", Item::File(1))]);
        let as_dir = dir([("p", Item::Dir(dir([("x", Item::File(1))])))]);
        let as_empty = dir([("p", Item::Dir(Dir::new()))]);
        assert_eq!(told(&as_file, &as_dir)?, ["-p", "+p/x"]);
        assert_eq!(told(&as_dir, &as_file)?, ["+p", "-p/x"]);
        assert_eq!(told(&as_file, &as_empty)?, ["-p", "+p"]);
        assert_eq!(told(&as_empty, &as_file)?, ["-p", "+p"]);
        assert_eq!(told(&as_dir, &as_empty)?, ["*p", "-p/x"]);
        assert_eq!(told(&as_empty, &Dir::new())?, ["-p"]);
        assert_eq!(told(&Dir::new(), &as_dir)?, ["+p/x"]);
        Ok(())
    }

    #[test]
    fn changed_attributes_of_a_directory_are_a_change_of_it() -> Outcome {
        let mem = MemObjects::new();
        let with = |attrs: Option<&[u8]>| {
            let entry = TreeEntry {
                attrs: attrs.map(Box::from),
                ..entry("d", Kind::Directory, ObjectType::Tree.id_of(b"never read"))
            };
            let mut builder = TreeBuilder::new();
            builder.push(&entry, &mut &mem)?;
            Ok::<_, ObjectError>(builder.finish(&mut &mem)?.id)
        };
        let (old, new) = (with(None)?, with(Some(&[99, 0]))?);
        let found = changes(&mem, Some(old), Some(new))?;
        assert_eq!(found.iter().map(tell).collect::<Vec<_>>(), ["*d"]);
        Ok(())
    }

    struct Pruning(Vec<String>);

    impl DiffVisitor for Pruning {
        type Error = ObjectError;

        fn enter(&mut self, dir: &RepoPath, _: [Option<ObjectId>; 2]) -> bool {
            dir.as_bytes() != b"skip"
        }

        fn change(
            &mut self,
            path: &RepoPath,
            _: Option<&TreeEntry>,
            _: Option<&TreeEntry>,
        ) -> Result<ControlFlow<()>, ObjectError> {
            self.0.push(path.to_string());
            Ok(if path.as_bytes() == b"stop" {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        }
    }

    #[test]
    fn a_visitor_prunes_directories_and_ends_the_walk() -> Outcome {
        let mem = MemObjects::new();
        let below = Item::Dir(dir([("x", Item::File(1))]));
        let tree = dir([
            ("keep", below.clone()),
            ("skip", below),
            ("stop", Item::File(1)),
            ("then", Item::File(1)),
        ]);
        let root = put(&mem, &tree)?.0;
        let mut visitor = Pruning(Vec::new());
        assert!(diff_trees(&mem, None, Some(root), &mut visitor)?.is_break());
        assert_eq!(visitor.0, ["keep/x", "stop"]);
        Ok(())
    }

    #[test]
    fn directories_nested_beyond_the_limit_are_damage() -> Outcome {
        let mem = MemObjects::new();
        let nest = |depth: usize| {
            let mut entry = file("f", 1);
            for _ in 0..depth {
                let mut builder = TreeBuilder::new();
                builder.push(&entry, &mut &mem)?;
                let dir = builder.finish(&mut &mem)?;
                entry = TreeEntry {
                    id: dir.id,
                    files: dir.files,
                    ..file("d", 1)
                };
                entry.kind = Kind::Directory;
            }
            Ok::<_, ObjectError>(entry.id)
        };
        let deepest = nest(MAX_PATH_DEPTH)?;
        assert_eq!(changes(&mem, None, Some(deepest))?.len(), 1);
        let deeper = nest(MAX_PATH_DEPTH + 1)?;
        let refused = changes(&mem, None, Some(deeper));
        assert!(matches!(refused, Err(ObjectError::Damaged { .. })));
        Ok(())
    }
}

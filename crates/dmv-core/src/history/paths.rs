//! The commits that changed some paths.
//!
//! History is simplified as Git does by default. A commit with the same paths as one of its parents
//! is skipped, and the walk follows only that parent. So it reads almost nothing of a side branch
//! that left no trace in the paths. In a tree it reads only the directories on the way to a path,
//! and of these only the ones that the child does not have.
//!
//! Nearly all the time goes into reading and checking these directories. So several threads do this
//! for a stretch of history at once, before the walk reaches it (`ahead`). Where a table tells that a
//! commit did not change the paths (`changed`), nothing is read: the parent has what the child has.

mod ahead;

use super::changed_paths::{ChangedPaths, PathHash};
use super::decode;
use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use ahead::Ahead;
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use std::sync::Arc;

/// Finds the former path, in the parent, of a path that a commit created. Arguments: the parent's
/// tree, the commit's tree, and the path.
pub type FindFormerPath<'f, E> =
    dyn FnMut(&ObjectId, &ObjectId, &RepoPath) -> Result<Option<RepoPath>, E> + 'f;

/// A commit that the walk visited.
#[derive(Debug)]
pub struct VisitedCommit {
    /// Its id.
    pub id: ObjectId,
    /// The commit.
    pub commit: Commit,
    /// Whether it changed the paths. Always true without paths.
    pub shown: bool,
    /// The parents that the walk visits because of it.
    pub followed: Vec<ObjectId>,
    /// What it has at each path. Only in a walk over the versions of a path.
    pub versions: Vec<Version>,
    /// What each of the followed parents has at the paths. Only in a walk over the versions of a
    /// path.
    pub before: Vec<Vec<Version>>,
}

/// A path in one commit.
#[derive(Clone, Debug)]
pub struct Version {
    /// The path.
    pub path: RepoPath,
    /// What the commit has there.
    pub entry: Option<TreeEntry>,
}

/// A walk from some commits to their ancestors, descendants before ancestors.
pub struct PathLog<'r> {
    reader: &'r dyn ObjectRead,
    changed: &'r ChangedPaths,
    queue: BinaryHeap<QueuedTrails>,
    seen: HashSet<ObjectId>,
    absent: BTreeSet<ObjectId>,
    ahead: Ahead,
    /// In a walk over the versions of a path: the commits that were queued, each with its path. A
    /// commit comes again if another child knows it by another path.
    queued: Option<HashSet<(ObjectId, RepoPath)>>,
}

impl<'r> PathLog<'r> {
    /// Returns a walk from `tips`, which must be stored here. Without paths every commit is shown.
    ///
    /// `changed` is what is known about commits; the table may be empty.
    pub fn new(
        reader: &'r dyn ObjectRead,
        changed: &'r ChangedPaths,
        tips: &[ObjectId],
        paths: &[RepoPath],
    ) -> Result<PathLog<'r>, ObjectError> {
        let mut log = PathLog {
            reader,
            changed,
            queue: BinaryHeap::new(),
            seen: HashSet::new(),
            absent: BTreeSet::new(),
            ahead: Ahead::default(),
            queued: None,
        };
        for id in tips {
            let ty = ObjectType::Commit;
            let missing = ObjectError::Missing { id: *id, ty };
            let (commit, _) = log.load(id, None, &[])?.ok_or(missing)?;
            let mut trails = Vec::new();
            for path in paths {
                trails.push(Trail::begin(reader, &commit.tree, path)?);
            }
            log.push(QueuedTrails {
                id: *id,
                commit,
                with: trails,
            });
        }
        Ok(log)
    }

    /// Returns a walk over the versions of one path in `tip` and its ancestors.
    ///
    /// The walk says which versions it visits ([`VisitedCommit::versions`], [`VisitedCommit::before`]). It
    /// visits a commit once for each path at which it was led there.
    pub(crate) fn of_versions(
        reader: &'r dyn ObjectRead,
        changed: &'r ChangedPaths,
        tip: &ObjectId,
        path: &RepoPath,
    ) -> Result<PathLog<'r>, ObjectError> {
        let mut log = PathLog::new(reader, changed, &[*tip], std::slice::from_ref(path))?;
        log.queued = Some(HashSet::from([(*tip, path.clone())]));
        Ok(log)
    }

    /// Skips these commits, and so the history that only they lead to.
    pub fn hide(&mut self, hidden: impl IntoIterator<Item = ObjectId>) {
        self.seen.extend(hidden);
    }

    /// Returns the absent parents met so far.
    pub fn boundary(&self) -> &BTreeSet<ObjectId> {
        &self.absent
    }

    /// Returns the next commit, even if it is not shown. With `moved`, the walk follows a path that
    /// a commit created to its former path.
    pub fn advance<E: From<ObjectError>>(
        &mut self,
        moved: Option<&mut FindFormerPath<'_, E>>,
    ) -> Result<Option<VisitedCommit>, E> {
        self.advance_where(moved, &|_, _| true)
    }

    /// Returns the next commit that `is_wanted` accepts at its path. The walk
    /// does not follow parents of the others because of them.
    pub(crate) fn advance_where<E: From<ObjectError>>(
        &mut self,
        mut moved: Option<&mut FindFormerPath<'_, E>>,
        is_wanted: &dyn Fn(&ObjectId, &RepoPath) -> bool,
    ) -> Result<Option<VisitedCommit>, E> {
        let Some(child) = self.pop_wanted(is_wanted) else {
            return Ok(None);
        };
        let (parents, is_changed) = self.parents_of(&child, &mut moved)?;
        let QueuedTrails {
            id,
            commit,
            with: trails,
        } = child;
        let shown = match &parents[..] {
            _ if !is_changed => false,
            _ if trails.is_empty() => true,
            // At the end of stored history, the state counts as if it had always been there.
            [] if !commit.parents.is_empty() => false,
            [] => trails.iter().any(Trail::is_there),
            _ => true,
        };
        let followed = parents.iter().map(|parent| parent.id).collect();
        let (versions, before) = match self.queued {
            None => Default::default(),
            Some(_) => {
                let before = parents.iter().map(|parent| versions_of(&parent.with));
                (versions_of(&trails), before.collect())
            }
        };
        for parent in parents {
            self.push(parent);
        }
        Ok(Some(VisitedCommit {
            id,
            commit,
            shown,
            followed,
            versions,
            before,
        }))
    }

    /// Takes the next commit from the queue that `is_wanted` does not reject at its path.
    fn pop_wanted(
        &mut self,
        is_wanted: &dyn Fn(&ObjectId, &RepoPath) -> bool,
    ) -> Option<QueuedTrails> {
        loop {
            let queued = self.queue.pop()?;
            let first = queued.with.first();
            if first.is_none_or(|trail| is_wanted(&queued.id, &trail.sought.path)) {
                return Some(queued);
            }
        }
    }

    /// Returns the stored parents of `child` that the walk follows, and whether the paths differ
    /// from all of them. If they are the same in one parent, the walk follows only that one.
    fn parents_of<E: From<ObjectError>>(
        &mut self,
        child: &QueuedTrails,
        moved: &mut Option<&mut FindFormerPath<'_, E>>,
    ) -> Result<(Vec<QueuedTrails>, bool), E> {
        let QueuedTrails {
            id,
            commit,
            with: trails,
        } = child;
        let mut parents = Vec::new();
        for (n, parent) in commit.parents.iter().enumerate() {
            let heir = (n == 0).then_some(id);
            let Some((read, known)) = self.load(parent, heir, trails)? else {
                continue;
            };
            if read.generation >= commit.generation {
                let (id, why) = (*id, "generation is not greater than a parent's".to_owned());
                let ty = ObjectType::Commit;
                return Err(ObjectError::Damaged { id, ty, why }.into());
            }
            let mut known = known.into_iter();
            let mut before = Vec::new();
            for trail in trails {
                let known = known.next().filter(|known| known.sought == trail.sought);
                let known = known.or_else(|| heir.and_then(|id| trail.kept_by(self.changed, id)));
                before.push(self.trail_in(commit, &read, trail, known, moved)?);
            }
            let pairs = || trails.iter().zip(&before);
            let is_same = !trails.is_empty() && pairs().all(|(a, b)| a.is_same(b));
            let parent = QueuedTrails {
                id: *parent,
                commit: read,
                with: before,
            };
            if is_same {
                return Ok((vec![parent], false));
            }
            parents.push(parent);
        }
        Ok((parents, true))
    }

    /// Returns what the parent has at the path of `trail` in its child. `known`: this is known
    /// without reading.
    fn trail_in<E: From<ObjectError>>(
        &self,
        child: &Commit,
        parent: &Commit,
        trail: &Trail,
        known: Option<Trail>,
        moved: &mut Option<&mut FindFormerPath<'_, E>>,
    ) -> Result<Trail, E> {
        let before = match known {
            Some(known) => known,
            None => Trail::walk(self.reader, &parent.tree, trail)?,
        };
        if let (true, false, Some(moved)) = (trail.is_there(), before.is_there(), moved)
            && let Some(path) = moved(&parent.tree, &child.tree, &trail.sought.path)?
        {
            return Ok(Trail::begin(self.reader, &parent.tree, &path)?);
        }
        Ok(before)
    }

    /// Returns a commit, and its trails (like those of its child) if they were read ahead. `heir`:
    /// the child, if this is its first parent.
    fn load(
        &mut self,
        id: &ObjectId,
        heir: Option<&ObjectId>,
        trails: &[Trail],
    ) -> Result<Option<(Commit, Vec<Trail>)>, ObjectError> {
        if !trails.is_empty() && !self.seen.contains(id) {
            let source = Source {
                reader: self.reader,
                changed: self.changed,
            };
            let found = self.ahead.take(source, id, heir, trails, &self.seen);
            if found.is_some() {
                return Ok(found);
            }
        }
        match self.reader.read(ObjectType::Commit, id)? {
            Some(bytes) => Ok(Some((decode(id, &bytes)?, Vec::new()))),
            None => {
                self.absent.insert(*id);
                Ok(None)
            }
        }
    }

    fn push(&mut self, queued: QueuedTrails) {
        let is_first = self.seen.insert(queued.id);
        let is_new = match (&mut self.queued, queued.with.first()) {
            (Some(known), Some(trail)) => known.insert((queued.id, trail.sought.path.clone())),
            _ => is_first,
        };
        if is_new {
            self.queue.push(queued);
        }
    }
}

fn versions_of(trails: &[Trail]) -> Vec<Version> {
    let version = |trail: &Trail| Version {
        path: trail.sought.path.clone(),
        entry: trail.end().cloned(),
    };
    trails.iter().map(version).collect()
}

/// What trails are made from.
#[derive(Clone, Copy)]
struct Source<'r> {
    reader: &'r dyn ObjectRead,
    changed: &'r ChangedPaths,
}

/// A path that the walk asks for.
#[derive(PartialEq, Eq)]
struct Sought {
    path: RepoPath,
    /// `None` for the root.
    hash: Option<PathHash>,
}

/// The entries on the way to a path in one tree.
#[derive(Clone)]
struct Trail {
    sought: Arc<Sought>,
    /// A tree with these entries. The tree of the commit that the trail belongs to has the same at the
    /// path; the directories above may be others there.
    root: ObjectId,
    /// The entries of the path's components, as far as they exist.
    entries: Arc<[TreeEntry]>,
}

impl Trail {
    /// Follows `path` from `root`.
    fn begin(
        reader: &dyn ObjectRead,
        root: &ObjectId,
        path: &RepoPath,
    ) -> Result<Trail, ObjectError> {
        let sought = Arc::new(Sought {
            hash: PathHash::of(path),
            path: path.clone(),
        });
        Trail::read(reader, root, sought, None)
    }

    /// Follows the path of `like` from `root`. What `like` found in an equal directory is not read
    /// again.
    fn walk(reader: &dyn ObjectRead, root: &ObjectId, like: &Trail) -> Result<Trail, ObjectError> {
        Trail::read(reader, root, like.sought.clone(), Some(like))
    }

    fn read(
        reader: &dyn ObjectRead,
        root: &ObjectId,
        sought: Arc<Sought>,
        like: Option<&Trail>,
    ) -> Result<Trail, ObjectError> {
        let mut entries: Vec<TreeEntry> = Vec::new();
        for (depth, name) in sought.path.components().enumerate() {
            let Some(dir) = dir_of(root, &entries, depth) else {
                break;
            };
            if let Some(like) = like.filter(|like| like.dir(depth) == Some(dir)) {
                entries.extend(like.entries.iter().skip(depth).cloned());
                break;
            }
            match lookup(reader, &dir, name)? {
                Some(entry) => entries.push(entry),
                None => break,
            }
        }
        Ok(Trail {
            root: *root,
            entries: entries.into(),
            sought,
        })
    }

    /// Returns the trail in the first parent of `heir`, whose trail this is, if the commit is known
    /// not to have changed the path.
    fn kept_by(&self, changed: &ChangedPaths, heir: &ObjectId) -> Option<Trail> {
        let hash = self.sought.hash?;
        changed.is_unchanged(heir, hash).then(|| self.clone())
    }

    /// Returns the directory in which component `depth` was looked up.
    fn dir(&self, depth: usize) -> Option<ObjectId> {
        dir_of(&self.root, &self.entries, depth)
    }

    fn end(&self) -> Option<&TreeEntry> {
        if self.is_there() {
            self.entries.last()
        } else {
            None
        }
    }

    fn is_there(&self) -> bool {
        self.entries.len() == self.sought.path.depth()
    }

    fn is_same(&self, other: &Trail) -> bool {
        if self.sought.path.is_root() {
            return self.root == other.root;
        }
        // A file that was only moved counts as changed.
        self.sought == other.sought
            && match (self.end(), other.end()) {
                (Some(a), Some(b)) => a.same_content(b),
                (a, b) => a.is_none() && b.is_none(),
            }
    }
}

/// Returns the directory in which component `depth` of a path is looked up.
fn dir_of(root: &ObjectId, entries: &[TreeEntry], depth: usize) -> Option<ObjectId> {
    match depth.checked_sub(1) {
        None => Some(*root),
        Some(above) => {
            let entry = entries.get(above);
            entry.filter(|e| e.kind == Kind::Directory).map(|e| e.id)
        }
    }
}

/// A queued commit with its trails, in the order of [`Ancestors`](super::Ancestors).
type QueuedTrails = super::QueuedCommit<Vec<Trail>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::changed_paths::{Builder, Changes};
    use crate::object::ObjectWrite;
    use crate::object::commit::Person;
    use crate::object::mem::MemObjects;
    use crate::object::name::SafeName;
    use crate::object::tree::TreeBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The contents that a commit has at `d/f`, and beside it.
    type State = (u8, u8);

    #[derive(Default)]
    struct History {
        mem: MemObjects,
        made: i64,
        /// State, parents and generation of each commit.
        known: BTreeMap<ObjectId, (State, Vec<ObjectId>, u64)>,
    }

    impl History {
        fn dir(&mut self, entries: &[(&str, Kind, ObjectId)]) -> Result<ObjectId, ObjectError> {
            let mut builder = TreeBuilder::default();
            for (name, kind, id) in entries {
                let entry = TreeEntry {
                    name: SafeName::new(name.as_bytes()).expect("test names are allowed"),
                    kind: *kind,
                    is_list: false,
                    id: *id,
                    size: 1,
                    files: u64::from(*kind == Kind::Directory),
                    attrs: None,
                };
                builder.push(&entry, &mut self.mem)?;
            }
            Ok(builder.finish(&mut self.mem)?.id)
        }

        /// Makes a commit. 0 for `at` means that there is no `d/f`.
        fn commit(
            &mut self,
            at: u8,
            beside: u8,
            parents: &[ObjectId],
        ) -> Result<ObjectId, ObjectError> {
            let content = |n: u8| ObjectType::Chunk.id_of(&[n]);
            let mut inner = vec![("a", Kind::File, content(beside))];
            if at > 0 {
                inner.push(("f", Kind::File, content(at)));
            }
            let d = self.dir(&inner)?;
            let tree = self.dir(&[
                ("d", Kind::Directory, d),
                ("x", Kind::File, content(beside)),
            ])?;
            let generation = |id: &ObjectId| self.known[id].2;
            let generation = 1 + parents.iter().map(generation).max().unwrap_or(0);
            self.made += 1;
            let person = Person {
                name: "Ada".into(),
                email: String::new(),
                seconds: self.made,
                nanos: 0,
                tz_minutes: 0,
            };
            let commit = Commit {
                tree,
                tree_bytes: 1,
                tree_files: 1,
                parents: parents.to_vec(),
                generation,
                author: person.clone(),
                committer: person,
                message: String::new(),
                extras: Vec::new(),
                signature: None,
            };
            let id = self.mem.put(ObjectType::Commit, &commit.encode()?)?;
            self.known
                .insert(id, ((at, beside), parents.to_vec(), generation));
            Ok(id)
        }

        /// Returns a table of these commits.
        fn changed<'a>(
            &self,
            ids: impl Iterator<Item = &'a ObjectId>,
        ) -> Result<ChangedPaths, ObjectError> {
            let tree =
                |id: &ObjectId| super::super::load_commit(&self.mem, id).map(|commit| commit.tree);
            let mut builder = Builder::new(ChangedPaths::default());
            for id in ids {
                let parent = self.known[id].1.first().map(tree).transpose()?;
                let mut changes = Changes::default();
                for change in crate::diff::changes(&self.mem, parent, Some(tree(id)?))? {
                    changes.add(&change.path);
                }
                builder.add(id, &changes);
            }
            Ok(ChangedPaths::decode(builder.encode()).expect("what was encoded"))
        }

        /// Returns the commits that are shown, from the definition.
        fn shown(&self, tip: ObjectId) -> BTreeSet<ObjectId> {
            let (mut out, mut seen) = (BTreeSet::new(), BTreeSet::new());
            let mut left = vec![tip];
            while let Some(id) = left.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let ((at, _), parents, _) = &self.known[&id];
                let same = parents.iter().find(|p| self.known[*p].0.0 == *at);
                match same {
                    Some(parent) => left.push(*parent),
                    None => {
                        if *at > 0 || !parents.is_empty() {
                            out.insert(id);
                        }
                        left.extend(parents);
                    }
                }
            }
            out
        }
    }

    fn walk(
        history: &History,
        tip: ObjectId,
        paths: &[&str],
    ) -> Result<Vec<ObjectId>, ObjectError> {
        walk_with(history, &ChangedPaths::default(), tip, paths)
    }

    fn walk_with(
        history: &History,
        changed: &ChangedPaths,
        tip: ObjectId,
        paths: &[&str],
    ) -> Result<Vec<ObjectId>, ObjectError> {
        let parse = |path: &&str| RepoPath::parse(path.as_bytes()).expect("a path");
        let paths: Vec<RepoPath> = paths.iter().map(parse).collect();
        let mut log = PathLog::new(&history.mem, changed, &[tip], &paths)?;
        let mut out = Vec::new();
        while let Some(visited) = log.advance::<ObjectError>(None)? {
            if visited.shown {
                out.push(visited.id);
            }
        }
        Ok(out)
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_the_definition_says(
            commits in vec((0u8..4, 0u8..3, vec(0usize..6, 0..3)), 1..40),
        ) {
            let mut history = History::default();
            let mut ids: Vec<ObjectId> = Vec::new();
            for (at, beside, back) in commits {
                let mut parents: Vec<ObjectId> = Vec::new();
                for n in back {
                    let parent = ids.iter().rev().nth(n);
                    parents.extend(parent.filter(|p| !parents.contains(p)));
                }
                ids.push(history.commit(at, beside, &parents)?);
            }
            let tip = *ids.last().expect("there is one");
            let found = walk(&history, tip, &["d/f"])?;
            let set: BTreeSet<ObjectId> = found.iter().copied().collect();
            prop_assert_eq!(set.len(), found.len());
            prop_assert_eq!(set, history.shown(tip));
            let all = walk(&history, tip, &[])?;
            let generations: Vec<u64> = all.iter().map(|id| history.known[id].2).collect();
            prop_assert!(generations.is_sorted_by(|a, b| a >= b));
            prop_assert_eq!(walk(&history, tip, &["d/nothing"])?, vec![]);
            // A table of some or all commits changes nothing.
            for skipped in [2, 3, usize::MAX] {
                let some = ids.iter().enumerate().filter(|(n, _)| n % skipped != 1);
                let changed = history.changed(some.map(|(_, id)| id))?;
                for paths in [&["d/f"][..], &["d"], &["d/f", "x"], &["d/nothing"], &[""], &[]] {
                    let expected = walk(&history, tip, paths)?;
                    prop_assert_eq!(walk_with(&history, &changed, tip, paths)?, expected);
                }
            }
        }
    }

    /// Returns a line of commits, each of which changes a file beside `d/f`.
    fn line(history: &mut History, n: u8) -> Result<Vec<ObjectId>, ObjectError> {
        let mut ids: Vec<ObjectId> = Vec::new();
        for beside in 1..=n {
            let parents: Vec<ObjectId> = ids.last().copied().into_iter().collect();
            ids.push(history.commit(1, beside, &parents)?);
        }
        Ok(ids)
    }

    #[test]
    fn reading_ahead_reads_nothing_twice_and_not_far() -> Result<(), ObjectError> {
        let mut history = History::default();
        let ids = line(&mut history, 250)?;
        let path = RepoPath::parse(b"d/f").expect("a path");
        history.mem.reset_reads();
        let changed = ChangedPaths::default();
        let mut log = PathLog::new(
            &history.mem,
            &changed,
            &ids[249..],
            std::slice::from_ref(&path),
        )?;
        for _ in 0..10 {
            log.advance::<ObjectError>(None)?;
        }
        // A commit has two directories. One commit ahead is read, then two, then four.
        let reads = history.mem.reads();
        assert!(reads <= 3 * 16, "{reads} reads");
        while log.advance::<ObjectError>(None)?.is_some() {}
        // Each thread except the first begins without directories to compare with.
        let reads = history.mem.reads();
        assert!(reads <= 3 * 250 + 10, "{reads} reads");
        Ok(())
    }

    #[test]
    fn trees_of_commits_that_are_known_not_to_change_the_path_are_not_read()
    -> Result<(), ObjectError> {
        let mut history = History::default();
        let mut ids = line(&mut history, 100)?;
        ids.push(history.commit(2, 100, &ids[99..])?);
        for beside in 0..100 {
            ids.push(history.commit(2, beside, &ids[ids.len() - 1..])?);
        }
        let changed = history.changed(ids.iter())?;
        history.mem.reset_reads();
        let found = walk_with(&history, &changed, ids[200], &["d/f"])?;
        assert_eq!(found, [ids[100], ids[0]]);
        // The commits, and the two directories of the tip, of the change, of each stretch that
        // another thread reads, and of the few that the filters do not exclude.
        let reads = history.mem.reads();
        assert!(reads <= 201 + 2 * 20, "{reads} reads");
        Ok(())
    }

    #[test]
    fn what_is_wrong_further_back_is_found_when_the_walk_comes_there() -> Result<(), ObjectError> {
        let mut history = History::default();
        let ids = line(&mut history, 100)?;
        let tree = super::super::load_commit(&history.mem, &ids[20])?.tree;
        assert!(history.mem.remove(ObjectType::Tree, &tree));
        let path = RepoPath::parse(b"d/f").expect("a path");
        let changed = ChangedPaths::default();
        let mut log = PathLog::new(
            &history.mem,
            &changed,
            &ids[99..],
            std::slice::from_ref(&path),
        )?;
        for id in ids[22..].iter().rev() {
            let visited = log.advance::<ObjectError>(None)?;
            assert_eq!(visited.map(|visited| visited.id), Some(*id));
        }
        let error = log.advance::<ObjectError>(None);
        assert!(matches!(error, Err(ObjectError::Missing { id, .. }) if id == tree));
        Ok(())
    }

    #[test]
    fn a_path_is_followed_where_it_was_moved_from() -> Result<(), ObjectError> {
        let mut history = History::default();
        let one = history.commit(0, 1, &[])?;
        let two = history.commit(0, 2, &[one])?;
        let three = history.commit(2, 2, &[two])?;
        let parse = |path: &str| RepoPath::parse(path.as_bytes()).expect("a path");
        let mut moved = |_: &ObjectId, _: &ObjectId, path: &RepoPath| {
            assert_eq!(path, &parse("d/f"));
            Ok::<_, ObjectError>(Some(parse("d/a")))
        };
        let changed = ChangedPaths::default();
        let mut log = PathLog::new(&history.mem, &changed, &[three], &[parse("d/f")])?;
        let mut shown = Vec::new();
        while let Some(visited) = log.advance(Some(&mut moved))? {
            shown.extend(visited.shown.then_some(visited.id));
        }
        assert_eq!(shown, [three, two, one]);
        Ok(())
    }
}

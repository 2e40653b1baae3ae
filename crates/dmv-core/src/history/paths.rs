//! The commits that changed some paths.
//!
//! History is simplified as Git does by default. A commit with the same paths as one of its parents
//! is skipped, and the walk follows only that parent. So it reads almost nothing of a side branch
//! that left no trace in the paths. In a tree it reads only the directories on the way to a path,
//! and of these only the ones that the child does not have.
//!
//! Nearly all the time goes into reading and checking these directories. So several threads do this
//! for a stretch of history at once, before the walk reaches it (`ahead`).

mod ahead;

use super::decode;
use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use ahead::Ahead;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

/// Finds the former path, in the parent, of a path that a commit created. Arguments: the parent's
/// tree, the commit's tree, and the path.
pub type Moved<'f, E> =
    dyn FnMut(&ObjectId, &ObjectId, &RepoPath) -> Result<Option<RepoPath>, E> + 'f;

/// A commit that the walk visited.
#[derive(Debug)]
pub struct Visited {
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
    queue: BinaryHeap<Queued>,
    seen: HashSet<ObjectId>,
    absent: BTreeSet<ObjectId>,
    ahead: Ahead,
    /// In a walk over the versions of a path: the commits that were queued, each with its path. A
    /// commit comes again if another child knows it by another path.
    queued: Option<HashSet<(ObjectId, RepoPath)>>,
}

impl<'r> PathLog<'r> {
    /// Returns a walk from `tips`, which must be stored here. Without paths every commit is shown.
    pub fn new(
        reader: &'r dyn ObjectRead,
        tips: &[ObjectId],
        paths: &[RepoPath],
    ) -> Result<PathLog<'r>, ObjectError> {
        let mut log = PathLog {
            reader,
            queue: BinaryHeap::new(),
            seen: HashSet::new(),
            absent: BTreeSet::new(),
            ahead: Ahead::default(),
            queued: None,
        };
        for id in tips {
            let ty = ObjectType::Commit;
            let missing = ObjectError::Missing { id: *id, ty };
            let (commit, _) = log.load(id, &[])?.ok_or(missing)?;
            let mut trails = Vec::new();
            for path in paths {
                trails.push(Trail::walk(reader, &commit.tree, path, None)?);
            }
            log.push(Queued {
                id: *id,
                commit,
                with: trails,
            });
        }
        Ok(log)
    }

    /// Returns a walk over the versions of one path in `tip` and its ancestors.
    ///
    /// The walk says which versions it visits ([`Visited::versions`], [`Visited::before`]). It
    /// visits a commit once for each path at which it was led there.
    pub fn of_versions(
        reader: &'r dyn ObjectRead,
        tip: &ObjectId,
        path: &RepoPath,
    ) -> Result<PathLog<'r>, ObjectError> {
        let mut log = PathLog::new(reader, &[*tip], std::slice::from_ref(path))?;
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
        moved: Option<&mut Moved<'_, E>>,
    ) -> Result<Option<Visited>, E> {
        self.advance_where(moved, &|_, _| true)
    }

    /// Does the same, and passes over the commits that `is_wanted` rejects at their path. The walk
    /// does not follow their parents because of them.
    pub fn advance_where<E: From<ObjectError>>(
        &mut self,
        mut moved: Option<&mut Moved<'_, E>>,
        is_wanted: &dyn Fn(&ObjectId, &RepoPath) -> bool,
    ) -> Result<Option<Visited>, E> {
        let wanted = |queued: &Queued| {
            let first = queued.with.first();
            first.is_none_or(|trail| is_wanted(&queued.id, &trail.path))
        };
        let Queued {
            id,
            commit,
            with: trails,
        } = loop {
            match self.queue.pop() {
                None => return Ok(None),
                Some(queued) if wanted(&queued) => break queued,
                Some(_) => {}
            }
        };
        let mut parents = Vec::new();
        let mut unchanged = None;
        for parent in &commit.parents {
            let Some((read, known)) = self.load(parent, &trails)? else {
                continue;
            };
            if read.generation >= commit.generation {
                let why = "generation is not greater than a parent's".to_owned();
                let ty = ObjectType::Commit;
                return Err(ObjectError::Damaged { id, ty, why }.into());
            }
            let mut known = known.into_iter();
            let mut before = Vec::new();
            for trail in &trails {
                let known = known.next().filter(|known| known.path == trail.path);
                before.push(self.trail_in(&commit, &read, trail, known, &mut moved)?);
            }
            let pairs = || trails.iter().zip(&before);
            let same = !trails.is_empty() && pairs().all(|(a, b)| a.is_same(b));
            parents.push(Queued {
                id: *parent,
                commit: read,
                with: before,
            });
            if same {
                unchanged = parents.pop();
                break;
            }
        }
        let ends_here = parents.is_empty() && unchanged.is_none();
        let shown = match &unchanged {
            Some(_) => false,
            None if trails.is_empty() => true,
            // At the end of stored history, the state counts as if it had always been there.
            None if ends_here && !commit.parents.is_empty() => false,
            None if ends_here => trails.iter().any(Trail::is_there),
            None => true,
        };
        if let Some(parent) = unchanged {
            parents = vec![parent];
        }
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
        Ok(Some(Visited {
            id,
            commit,
            shown,
            followed,
            versions,
            before,
        }))
    }

    /// Returns what the parent has at the path of `trail` in its child. `known`: this was read
    /// ahead.
    fn trail_in<E: From<ObjectError>>(
        &self,
        child: &Commit,
        parent: &Commit,
        trail: &Trail,
        known: Option<Trail>,
        moved: &mut Option<&mut Moved<'_, E>>,
    ) -> Result<Trail, E> {
        let before = match known {
            Some(known) => known,
            None => Trail::walk(self.reader, &parent.tree, &trail.path, Some(trail))?,
        };
        if let (true, false, Some(moved)) = (trail.is_there(), before.is_there(), moved)
            && let Some(path) = moved(&parent.tree, &child.tree, &trail.path)?
        {
            return Ok(Trail::walk(self.reader, &parent.tree, &path, None)?);
        }
        Ok(before)
    }

    /// Returns a commit, and its trails (like those of its child) if they were read ahead.
    fn load(
        &mut self,
        id: &ObjectId,
        trails: &[Trail],
    ) -> Result<Option<(Commit, Vec<Trail>)>, ObjectError> {
        if !trails.is_empty()
            && !self.seen.contains(id)
            && let Some(found) = self.ahead.take(self.reader, id, trails, &self.seen)
        {
            return Ok(Some(found));
        }
        match self.reader.read(ObjectType::Commit, id)? {
            Some(bytes) => Ok(Some((decode(id, &bytes)?, Vec::new()))),
            None => {
                self.absent.insert(*id);
                Ok(None)
            }
        }
    }

    fn push(&mut self, queued: Queued) {
        let is_first = self.seen.insert(queued.id);
        let is_new = match (&mut self.queued, queued.with.first()) {
            (Some(known), Some(trail)) => known.insert((queued.id, trail.path.clone())),
            _ => is_first,
        };
        if is_new {
            self.queue.push(queued);
        }
    }
}

fn versions_of(trails: &[Trail]) -> Vec<Version> {
    let version = |trail: &Trail| Version {
        path: trail.path.clone(),
        entry: trail.end().cloned(),
    };
    trails.iter().map(version).collect()
}

/// The entries on the way to a path in one tree.
struct Trail {
    path: RepoPath,
    root: ObjectId,
    /// The entries of the path's components, as far as they exist.
    entries: Vec<TreeEntry>,
}

impl Trail {
    /// Follows `path` from `root`. What `like` found in an equal directory is not read again.
    fn walk(
        reader: &dyn ObjectRead,
        root: &ObjectId,
        path: &RepoPath,
        like: Option<&Trail>,
    ) -> Result<Trail, ObjectError> {
        let mut trail = Trail {
            path: path.clone(),
            root: *root,
            entries: Vec::new(),
        };
        for (depth, name) in path.components().enumerate() {
            let Some(dir) = trail.dir(depth) else {
                break;
            };
            if let Some(like) = like.filter(|like| like.dir(depth) == Some(dir)) {
                let rest = like.entries.iter().skip(depth).cloned();
                trail.entries.extend(rest);
                break;
            }
            match lookup(reader, &dir, name)? {
                Some(entry) => trail.entries.push(entry),
                None => break,
            }
        }
        Ok(trail)
    }

    /// Returns the directory in which component `depth` is looked up.
    fn dir(&self, depth: usize) -> Option<ObjectId> {
        match depth.checked_sub(1) {
            None => Some(self.root),
            Some(above) => {
                let entry = self.entries.get(above);
                entry.filter(|e| e.kind == Kind::Directory).map(|e| e.id)
            }
        }
    }

    fn end(&self) -> Option<&TreeEntry> {
        match self.is_there() {
            true => self.entries.last(),
            false => None,
        }
    }

    fn is_there(&self) -> bool {
        self.entries.len() == self.path.components().count()
    }

    fn is_same(&self, other: &Trail) -> bool {
        if self.path.is_root() {
            return self.root == other.root;
        }
        // A file that was only moved counts as changed.
        self.path == other.path
            && match (self.end(), other.end()) {
                (Some(a), Some(b)) => a.same_content(b),
                (a, b) => a.is_none() && b.is_none(),
            }
    }
}

/// A queued commit with its trails, in the order of [`Ancestors`](super::Ancestors).
type Queued = super::Queued<Vec<Trail>>;

#[cfg(test)]
mod tests {
    use super::*;
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
        let parse = |path: &&str| RepoPath::parse(path.as_bytes()).expect("a path");
        let paths: Vec<RepoPath> = paths.iter().map(parse).collect();
        let mut log = PathLog::new(&history.mem, &[tip], &paths)?;
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
        let mut log = PathLog::new(&history.mem, &ids[249..], std::slice::from_ref(&path))?;
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
    fn what_is_wrong_further_back_is_found_when_the_walk_comes_there() -> Result<(), ObjectError> {
        let mut history = History::default();
        let ids = line(&mut history, 100)?;
        let tree = super::super::load_commit(&history.mem, &ids[20])?.tree;
        assert!(history.mem.remove(ObjectType::Tree, &tree));
        let path = RepoPath::parse(b"d/f").expect("a path");
        let mut log = PathLog::new(&history.mem, &ids[99..], std::slice::from_ref(&path))?;
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
        let mut log = PathLog::new(&history.mem, &[three], &[parse("d/f")])?;
        let mut shown = Vec::new();
        while let Some(visited) = log.advance(Some(&mut moved))? {
            shown.extend(visited.shown.then_some(visited.id));
        }
        assert_eq!(shown, [three, two, one]);
        Ok(())
    }
}

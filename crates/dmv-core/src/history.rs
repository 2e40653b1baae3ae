//! The graph of commits: ancestors, and the merge bases of two histories.
//!
//! Every walk goes by generation number, greatest first, so it sees a commit after all its
//! descendants. It checks the numbers on the way: a commit whose number does not fit its parents'
//! is damaged. In a partial repository history may end early. Absent parents are the end of
//! history, not errors. The module reads commits and trees through `ObjectRead` and knows no store.
//! `merge` and `repo` use it.

pub mod bisect;
pub mod changed_paths;
pub(crate) mod forks;
pub mod paths;

use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

/// Reads and decodes one commit.
pub fn load_commit(reader: &dyn ObjectRead, id: &ObjectId) -> Result<Commit, ObjectError> {
    decode(id, &reader.require(ObjectType::Commit, id)?)
}

/// Returns whether `a` is `b` or one of its ancestors, as far as history is stored here.
///
/// `b` must be stored here; `a` need not be.
pub fn is_ancestor(
    reader: &dyn ObjectRead,
    a: &ObjectId,
    b: &ObjectId,
) -> Result<bool, ObjectError> {
    if a == b {
        return Ok(true);
    }
    let goal = match reader.read(ObjectType::Commit, a)? {
        Some(bytes) => decode(a, &bytes)?.generation,
        None => 0,
    };
    let mut walk = Walk::new(reader);
    walk.require(b)?;
    while let Some(next) = walk.next()? {
        if next.commit.parents.contains(a) {
            return Ok(true);
        }
        // From here on generations only fall, and every child of `a` has a greater one than `a`.
        if next.commit.generation <= goal {
            break;
        }
    }
    Ok(false)
}

/// Returns the merge bases of `a` and `b` in id order: the common ancestors from which no other
/// common ancestor descends.
///
/// There is none if the histories do not meet, and more than one after criss-cross merges. If
/// history ends early and a base may lie beyond its end, the result is [`ObjectError::Missing`]
/// with the first absent commit.
pub(crate) fn merge_bases(
    reader: &dyn ObjectRead,
    a: &ObjectId,
    b: &ObjectId,
) -> Result<Vec<ObjectId>, ObjectError> {
    let mut walk = Walk::new(reader);
    let mut marks = Marks::default();
    for (id, mark) in [(a, FROM_A), (b, FROM_B)] {
        walk.require(id)?;
        marks.add(id, mark);
    }
    let mut bases = Vec::new();
    while marks.undecided > 0
        && let Some(next) = walk.next()?
    {
        // The walk has seen all its descendants, so its marks are complete.
        let mark = marks.take(&next.id);
        if mark == FROM_BOTH {
            bases.push(next.id);
        }
        let below = if mark & FROM_BOTH == FROM_BOTH {
            mark | BELOW_BASE
        } else {
            mark
        };
        for parent in &next.commit.parents {
            if walk.is_here(parent) {
                marks.add(parent, below);
            } else if below & BELOW_BASE == 0 {
                let (id, ty) = (*parent, ObjectType::Commit);
                return Err(ObjectError::Missing { id, ty });
            }
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Returns those of `ids` from which no other of them descends, in id order. All must be stored
/// here.
///
/// It makes one walk through the history between them, whatever their number.
pub(crate) fn best_of(
    reader: &dyn ObjectRead,
    ids: &[ObjectId],
) -> Result<Vec<ObjectId>, ObjectError> {
    let mut open: BTreeSet<ObjectId> = ids.iter().copied().collect();
    let mut walk = Walk::new(reader);
    for id in &open {
        walk.require(id)?;
    }
    let mut below = HashSet::new();
    let mut best = Vec::new();
    while !open.is_empty()
        && let Some(next) = walk.next()?
    {
        // The walk has seen all its descendants.
        if open.remove(&next.id) && !below.contains(&next.id) {
            best.push(next.id);
        }
        below.extend(next.commit.parents);
    }
    best.sort_unstable();
    Ok(best)
}

const FROM_A: u8 = 1;
const FROM_B: u8 = 2;
const FROM_BOTH: u8 = FROM_A | FROM_B;
/// An ancestor of a base: also common, but not a best one.
const BELOW_BASE: u8 = 4;

/// Marks of the commits that the walk has not reached yet.
#[derive(Default)]
struct Marks {
    marks: HashMap<ObjectId, u8>,
    /// How many of these commits are not below a base. The search ends when there are none.
    undecided: usize,
}

impl Marks {
    fn add(&mut self, id: &ObjectId, mark: u8) {
        let old = self.marks.get(id).copied();
        let new = old.unwrap_or(0) | mark;
        self.marks.insert(*id, new);
        let open = |mark: u8| mark & BELOW_BASE == 0;
        match (old.is_some_and(open), open(new)) {
            (false, true) => self.undecided += 1,
            (true, false) => self.undecided -= 1,
            (true, true) | (false, false) => {}
        }
    }

    fn take(&mut self, id: &ObjectId) -> u8 {
        let mark = self.marks.remove(id).unwrap_or(0);
        if mark & BELOW_BASE == 0 {
            self.undecided -= 1;
        }
        mark
    }
}

/// Commits and their ancestors, each once, descendants before ancestors: by generation, then
/// committer's time, then id, greatest first.
///
/// Ends after the first error.
pub(crate) struct Ancestors<'r> {
    walk: Walk<'r>,
    tips: Vec<ObjectId>,
}

impl<'r> Ancestors<'r> {
    /// Returns a walk from `tips`, which are part of it. Reads nothing yet.
    pub fn new(
        reader: &'r dyn ObjectRead,
        tips: impl IntoIterator<Item = ObjectId>,
    ) -> Ancestors<'r> {
        Ancestors {
            walk: Walk::new(reader),
            tips: tips.into_iter().collect(),
        }
    }

    /// Returns the absent tips and parents met so far.
    #[cfg(test)]
    pub fn boundary(&self) -> &BTreeSet<ObjectId> {
        &self.walk.absent
    }

    fn advance(&mut self) -> Result<Option<(ObjectId, Commit)>, ObjectError> {
        while let Some(tip) = self.tips.pop() {
            self.walk.add(&tip)?;
        }
        Ok(self.walk.next()?.map(|next| (next.id, next.commit)))
    }
}

impl Iterator for Ancestors<'_> {
    type Item = Result<(ObjectId, Commit), ObjectError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance().transpose();
        if matches!(item, Some(Err(_))) {
            self.tips.clear();
            self.walk.queue.clear();
        }
        item
    }
}

/// Commits that were seen or wait in the queue, in the order of [`Ancestors`].
struct Walk<'r> {
    reader: &'r dyn ObjectRead,
    queue: BinaryHeap<QueuedCommit<()>>,
    /// Generations of all commits that were ever queued.
    generations: HashMap<ObjectId, u64>,
    absent: BTreeSet<ObjectId>,
}

impl<'r> Walk<'r> {
    fn new(reader: &'r dyn ObjectRead) -> Walk<'r> {
        Walk {
            reader,
            queue: BinaryHeap::new(),
            generations: HashMap::new(),
            absent: BTreeSet::new(),
        }
    }

    fn is_here(&self, id: &ObjectId) -> bool {
        self.generations.contains_key(id)
    }

    /// Queues a commit, which must be stored here.
    fn require(&mut self, id: &ObjectId) -> Result<(), ObjectError> {
        match self.add(id)? {
            Some(_) => Ok(()),
            None => Err(ObjectError::Missing {
                id: *id,
                ty: ObjectType::Commit,
            }),
        }
    }

    /// Queues a commit unless it was queued before, and returns its generation; `None` if it is
    /// absent.
    fn add(&mut self, id: &ObjectId) -> Result<Option<u64>, ObjectError> {
        if let Some(generation) = self.generations.get(id) {
            return Ok(Some(*generation));
        }
        if self.absent.contains(id) {
            return Ok(None);
        }
        let Some(bytes) = self.reader.read(ObjectType::Commit, id)? else {
            self.absent.insert(*id);
            return Ok(None);
        };
        let commit = decode(id, &bytes)?;
        let generation = commit.generation;
        self.generations.insert(*id, generation);
        self.queue.push(QueuedCommit {
            id: *id,
            commit,
            with: (),
        });
        Ok(Some(generation))
    }

    /// Takes the greatest commit off the queue and queues its parents.
    fn next(&mut self) -> Result<Option<QueuedCommit<()>>, ObjectError> {
        let Some(next) = self.queue.pop() else {
            return Ok(None);
        };
        let mut greatest = Some(0);
        let mut fits = true;
        for parent in &next.commit.parents {
            let generation = self.add(parent)?;
            fits &= generation.is_none_or(|g| g < next.commit.generation);
            greatest = greatest.zip(generation).map(|(a, b)| a.max(b));
        }
        // The generation of an absent parent is unknown. Then the commit's generation must only be
        // greater than those of the stored parents.
        fits &= greatest.is_none_or(|g| g.checked_add(1) == Some(next.commit.generation));
        if !fits {
            return Err(ObjectError::Damaged {
                id: next.id,
                ty: ObjectType::Commit,
                why: "generation is not one more than the greatest parent's".to_owned(),
            });
        }
        Ok(Some(next))
    }
}

/// A commit in the queue: greater generations first, then later times. `with` is what else a walk
/// knows about it.
struct QueuedCommit<W> {
    id: ObjectId,
    commit: Commit,
    with: W,
}

impl<W> QueuedCommit<W> {
    fn key(&self) -> (u64, i64, u32, ObjectId) {
        let when = &self.commit.committer;
        (self.commit.generation, when.seconds, when.nanos, self.id)
    }
}

impl<W> PartialEq for QueuedCommit<W> {
    fn eq(&self, other: &QueuedCommit<W>) -> bool {
        self.key() == other.key()
    }
}

impl<W> Eq for QueuedCommit<W> {}

impl<W> PartialOrd for QueuedCommit<W> {
    fn partial_cmp(&self, other: &QueuedCommit<W>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Ord for QueuedCommit<W> {
    fn cmp(&self, other: &QueuedCommit<W>) -> Ordering {
        self.key().cmp(&other.key())
    }
}

fn decode(id: &ObjectId, bytes: &[u8]) -> Result<Commit, ObjectError> {
    Commit::decode(bytes).map_err(|e| ObjectError::undecodable(ObjectType::Commit, id, e))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::forks::{Fork, forks};
    use super::*;
    use crate::object::commit::Person;
    use crate::object::mem::MemObjects;
    use crate::object::tree::empty_tree_id;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Outcome = Result<(), ObjectError>;

    /// Returns the generation of a commit with these parents.
    pub fn generation_after(mem: &MemObjects, parents: &[ObjectId]) -> Result<u64, ObjectError> {
        let mut generation = 1;
        for parent in parents {
            generation = generation.max(1 + load_commit(mem, parent)?.generation);
        }
        Ok(generation)
    }

    /// Stores a commit of an empty tree. Its message is the number `n`.
    pub fn put_commit(
        mem: &MemObjects,
        n: i64,
        parents: &[ObjectId],
        generation: u64,
    ) -> Result<ObjectId, ObjectError> {
        let person = Person {
            name: "Ada".into(),
            email: "ada@example.org".into(),
            seconds: n,
            nanos: 0,
            tz_minutes: 0,
        };
        let commit = Commit {
            tree: empty_tree_id(),
            tree_bytes: 0,
            tree_files: 0,
            parents: parents.to_vec(),
            generation,
            author: person.clone(),
            committer: person,
            message: n.to_string(),
            extras: Vec::new(),
            signature: None,
        };
        Ok(mem.insert(ObjectType::Commit, &commit.encode()?))
    }

    /// Commits in memory. Their messages tell them apart.
    #[derive(Default)]
    struct History {
        mem: MemObjects,
        made: i64,
    }

    impl History {
        fn commit(&mut self, parents: &[ObjectId]) -> Result<ObjectId, ObjectError> {
            let generation = generation_after(&self.mem, parents)?;
            self.commit_as(parents, generation)
        }

        fn commit_as(
            &mut self,
            parents: &[ObjectId],
            generation: u64,
        ) -> Result<ObjectId, ObjectError> {
            self.made += 1;
            put_commit(&self.mem, self.made, parents, generation)
        }

        fn line(&mut self, from: &[ObjectId], n: usize) -> Result<Vec<ObjectId>, ObjectError> {
            let mut line: Vec<ObjectId> = Vec::new();
            for _ in 0..n {
                let next = match line.last() {
                    Some(last) => self.commit(&[*last])?,
                    None => self.commit(from)?,
                };
                line.push(next);
            }
            Ok(line)
        }

        fn bases(&self, a: ObjectId, b: ObjectId) -> Result<Vec<ObjectId>, ObjectError> {
            let bases = merge_bases(&self.mem, &a, &b)?;
            assert_eq!(merge_bases(&self.mem, &b, &a)?, bases);
            Ok(bases)
        }

        fn is_ancestor(&self, a: ObjectId, b: ObjectId) -> Result<bool, ObjectError> {
            is_ancestor(&self.mem, &a, &b)
        }

        fn from(&self, tips: &[ObjectId]) -> Result<Vec<ObjectId>, ObjectError> {
            Ancestors::new(&self.mem, tips.iter().copied())
                .map(|item| item.map(|(id, _)| id))
                .collect()
        }

        fn forget(&self, id: ObjectId) {
            assert!(self.mem.remove(ObjectType::Commit, &id));
        }
    }

    fn sorted(mut ids: Vec<ObjectId>) -> Vec<ObjectId> {
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_line_comes_out_newest_first() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 5)?;
        let newest_first: Vec<_> = line.iter().rev().copied().collect();
        assert_eq!(h.from(&[line[4]])?, newest_first);
        assert_eq!(h.from(&[line[4], line[1], line[4]])?, newest_first);
        assert!(h.is_ancestor(line[0], line[4])? && h.is_ancestor(line[2], line[2])?);
        assert!(!h.is_ancestor(line[4], line[0])?);
        assert_eq!(h.bases(line[1], line[4])?, [line[1]]);
        assert_eq!(h.bases(line[3], line[3])?, [line[3]]);
        Ok(())
    }

    #[test]
    fn the_best_of_several_are_those_that_no_other_descends_from() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 4)?;
        let beside = h.commit(&[line[1]])?;
        let best = |ids: &[ObjectId]| best_of(&h.mem, ids);
        assert_eq!(best(&[line[0], line[2], line[0]])?, [line[2]]);
        assert_eq!(best(&line)?, [line[3]]);
        let two = sorted(vec![line[2], beside]);
        assert_eq!(best(&[beside, line[1], line[2]])?, two);
        assert_eq!(best(&[])?, []);
        Ok(())
    }

    #[test]
    fn a_diamond_meets_at_its_root() -> Outcome {
        let mut h = History::default();
        let root = h.commit(&[])?;
        let left = h.line(&[root], 3)?;
        let right = h.commit(&[root])?;
        let top = h.commit(&[left[2], right])?;
        assert_eq!(h.bases(left[2], right)?, [root]);
        assert_eq!(h.bases(top, right)?, [right]);
        assert_eq!(
            h.from(&[top])?,
            [top, left[2], left[1], right, left[0], root]
        );
        assert!(h.is_ancestor(right, top)? && !h.is_ancestor(right, left[2])?);
        Ok(())
    }

    #[test]
    fn merges_that_cross_have_two_bases() -> Outcome {
        let mut h = History::default();
        let root = h.commit(&[])?;
        let (a, b) = (h.commit(&[root])?, h.line(&[root], 2)?[1]);
        let (left, right) = (h.commit(&[a, b])?, h.commit(&[b, a])?);
        assert_eq!(h.bases(left, right)?, sorted(vec![a, b]));
        let (left, right) = (h.line(&[left], 3)?[2], h.commit(&[right])?);
        assert_eq!(h.bases(left, right)?, sorted(vec![a, b]));
        Ok(())
    }

    #[test]
    fn a_fork_that_is_absent_or_too_far_is_unknown() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 40)?;
        let (near, far) = (h.commit(&[line[37]])?, h.commit(&[line[3]])?);
        let apart = h.commit(&[])?;
        let tips = [near, far, apart, line[5]];
        let at = |max| forks(&h.mem, &line[39], &tips, max);
        let contained = Fork::Contained;
        let (from_near, none) = (Fork::From(vec![line[37]]), Fork::From(Vec::new()));
        let from_far = Fork::From(vec![line[3]]);
        assert_eq!(
            at(100)?,
            [from_near.clone(), from_far, none, contained.clone()]
        );
        assert_eq!(at(6)?[..2], [from_near.clone(), Fork::Unknown]);
        h.forget(line[20]);
        let found = forks(&h.mem, &line[39], &tips, 100)?;
        assert_eq!(found[..2], [from_near, Fork::Unknown]);
        Ok(())
    }

    #[test]
    fn unrelated_histories_do_not_meet() -> Outcome {
        let mut h = History::default();
        let (a, b) = (h.line(&[], 3)?[2], h.line(&[], 2)?[1]);
        assert_eq!(h.bases(a, b)?, []);
        assert!(!h.is_ancestor(b, a)?);
        Ok(())
    }

    #[test]
    fn absent_parents_end_the_walk_and_are_its_boundary() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 6)?;
        let side = h.commit(&[line[1]])?;
        let top = h.commit(&[line[5], side])?;
        h.forget(line[1]);
        let mut walk = Ancestors::new(&h.mem, [top]);
        assert_eq!(walk.by_ref().filter(Result::is_ok).count(), 6);
        assert!(walk.boundary().iter().eq([&line[1]]));
        assert!(
            h.is_ancestor(line[1], top)?,
            "named by a commit that is here"
        );
        assert!(!h.is_ancestor(line[0], top)?, "beyond the boundary");
        for (a, b) in [(side, line[5]), (line[1], top)] {
            let missing = h.bases(a, b);
            assert!(matches!(missing, Err(ObjectError::Missing { id, .. }) if id == line[1]));
        }
        assert_eq!(h.bases(line[4], line[5])?, [line[4]]);
        let mut walk = Ancestors::new(&h.mem, [line[1]]);
        assert!(walk.next().is_none());
        assert!(walk.boundary().contains(&line[1]));
        Ok(())
    }

    #[test]
    fn ancestry_stops_at_the_generation_looked_for() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 100)?;
        let other = h.line(&[line[79]], 10)?[9];
        h.mem.reset_reads();
        assert!(!h.is_ancestor(other, line[99])?);
        assert!(h.mem.reads() <= 14, "{} reads", h.mem.reads());
        Ok(())
    }

    #[test]
    fn bases_are_found_without_reading_all_history() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 100)?;
        let (a, b) = (h.commit(&[line[99]])?, h.line(&[line[98]], 3)?[2]);
        h.mem.reset_reads();
        assert_eq!(h.bases(a, b)?, [line[98]]);
        assert!(h.mem.reads() <= 20, "{} reads", h.mem.reads());
        Ok(())
    }

    #[test]
    fn a_wrong_generation_is_damage() -> Outcome {
        let mut h = History::default();
        let line = h.line(&[], 4)?;
        for (parents, wrong) in [
            (vec![line[1]], 2),
            (vec![line[1]], 4),
            (vec![line[0], line[2]], 3),
            (vec![line[3]], u64::MAX),
        ] {
            let tip = h.commit_as(&parents, wrong)?;
            assert!(
                matches!(h.from(&[tip]), Err(ObjectError::Damaged { .. })),
                "{wrong}"
            );
            let walk = Ancestors::new(&h.mem, [tip, line[3]]);
            assert!(walk.count() <= 4, "the walk ends with the error");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn random_graphs_agree_with_sets(
            shape in vec(vec(any::<prop::sample::Index>(), 0..3), 2..14),
        ) {
            let mut h = History::default();
            let mut ids: Vec<ObjectId> = Vec::new();
            // The model: each commit with its ancestors, by number.
            let mut above: Vec<BTreeSet<usize>> = Vec::new();
            for picks in shape {
                let n = ids.len();
                let parents: BTreeSet<usize> = match n {
                    0 => BTreeSet::new(),
                    _ => picks.iter().map(|pick| pick.index(n)).collect(),
                };
                let mut known = BTreeSet::from([n]);
                known.extend(parents.iter().flat_map(|p| above[*p].iter()));
                above.push(known);
                let parents: Vec<_> = parents.into_iter().map(|p| ids[p]).collect();
                ids.push(h.commit(&parents)?);
            }
            for a in 0..ids.len() {
                let mut all = h.from(&[ids[a]])?;
                all.sort_unstable();
                prop_assert_eq!(all, sorted(above[a].iter().map(|n| ids[*n]).collect()));
                for b in 0..=a {
                    prop_assert_eq!(h.is_ancestor(ids[a], ids[b])?, above[b].contains(&a));
                    prop_assert_eq!(h.is_ancestor(ids[b], ids[a])?, above[a].contains(&b));
                    let common: BTreeSet<_> = above[a].intersection(&above[b]).collect();
                    let best = common
                        .iter()
                        .filter(|c| !common.iter().any(|d| d != *c && above[**d].contains(c)))
                        .map(|c| ids[**c])
                        .collect();
                    prop_assert_eq!(h.bases(ids[a], ids[b])?, sorted(best));
                }
                for step in [1, 2] {
                    let tips: Vec<usize> = (0..ids.len()).step_by(step).filter(|b| *b != a).collect();
                    let named: Vec<ObjectId> = tips.iter().map(|b| ids[*b]).collect();
                    let found = forks(&h.mem, &ids[a], &named, usize::MAX)?;
                    for (b, fork) in tips.iter().zip(found) {
                        let is_covered = tips.iter().any(|c| c != b && above[*c].contains(b));
                        let bases = h.bases(ids[a], ids[*b])?;
                        let expected = match above[a].contains(b) {
                            true => Fork::Contained,
                            // Where histories do not meet, the walk may end before it knows.
                            false if is_covered && !(bases.is_empty() && fork == Fork::From(Vec::new())) => {
                                Fork::Covered
                            }
                            false => Fork::From(bases),
                        };
                        prop_assert_eq!(fork, expected);
                    }
                }
            }
        }
    }
}

//! The objects that some commits need and others do not have.
//!
//! The walk reports commits, newest first, each followed by its trees, lists and chunks. It skips,
//! unread, everything that a commit shares with its parents at the same path. That content is
//! reported with the parent, or the parent is hidden, and a peer that has a hidden commit has
//! everything that the commit needs. So the cost depends on the difference.
//!
//! Such a visit has not reported everything below a node. If the node occurs elsewhere, beside
//! other parents, it is visited again. Hidden commits and former nodes serve only to skip: if they
//! cannot be read, the walk visits more and misses nothing.
//!
//! The walk also checks what peers claim about their objects: generations, levels, totals. It reads
//! through `ObjectRead` and knows no store and no wire. Both sides of a transfer use it, and
//! `repo`.

mod chunks;
mod claims;
mod commits;
mod compare;
pub(crate) mod filter;
mod id_set;
mod renames;

use crate::hash::ObjectId;
use crate::limits::MAX_PATH_DEPTH;
use crate::object::commit::Commit;
use crate::object::conflict::Conflict;
use crate::object::list::{Blob, ListNode};
use crate::object::root::Root;
use crate::object::tree::{Kind, Node, Totals, TreeEntry};
use crate::object::{ObjectError, ObjectRead, ObjectType};
pub use filter::Filter;

use chunks::{Chunk, Chunks};
use claims::{check_list, check_tree, damaged, wrong_generation};
use commits::{CommitQueue, QueuedCommit};
use compare::{OldLists, OldTrees};
use filter::Scope;
use id_set::VisitedIds;
use renames::MovedContent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many visited nodes and conflicts a walk remembers, at least.
const MAX_VISITED: usize = 7 << 14;
/// How many reported objects a walk remembers, at least. With [`MAX_VISITED`] this takes at most 22
/// MiB.
const MAX_REPORTED: usize = 7 << 16;

/// Which types of objects a walk reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Commits only.
    Commits,
    /// Commits, trees, lists and conflicts.
    Metadata,
    /// All objects.
    All,
}

/// An object that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReachedObject {
    /// Its type.
    pub ty: ObjectType,
    /// Its id.
    pub id: ObjectId,
    /// Whether the reader has it. If not, the objects below it are unknown until [`Reach::retry`].
    pub here: bool,
    /// Length of a chunk in bytes, as the object above it says; 0 for other types.
    pub len: u64,
    /// The tree, list or conflict that names a chunk, as far as the walk came from there.
    pub above: Option<ObjectId>,
}

/// What the object above records about an object.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// The root of a directory or of a file's list: bytes and files.
    Root(u64, u64),
    /// A node of this level with these totals.
    Node(u8, Totals),
}

/// The content of an entry or of a side of a conflict.
struct Target {
    kind: Kind,
    is_list: bool,
    id: ObjectId,
    size: u64,
    files: u64,
}

enum Item {
    Commit {
        id: ObjectId,
        distance: u32,
    },
    Tree {
        id: ObjectId,
        said: Said,
        depth: usize,
        scope: Scope,
        old: Vec<ObjectId>,
    },
    List {
        id: ObjectId,
        said: Said,
        old: Vec<ObjectId>,
    },
    Conflict {
        id: ObjectId,
        depth: usize,
        scope: Scope,
    },
    Chunk(Chunk),
    Alone(ObjectType, ObjectId),
}

/// A walk over the needed objects. Its memory depends on the width of history and the depth of
/// trees.
pub struct Reach {
    detail: Detail,
    filter: Filter,
    commits: CommitQueue,
    left_out: BTreeMap<ObjectId, Blob>,
    hidden: Vec<ObjectId>,
    stack: Vec<Item>,
    /// Objects that the reader did not have.
    parked: Vec<Item>,
    out: VecDeque<ReachedObject>,
    /// How each visited object was visited: see [`Scope::key_besides`].
    visited: VisitedIds,
    reported: VisitedIds,
    chunks: Chunks,
    /// Whether chunks count as stored, because the caller looks for them anyway.
    skips_chunks: bool,
    /// Bytes of the chunks that the walk has passed; `None` unless they are counted.
    content: Option<u64>,
    /// Whether content that hidden commits have at other paths is looked for before the walk begins.
    seeks_moved: bool,
    moved: MovedContent,
}

impl Reach {
    /// Returns a walk over what `tips` need and `hidden` do not. Reads nothing yet.
    pub fn new(
        tips: impl IntoIterator<Item = ObjectId>,
        hidden: impl IntoIterator<Item = ObjectId>,
        detail: Detail,
    ) -> Reach {
        Reach::filtered(tips, hidden, detail, Filter::default())
    }

    /// Returns a walk like [`new`](Self::new), limited to what `filter` wants.
    pub fn filtered(
        tips: impl IntoIterator<Item = ObjectId>,
        hidden: impl IntoIterator<Item = ObjectId>,
        detail: Detail,
        filter: Filter,
    ) -> Reach {
        let detail = if filter.metadata_only {
            detail.min(Detail::Metadata)
        } else {
            detail
        };
        let tip = |id| Item::Commit { id, distance: 1 };
        Reach {
            detail,
            filter,
            commits: CommitQueue::default(),
            left_out: BTreeMap::new(),
            hidden: hidden.into_iter().collect(),
            stack: tips.into_iter().map(tip).collect(),
            parked: Vec::new(),
            out: VecDeque::new(),
            visited: VisitedIds::new(MAX_VISITED),
            reported: VisitedIds::new(MAX_REPORTED),
            chunks: Chunks::default(),
            skips_chunks: false,
            content: None,
            seeks_moved: false,
            moved: MovedContent::default(),
        }
    }

    /// Also skips what hidden commits have at another path. For walks that decide what to send.
    pub fn skipping_moved(mut self) -> Reach {
        self.seeks_moved = true;
        self
    }

    /// Finds out what hidden commits have at other paths than the tips.
    fn seek_moved(&mut self, objects: &dyn ObjectRead) {
        if self.detail == Detail::Commits || !matches!(self.filter.root(), Some(Scope::All)) {
            return;
        }
        let hidden = self.commits.waiting();
        let tips = self.stack.iter().filter_map(|item| match item {
            Item::Commit { id, .. } => Some(*id),
            _ => None,
        });
        self.moved = MovedContent::between(objects, tips, hidden);
    }

    /// Also sums up [`content`](Self::content). For walks that report no chunks.
    pub fn counting(mut self) -> Reach {
        self.content = Some(0);
        self
    }

    /// Reports chunks as stored without a look-up. For callers that read them next.
    pub fn skipping_chunks(mut self) -> Reach {
        self.skips_chunks = true;
        self
    }

    /// Returns an upper bound of the bytes of the chunks so far. Chunks that several files share
    /// may be counted more than once.
    pub fn content(&self) -> u64 {
        self.content.unwrap_or(0)
    }

    fn count_content(&mut self, bytes: u64) {
        self.content = self.content.map(|sum| sum.saturating_add(bytes));
    }

    /// Returns a walk over `roots` and everything below them.
    pub fn under(roots: impl IntoIterator<Item = Root>) -> Reach {
        let mut reach = Reach::new([], [], Detail::All).also(roots);
        reach.stack.reverse();
        reach
    }

    /// Returns a walk over what the tree of a commit names and the trees `besides` do not have at the same path.
    /// It reports no other commits.
    pub fn of_tree(commit: &Commit, besides: Vec<ObjectId>, filter: Filter) -> Reach {
        let mut reach = Reach::filtered([], [], Detail::Metadata, filter);
        reach
            .stack
            .extend(reach.filter.root().map(|scope| Item::Tree {
                id: commit.tree,
                said: Said::Root(commit.tree_bytes, commit.tree_files),
                depth: 0,
                scope,
                old: besides,
            }));
        reach
    }

    /// Also reports `roots` and everything below them, whatever hidden commits have.
    pub fn also(mut self, roots: impl IntoIterator<Item = Root>) -> Reach {
        for root in roots {
            let target = match root {
                Root::Object(ty, id) => {
                    self.stack.push(Item::Alone(ty, id));
                    continue;
                }
                Root::Blob(blob) => Target {
                    kind: Kind::File,
                    is_list: blob.is_list,
                    id: blob.id,
                    size: blob.size,
                    files: 0,
                },
                Root::Directory { tree, bytes, files } => Target {
                    kind: Kind::Directory,
                    is_list: false,
                    id: tree,
                    size: bytes,
                    files,
                },
            };
            self.push_target(None, target, 0, Scope::All, Vec::new());
        }
        self
    }

    /// Returns the next needed object. `None` means that only objects below those that the reader
    /// did not have remain.
    pub fn next(&mut self, objects: &dyn ObjectRead) -> Result<Option<ReachedObject>, ObjectError> {
        while let Some(id) = self.hidden.pop() {
            self.commits.enqueue(&id, true, None, 1, objects)?;
        }
        if std::mem::take(&mut self.seeks_moved) {
            self.seek_moved(objects);
        }
        loop {
            if let Some(found) = self.out.pop_front() {
                return Ok(Some(found));
            }
            if let Some((chunk, here)) = self.chunks.next() {
                return Ok(Some(chunk.found(here)));
            }
            if self.chunks.are_many() {
                self.chunks.look_up(objects)?;
            } else if let Some(item) = self.stack.pop() {
                self.visit(item, objects)?;
            } else if self.commits.are_open() {
                self.next_commit(objects)?;
            } else if !self.chunks.look_up(objects)? {
                return Ok(None);
            }
        }
    }

    /// Returns how many objects the reader did not have since the last [`retry`](Self::retry).
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Looks again for the objects that the reader did not have. Returns whether there were any.
    pub fn retry(&mut self) -> bool {
        let any = !self.parked.is_empty();
        self.stack.append(&mut self.parked);
        any
    }

    /// Returns the commits met so far with at least one parent that the filter leaves out.
    pub fn boundary(&self) -> BTreeSet<ObjectId> {
        self.commits.cut.values().flatten().copied().collect()
    }

    /// Returns those of the filter's shallow commits whose parents the walk wanted.
    pub fn passed(&self) -> &BTreeSet<ObjectId> {
        &self.commits.passed
    }

    /// Returns those of the filter's unwanted blobs that the walk came to.
    pub fn left_out(&self) -> &BTreeMap<ObjectId, Blob> {
        &self.left_out
    }

    fn emit(&mut self, ty: ObjectType, id: ObjectId, here: bool) {
        self.out.push_back(ReachedObject {
            ty,
            id,
            here,
            len: 0,
            above: None,
        });
    }

    fn park(&mut self, ty: ObjectType, id: ObjectId, item: Item) {
        self.emit(ty, id, false);
        self.parked.push(item);
    }

    fn next_commit(&mut self, objects: &dyn ObjectRead) -> Result<(), ObjectError> {
        let Some((id, queued)) = self.commits.pop() else {
            return Ok(());
        };
        let QueuedCommit {
            hidden,
            distance,
            commit,
        } = queued;
        if hidden {
            return self.hide_parents(&id, &commit, objects);
        }
        let is_limited = self.filter.depth > 0 || self.filter.since.is_some();
        if is_limited && !self.commits.is_nearer(id, distance) {
            return Ok(());
        }
        self.emit(ObjectType::Commit, id, true);
        let old = self.parents(&id, &commit, distance, objects)?;
        if self.detail >= Detail::Metadata
            && let Some(scope) = self.filter.root()
        {
            self.stack.push(Item::Tree {
                id: commit.tree,
                said: Said::Root(commit.tree_bytes, commit.tree_files),
                depth: 0,
                scope,
                old,
            });
        }
        Ok(())
    }

    fn hide_parents(
        &mut self,
        id: &ObjectId,
        commit: &Commit,
        objects: &dyn ObjectRead,
    ) -> Result<(), ObjectError> {
        if !self.filter.shallow.contains(id) {
            for parent in &commit.parents {
                let below = Some(commit.generation);
                self.commits.enqueue(parent, true, below, 1, objects)?;
            }
        }
        Ok(())
    }

    /// Queues the wanted parents of a commit. Returns the trees of those parents that are in the
    /// queue.
    fn parents(
        &mut self,
        id: &ObjectId,
        commit: &Commit,
        distance: u32,
        objects: &dyn ObjectRead,
    ) -> Result<Vec<ObjectId>, ObjectError> {
        // This depends on the commit alone, so the decision needs no parent.
        let filter = &self.filter;
        let goes_on = (filter.depth == 0 || distance < filter.depth)
            && filter.since.is_none_or(|t| commit.committer.seconds >= t);
        let (mut greatest, mut old) = (Some(0), Vec::new());
        if goes_on && filter.shallow.contains(id) {
            self.commits.passed.insert(*id);
        }
        for parent in &commit.parents {
            if goes_on {
                let below = Some(commit.generation);
                let distance = distance.saturating_add(1);
                let queued = self
                    .commits
                    .enqueue(parent, false, below, distance, objects);
                let generation = queued?;
                greatest = greatest.zip(generation).map(|(a, b)| a.max(b));
                if generation.is_none() {
                    let id = *parent;
                    self.park(ObjectType::Commit, id, Item::Commit { id, distance });
                }
            } else {
                greatest = None;
                self.commits.end_at(*parent, *id);
            }
            old.extend(self.commits.tree_of(parent));
        }
        match greatest {
            Some(g) if g.checked_add(1) != Some(commit.generation) => Err(wrong_generation(id)),
            _ => Ok(old),
        }
    }

    fn visit(&mut self, item: Item, objects: &dyn ObjectRead) -> Result<(), ObjectError> {
        match item {
            Item::Commit { id, distance } => {
                let queued = self.commits.enqueue(&id, false, None, distance, objects);
                let generation = queued?;
                if generation.is_none() {
                    self.park(ObjectType::Commit, id, Item::Commit { id, distance });
                }
            }
            item @ Item::Tree { .. } => self.visit_tree(item, objects)?,
            Item::List { id, said, old } => self.visit_list(id, said, old, objects)?,
            Item::Conflict { id, depth, scope } => {
                self.visit_conflict(id, depth, scope, objects)?;
            }
            Item::Chunk(chunk) => {
                if !self.reported.insert(chunk.id) {
                    // It was reported, or will be.
                } else if self.skips_chunks {
                    self.out.push_back(chunk.found(true));
                } else {
                    self.chunks.push(chunk);
                }
            }
            // The object does not count as visited: the objects below it may still be wanted
            // elsewhere.
            Item::Alone(ty, id) => {
                let here = objects.holds(ty, &id)?;
                self.emit(ty, id, here);
            }
        }
        Ok(())
    }

    /// Returns whether an earlier visit has reported everything that a visit in this scope and
    /// beside these former objects would report.
    fn was_visited(&self, id: &ObjectId, scope: &Scope, old: &[ObjectId]) -> bool {
        let is_part = matches!(scope, Scope::Part(_));
        self.visited.contains(id)
            || is_part && self.visited.contains(&scope.key(id))
            || !old.is_empty() && self.visited.contains(&scope.key_besides(id, old))
    }

    /// Records a visit, and reports the object unless this was done before.
    fn note_visit(&mut self, ty: ObjectType, id: ObjectId, scope: &Scope, old: &[ObjectId]) {
        self.visited.insert(scope.key_besides(&id, old));
        if self.reported.insert(id) {
            self.emit(ty, id, true);
        }
    }

    fn visit_tree(&mut self, item: Item, objects: &dyn ObjectRead) -> Result<(), ObjectError> {
        let Item::Tree {
            id,
            said,
            depth,
            ref scope,
            ref old,
        } = item
        else {
            return Ok(());
        };
        if old.contains(&id) || self.was_visited(&id, scope, old) {
            return Ok(());
        }
        if depth > MAX_PATH_DEPTH {
            return Err(damaged(
                ObjectType::Tree,
                &id,
                "directories are nested too deep",
            ));
        }
        let Some(bytes) = objects.read(ObjectType::Tree, &id)? else {
            self.park(ObjectType::Tree, id, item);
            return Ok(());
        };
        let node =
            Node::decode(&bytes).map_err(|e| ObjectError::undecodable(ObjectType::Tree, &id, e))?;
        check_tree(&id, &node, said)?;
        self.note_visit(ObjectType::Tree, id, scope, old);
        let old = OldTrees::read(objects, old, node.level());
        match node {
            Node::Leaf(entries) => {
                for entry in entries.iter().rev() {
                    self.push_entry(&id, entry, depth, scope, &old)?;
                }
            }
            Node::Inner { level, children } => {
                let mut after: Option<&[u8]> = None;
                let from = self.stack.len();
                for child in &children {
                    let last = child.last.as_bytes();
                    let before = after.replace(last);
                    if old.has_child(&child.id) {
                        continue;
                    }
                    self.stack.push(Item::Tree {
                        id: child.id,
                        said: Said::Node(level - 1, child.totals),
                        depth,
                        scope: scope.clone(),
                        old: old.overlapping(before, last),
                    });
                }
                self.stack[from..].reverse();
            }
        }
        Ok(())
    }

    fn push_entry(
        &mut self,
        tree: &ObjectId,
        entry: &TreeEntry,
        depth: usize,
        scope: &Scope,
        old: &OldTrees,
    ) -> Result<(), ObjectError> {
        let former = old.entries(entry.name.as_bytes());
        if former.iter().any(|f| f.id == entry.id) {
            return Ok(());
        }
        let below = self.filter.below(scope, entry);
        let Some(scope) = below.map_err(|e| damaged(ObjectType::Tree, tree, e.why()))? else {
            return Ok(());
        };
        let same_kind = |f: &&&TreeEntry| f.kind == entry.kind && f.is_list == entry.is_list;
        if self.moved.has(&entry.id) && !self.filter.dropped.contains(&entry.id) {
            return Ok(());
        }
        let old = former.iter().filter(same_kind);
        let mut old: Vec<ObjectId> = old.map(|f| f.id).collect();
        if old.is_empty() && entry.is_list {
            old.extend(self.moved.former(entry.name.as_bytes()));
        }
        // What the new file shares with one that was given up is as absent as that one.
        old.retain(|id| !self.filter.dropped.contains(id));
        let target = Target {
            kind: entry.kind,
            is_list: entry.is_list,
            id: entry.id,
            size: entry.size,
            files: entry.files,
        };
        self.push_target(Some(*tree), target, depth, scope, old);
        Ok(())
    }

    fn push_target(
        &mut self,
        above: Option<ObjectId>,
        target: Target,
        depth: usize,
        scope: Scope,
        old: Vec<ObjectId>,
    ) {
        let Target { id, size, .. } = target;
        let item = match target.kind {
            Kind::Directory => Item::Tree {
                id,
                said: Said::Root(size, target.files),
                depth: depth + 1,
                scope,
                old,
            },
            Kind::Conflict => Item::Conflict { id, depth, scope },
            kind if kind.is_blob() && self.filter.dropped.contains(&id) => {
                let is_list = target.is_list;
                self.left_out.insert(id, Blob { id, size, is_list });
                return;
            }
            _ if target.is_list => Item::List {
                id,
                said: Said::Root(size, 0),
                old,
            },
            _ if self.detail < Detail::All => {
                if self.content.is_some() && self.reported.insert(id) {
                    self.count_content(size);
                }
                return;
            }
            _ => Item::Chunk(Chunk {
                id,
                len: size,
                above,
            }),
        };
        self.stack.push(item);
    }

    fn visit_list(
        &mut self,
        id: ObjectId,
        said: Said,
        old: Vec<ObjectId>,
        objects: &dyn ObjectRead,
    ) -> Result<(), ObjectError> {
        if old.contains(&id) || self.was_visited(&id, &Scope::All, &old) {
            return Ok(());
        }
        // Only chunks lie below it, and they are not reported.
        let is_last = matches!(said, Said::Node(0, _)) && self.detail < Detail::All;
        if is_last && objects.holds(ObjectType::List, &id)? {
            self.note_visit(ObjectType::List, id, &Scope::All, &[]);
            if let Said::Node(_, totals) = said {
                self.count_content(totals.bytes);
            }
            return Ok(());
        }
        let Some(bytes) = objects.read(ObjectType::List, &id)? else {
            self.park(ObjectType::List, id, Item::List { id, said, old });
            return Ok(());
        };
        let node = ListNode::decode(&bytes)
            .map_err(|e| ObjectError::undecodable(ObjectType::List, &id, e))?;
        check_list(&id, &node, said)?;
        self.note_visit(ObjectType::List, id, &Scope::All, &old);
        if node.level == 0 && self.detail < Detail::All && self.content.is_none() {
            return Ok(());
        }
        let former = OldLists::read(objects, &old, node.level);
        if node.level == 0 && self.detail < Detail::All {
            let new = node.entries.iter().filter(|e| !former.has_child(&e.id));
            self.count_content(new.map(|entry| entry.len).sum());
            return Ok(());
        }
        let gone = former.not_in(&node);
        for entry in node.entries.iter().rev() {
            if former.has_child(&entry.id) {
                continue;
            }
            self.stack.push(match node.level {
                0 => Item::Chunk(Chunk {
                    id: entry.id,
                    len: entry.len,
                    above: Some(id),
                }),
                level => Item::List {
                    id: entry.id,
                    said: Said::Node(
                        level - 1,
                        Totals {
                            bytes: entry.len,
                            ..Totals::default()
                        },
                    ),
                    old: gone.clone(),
                },
            });
        }
        Ok(())
    }

    fn visit_conflict(
        &mut self,
        id: ObjectId,
        depth: usize,
        scope: Scope,
        objects: &dyn ObjectRead,
    ) -> Result<(), ObjectError> {
        if self.was_visited(&id, &scope, &[]) {
            return Ok(());
        }
        let Some(bytes) = objects.read(ObjectType::Conflict, &id)? else {
            self.park(
                ObjectType::Conflict,
                id,
                Item::Conflict { id, depth, scope },
            );
            return Ok(());
        };
        let conflict = Conflict::decode(&bytes)
            .map_err(|e| ObjectError::undecodable(ObjectType::Conflict, &id, e))?;
        self.note_visit(ObjectType::Conflict, id, &scope, &[]);
        for term in conflict.bases.iter().chain(&conflict.sides).flatten() {
            let Some(scope) = self.filter.side(&scope, term.kind) else {
                continue;
            };
            let target = Target {
                kind: term.kind,
                is_list: term.is_list,
                id: term.id,
                size: term.size,
                files: term.files,
            };
            self.push_target(Some(id), target, depth, scope, Vec::new());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Which objects some commits need that others do not have.
//!
//! Commits come newest first, each followed by its trees, then lists and chunks. What a commit
//! shares with its parents at the same place is passed over unread: it comes with the parent, or
//! the parent is hidden, and whoever has a hidden commit has all it needs. So the cost follows the
//! difference. Passing over is all that hidden commits and former nodes are used for: where they
//! cannot be read, more is visited and nothing is missed.
//!
//! What strangers say about their objects is checked here as well: generations, levels, totals.

mod compare;
mod seen;

use crate::hash::ObjectId;
use crate::limits::MAX_PATH_DEPTH;
use crate::object::commit::Commit;
use crate::object::conflict::Conflict;
use crate::object::list::{Blob, ListNode};
use crate::object::tree::{Kind, Node, Totals, TreeEntry};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use compare::{OldLists, OldTrees};
use seen::Seen;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// How deep to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Commits alone.
    Commits,
    /// And trees, lists and conflicts.
    Metadata,
    /// And chunks.
    All,
}

/// An object that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its type.
    pub ty: ObjectType,
    /// Its id.
    pub id: ObjectId,
    /// Whether the reader has it. If not, what it needs is not known yet: see [`Reach::retry`].
    pub here: bool,
}

/// Something below a commit that is wanted for itself, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// One object, without what it refers to.
    Object(ObjectType, ObjectId),
    /// A file's content.
    Blob(Blob),
    /// A directory with all under it.
    Directory {
        /// Its tree.
        tree: ObjectId,
        /// Bytes under it.
        bytes: u64,
        /// Files under it.
        files: u64,
    },
}

impl Root {
    /// The object that everything else of it hangs on.
    pub fn id(&self) -> ObjectId {
        match self {
            Root::Object(_, id) | Root::Directory { tree: id, .. } => *id,
            Root::Blob(blob) => blob.id,
        }
    }
}

/// What the object above says about one below it.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// A directory's root or a file's list root: bytes and files.
    Root(u64, u64),
    /// A node of this level with these totals.
    Node(u8, Totals),
}

enum Item {
    Commit(ObjectId),
    Tree {
        id: ObjectId,
        said: Said,
        depth: usize,
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
    },
    Chunk(ObjectId),
    Alone(ObjectType, ObjectId),
}

/// A commit that waits for its turn: by generation, greatest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    generation: u64,
    id: ObjectId,
}

struct Waiting {
    hidden: bool,
    commit: Commit,
}

/// A walk over what is needed. Memory follows the width of history and the depth of trees.
pub struct Reach {
    detail: Detail,
    queue: BinaryHeap<Queued>,
    /// The commits in the queue. One that has been taken off never comes back: its children were
    /// all taken off before.
    waiting: HashMap<ObjectId, Waiting>,
    /// How many of them are not hidden.
    open: usize,
    hidden: Vec<ObjectId>,
    stack: Vec<Item>,
    /// What the reader did not have.
    parked: Vec<Item>,
    out: VecDeque<Found>,
    seen: Seen,
}

impl Reach {
    /// What `tips` need and `hidden` do not. Reads nothing yet.
    pub fn new(
        tips: impl IntoIterator<Item = ObjectId>,
        hidden: impl IntoIterator<Item = ObjectId>,
        detail: Detail,
    ) -> Reach {
        Reach {
            detail,
            queue: BinaryHeap::new(),
            waiting: HashMap::new(),
            open: 0,
            hidden: hidden.into_iter().collect(),
            stack: tips.into_iter().map(Item::Commit).collect(),
            parked: Vec::new(),
            out: VecDeque::new(),
            seen: Seen::default(),
        }
    }

    /// What is under `roots`, with them.
    pub fn under(roots: impl IntoIterator<Item = Root>) -> Reach {
        let mut reach = Reach::new([], [], Detail::All);
        for root in roots {
            let (kind, is_list, id, size, files) = match root {
                Root::Object(ty, id) => {
                    reach.stack.push(Item::Alone(ty, id));
                    continue;
                }
                Root::Blob(blob) => (Kind::File, blob.is_list, blob.id, blob.size, 0),
                Root::Directory { tree, bytes, files } => {
                    (Kind::Directory, false, tree, bytes, files)
                }
            };
            reach.push_target((kind, is_list), id, (size, files), 0, Vec::new());
        }
        reach.stack.reverse();
        reach
    }

    /// The next object that is needed; `None` when there are no more, but for what lies under
    /// objects that the reader did not have.
    pub fn next(&mut self, objects: &dyn ObjectRead) -> Result<Option<Found>, ObjectError> {
        while let Some(id) = self.hidden.pop() {
            self.enqueue(&id, true, None, objects)?;
        }
        loop {
            if let Some(found) = self.out.pop_front() {
                return Ok(Some(found));
            }
            if let Some(item) = self.stack.pop() {
                self.visit(item, objects)?;
            } else if self.open > 0 {
                self.next_commit(objects)?;
            } else {
                return Ok(None);
            }
        }
    }

    /// Looks again at what the reader did not have; whether there was anything.
    pub fn retry(&mut self) -> bool {
        let any = !self.parked.is_empty();
        self.stack.append(&mut self.parked);
        any
    }

    fn emit(&mut self, ty: ObjectType, id: ObjectId, here: bool) {
        self.out.push_back(Found { ty, id, here });
    }

    fn park(&mut self, ty: ObjectType, id: ObjectId, item: Item) {
        self.emit(ty, id, false);
        self.parked.push(item);
    }

    /// Queues a commit and returns its generation; `None` when it is not here.
    fn enqueue(
        &mut self,
        id: &ObjectId,
        hidden: bool,
        below: Option<u64>,
        objects: &dyn ObjectRead,
    ) -> Result<Option<u64>, ObjectError> {
        if !self.waiting.contains_key(id) {
            let Some(bytes) = objects.read(ObjectType::Commit, id)? else {
                return Ok(None);
            };
            let commit = Commit::decode(&bytes)
                .map_err(|e| ObjectError::undecodable(ObjectType::Commit, id, e))?;
            let generation = commit.generation;
            self.queue.push(Queued {
                generation,
                id: *id,
            });
            self.open += 1;
            let hidden = false;
            self.waiting.insert(*id, Waiting { hidden, commit });
        }
        let waiting = self.waiting.get_mut(id).expect("it was inserted above");
        if hidden && !waiting.hidden {
            waiting.hidden = true;
            self.open -= 1;
        }
        let generation = waiting.commit.generation;
        if below.is_some_and(|child| generation >= child) {
            return Err(wrong_generation(id));
        }
        Ok(Some(generation))
    }

    fn next_commit(&mut self, objects: &dyn ObjectRead) -> Result<(), ObjectError> {
        let Some(Queued { id, .. }) = self.queue.pop() else {
            self.open = 0;
            return Ok(());
        };
        let Waiting { hidden, commit } = self.waiting.remove(&id).expect("queued ones wait");
        if !hidden {
            self.open -= 1;
            self.emit(ObjectType::Commit, id, true);
        }
        let (mut greatest, mut old) = (Some(0), Vec::new());
        for parent in &commit.parents {
            let generation = self.enqueue(parent, hidden, Some(commit.generation), objects)?;
            greatest = greatest.zip(generation).map(|(a, b)| a.max(b));
            match self.waiting.get(parent) {
                Some(waiting) => old.push(waiting.commit.tree),
                None if !hidden => {
                    self.park(ObjectType::Commit, *parent, Item::Commit(*parent));
                }
                None => {}
            }
        }
        if hidden {
            return Ok(());
        }
        if greatest.is_some_and(|g| g.checked_add(1) != Some(commit.generation)) {
            return Err(wrong_generation(&id));
        }
        if self.detail >= Detail::Metadata {
            self.stack.push(Item::Tree {
                id: commit.tree,
                said: Said::Root(commit.tree_bytes, commit.tree_files),
                depth: 0,
                old,
            });
        }
        Ok(())
    }

    fn visit(&mut self, item: Item, objects: &dyn ObjectRead) -> Result<(), ObjectError> {
        match item {
            Item::Commit(id) => {
                if self.enqueue(&id, false, None, objects)?.is_none() {
                    self.park(ObjectType::Commit, id, Item::Commit(id));
                }
            }
            Item::Tree {
                id,
                said,
                depth,
                old,
            } => self.visit_tree(id, said, depth, old, objects)?,
            Item::List { id, said, old } => self.visit_list(id, said, old, objects)?,
            Item::Conflict { id, depth } => self.visit_conflict(id, depth, objects)?,
            Item::Chunk(id) => {
                if self.seen.insert(id) {
                    let here = objects.holds(ObjectType::Chunk, &id)?;
                    self.emit(ObjectType::Chunk, id, here);
                }
            }
            // It is not noted as seen: what is under it may still be wanted for another reason.
            Item::Alone(ty, id) => {
                let here = objects.holds(ty, &id)?;
                self.emit(ty, id, here);
            }
        }
        Ok(())
    }

    fn visit_tree(
        &mut self,
        id: ObjectId,
        said: Said,
        depth: usize,
        old: Vec<ObjectId>,
        objects: &dyn ObjectRead,
    ) -> Result<(), ObjectError> {
        if old.contains(&id) || self.seen.contains(&id) {
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
            let item = Item::Tree {
                id,
                said,
                depth,
                old,
            };
            self.park(ObjectType::Tree, id, item);
            return Ok(());
        };
        let node =
            Node::decode(&bytes).map_err(|e| ObjectError::undecodable(ObjectType::Tree, &id, e))?;
        check_tree(&id, &node, said)?;
        self.seen.insert(id);
        self.emit(ObjectType::Tree, id, true);
        let old = OldTrees::read(objects, &old, node.level());
        match node {
            Node::Leaf(entries) => {
                for entry in entries.iter().rev() {
                    self.push_entry(entry, depth, &old);
                }
            }
            Node::Inner { level, children } => {
                let mut after: Option<&[u8]> = None;
                let from = self.stack.len();
                for child in &children {
                    let range = (after, child.last.as_bytes());
                    after = Some(child.last.as_bytes());
                    if old.has_child(&child.id) {
                        continue;
                    }
                    self.stack.push(Item::Tree {
                        id: child.id,
                        said: Said::Node(level - 1, child.totals),
                        depth,
                        old: old.overlapping(range),
                    });
                }
                self.stack[from..].reverse();
            }
        }
        Ok(())
    }

    fn push_entry(&mut self, entry: &TreeEntry, depth: usize, old: &OldTrees) {
        let former = old.entries(entry.name.as_bytes());
        if former.iter().any(|f| f.id == entry.id) {
            return;
        }
        let same_kind = |f: &&&TreeEntry| f.kind == entry.kind && f.is_list == entry.is_list;
        let old = former.iter().filter(same_kind).map(|f| f.id).collect();
        self.push_target(
            (entry.kind, entry.is_list),
            entry.id,
            (entry.size, entry.files),
            depth,
            old,
        );
    }

    fn push_target(
        &mut self,
        (kind, is_list): (Kind, bool),
        id: ObjectId,
        (size, files): (u64, u64),
        depth: usize,
        old: Vec<ObjectId>,
    ) {
        let item = match kind {
            Kind::Directory => Item::Tree {
                id,
                said: Said::Root(size, files),
                depth: depth + 1,
                old,
            },
            Kind::Conflict => Item::Conflict { id, depth },
            _ if is_list => Item::List {
                id,
                said: Said::Root(size, 0),
                old,
            },
            _ if self.detail < Detail::All => return,
            _ => Item::Chunk(id),
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
        if old.contains(&id) || self.seen.contains(&id) {
            return Ok(());
        }
        // Only its chunks could be learnt from it.
        let is_last = matches!(said, Said::Node(0, _)) && self.detail < Detail::All;
        if is_last && objects.holds(ObjectType::List, &id)? {
            self.seen.insert(id);
            self.emit(ObjectType::List, id, true);
            return Ok(());
        }
        let Some(bytes) = objects.read(ObjectType::List, &id)? else {
            self.park(ObjectType::List, id, Item::List { id, said, old });
            return Ok(());
        };
        let node = ListNode::decode(&bytes)
            .map_err(|e| ObjectError::undecodable(ObjectType::List, &id, e))?;
        check_list(&id, &node, said)?;
        self.seen.insert(id);
        self.emit(ObjectType::List, id, true);
        if node.level == 0 && self.detail < Detail::All {
            return Ok(());
        }
        let former = OldLists::read(objects, &old, node.level);
        let gone = former.not_in(&node);
        for entry in node.entries.iter().rev() {
            if former.has_child(&entry.id) {
                continue;
            }
            self.stack.push(match node.level {
                0 => Item::Chunk(entry.id),
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
        objects: &dyn ObjectRead,
    ) -> Result<(), ObjectError> {
        if self.seen.contains(&id) {
            return Ok(());
        }
        let Some(bytes) = objects.read(ObjectType::Conflict, &id)? else {
            self.park(ObjectType::Conflict, id, Item::Conflict { id, depth });
            return Ok(());
        };
        let conflict = Conflict::decode(&bytes)
            .map_err(|e| ObjectError::undecodable(ObjectType::Conflict, &id, e))?;
        self.seen.insert(id);
        self.emit(ObjectType::Conflict, id, true);
        for term in conflict.bases.iter().chain(&conflict.sides).flatten() {
            let kind = (term.kind, term.is_list);
            self.push_target(kind, term.id, (term.size, term.files), depth, Vec::new());
        }
        Ok(())
    }
}

fn check_tree(id: &ObjectId, node: &Node, said: Said) -> Result<(), ObjectError> {
    let totals = node.totals().unwrap_or_default();
    let fits = match said {
        Said::Root(bytes, files) => {
            (totals.bytes, totals.files) == (bytes, files)
                && (node.level() == 0 || node.count() >= 2)
        }
        Said::Node(level, said) => node.level() == level && totals == said,
    };
    match fits {
        true => Ok(()),
        false => Err(damaged(
            ObjectType::Tree,
            id,
            "it is not what the object above says",
        )),
    }
}

fn check_list(id: &ObjectId, node: &ListNode, said: Said) -> Result<(), ObjectError> {
    let fits = match said {
        Said::Root(bytes, _) => node.size() == bytes && node.entries.len() >= 2,
        Said::Node(level, said) => node.level == level && node.size() == said.bytes,
    };
    match fits {
        true => Ok(()),
        false => Err(damaged(
            ObjectType::List,
            id,
            "it is not what the object above says",
        )),
    }
}

fn wrong_generation(id: &ObjectId) -> ObjectError {
    damaged(
        ObjectType::Commit,
        id,
        "generation is not one more than the greatest parent's",
    )
}

fn damaged(ty: ObjectType, id: &ObjectId, why: &str) -> ObjectError {
    ObjectError::Damaged {
        id: *id,
        ty,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests;

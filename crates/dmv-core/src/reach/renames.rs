//! Content that a commit has at other paths than a hidden commit: a peer with the hidden one has it, too.
//!
//! The walk compares nodes at the same path. So a renamed directory would count as new, with all files in
//! it. Here the tree of a tip is compared with that of a hidden commit, as far as they differ: which
//! entries have gone, and which were added. This serves only to skip, so it may give up at any moment.

use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::tree::{Kind, Node, TreeEntry};
use crate::object::{ObjectRead, ObjectType};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many tips are compared with how many hidden commits.
const MAX_COMMITS: usize = 2;
/// The most nodes that are read for one comparison.
const MAX_READ: usize = 1 << 13;
/// The most entries that are remembered.
const MAX_ENTRIES: usize = 1 << 17;
/// The most former lists that a file is compared with which has none at its path.
const MAX_FORMER: usize = 4;

/// Entries that hidden commits have at other paths.
#[derive(Default)]
pub struct MovedContent {
    ids: HashSet<ObjectId>,
    /// The lists of files, by name.
    lists: HashMap<Vec<u8>, Vec<ObjectId>>,
    /// Some of them, if there are few.
    few: Vec<ObjectId>,
}

impl MovedContent {
    /// Compares the first tips with the newest hidden commits, which are most like them. What cannot be read
    /// does not count.
    pub fn between<'c>(
        objects: &dyn ObjectRead,
        tips: impl Iterator<Item = ObjectId>,
        hidden: impl Iterator<Item = &'c Commit>,
    ) -> MovedContent {
        let mut hidden: Vec<&Commit> = hidden.collect();
        hidden.sort_unstable_by_key(|commit| (Reverse(commit.generation), commit.tree));
        hidden.truncate(MAX_COMMITS);
        let mut moved = MovedContent::default();
        if hidden.is_empty() {
            return moved;
        }
        for tip in tips.take(MAX_COMMITS) {
            let bytes = objects.read(ObjectType::Commit, &tip).ok().flatten();
            if let Some(Ok(tip)) = bytes.map(|bytes| Commit::decode(&bytes)) {
                hidden
                    .iter()
                    .for_each(|old| moved.add(objects, tip.tree, old.tree));
            }
        }
        moved
    }

    /// Adds what the tree `old` has at paths that `new` does not have, if anything was added.
    fn add(&mut self, objects: &dyn ObjectRead, new: ObjectId, old: ObjectId) {
        let mut comparison = Comparison {
            objects,
            left: MAX_READ,
            gone: Vec::new(),
            added: false,
        };
        let mut pairs = vec![(new, old)];
        while let Some((new, old)) = pairs.pop() {
            if comparison.compare(new, old, &mut pairs).is_none() {
                break;
            }
        }
        if !comparison.added {
            return;
        }
        let mut gone = std::mem::take(&mut comparison.gone);
        while let Some(entry) = gone.pop() {
            if self.ids.len() >= MAX_ENTRIES || !self.ids.insert(entry.id) {
                continue;
            }
            match entry.kind {
                Kind::Directory => gone.extend(comparison.all_entries(entry.id)),
                _ if entry.is_list => self.add_list(entry),
                _ => {}
            }
        }
    }

    fn add_list(&mut self, entry: TreeEntry) {
        if self.few.len() <= MAX_FORMER {
            self.few.push(entry.id);
        }
        let name = entry.name.as_bytes().to_vec();
        let named = self.lists.entry(name).or_default();
        if named.len() < MAX_FORMER {
            named.push(entry.id);
        }
    }

    /// Returns whether a hidden commit has an entry with this content.
    pub fn has(&self, id: &ObjectId) -> bool {
        self.ids.contains(id)
    }

    /// Returns the lists that a file of this name may have come from.
    pub fn former(&self, name: &[u8]) -> &[ObjectId] {
        match self.lists.get(name) {
            Some(named) => named,
            None if self.few.len() <= MAX_FORMER => &self.few,
            None => &[],
        }
    }
}

struct Comparison<'o> {
    objects: &'o dyn ObjectRead,
    /// How many nodes may still be read.
    left: usize,
    gone: Vec<TreeEntry>,
    added: bool,
}

impl Comparison<'_> {
    /// Compares two directories. Adds those below them that have changed to `pairs`. `None`: it has given up.
    fn compare(
        &mut self,
        new: ObjectId,
        old: ObjectId,
        pairs: &mut Vec<(ObjectId, ObjectId)>,
    ) -> Option<()> {
        let (new, old) = self.different(new, old)?;
        for (name, entry) in &new {
            self.added |= old.get(name).is_none_or(|former| !is_same(former, entry));
        }
        for (name, entry) in old {
            match new.get(&name) {
                Some(now) if now.id == entry.id => {}
                Some(now) if is_same(now, &entry) => pairs.push((now.id, entry.id)),
                _ => self.gone.push(entry),
            }
        }
        (self.gone.len() < MAX_ENTRIES).then_some(())
    }

    /// Returns the entries of two directories, without those of nodes that both have.
    fn different(&mut self, new: ObjectId, old: ObjectId) -> Option<(Entries, Entries)> {
        let mut sides = [(vec![new], Entries::new()), (vec![old], Entries::new())];
        loop {
            let mut nodes = Vec::new();
            let others = [ids_of(&sides[1].0), ids_of(&sides[0].0)];
            for ((ids, _), other) in sides.iter_mut().zip(&others) {
                ids.retain(|id| !other.contains(id));
                let read: Option<Vec<(ObjectId, Node)>> = std::mem::take(ids)
                    .into_iter()
                    .map(|id| Some((id, self.read(&id)?)))
                    .collect();
                nodes.push(read?);
            }
            let level = nodes.iter().flatten().map(|(_, node)| node.level()).max();
            if level.is_none() {
                let [(_, new), (_, old)] = sides;
                return Some((new, old));
            }
            for ((ids, entries), nodes) in sides.iter_mut().zip(nodes) {
                for (id, node) in nodes {
                    match node {
                        // The other directory has more levels.
                        node if Some(node.level()) != level => ids.push(id),
                        Node::Inner { children, .. } => ids.extend(children.iter().map(|c| c.id)),
                        Node::Leaf(leaf) => entries.extend(by_name(leaf)),
                    }
                }
            }
        }
    }

    /// Returns all entries of a directory, as far as they may be read.
    fn all_entries(&mut self, id: ObjectId) -> Vec<TreeEntry> {
        let (mut open, mut all) = (vec![id], Vec::new());
        while let Some(node) = open.pop().and_then(|id| self.read(&id)) {
            match node {
                Node::Inner { children, .. } => open.extend(children.iter().map(|c| c.id)),
                Node::Leaf(entries) => all.extend(entries),
            }
        }
        all
    }

    fn read(&mut self, id: &ObjectId) -> Option<Node> {
        self.left = self.left.checked_sub(1)?;
        let bytes = self.objects.read(ObjectType::Tree, id).ok()??;
        Node::decode(&bytes).ok()
    }
}

type Entries = BTreeMap<Vec<u8>, TreeEntry>;

fn ids_of(ids: &[ObjectId]) -> HashSet<ObjectId> {
    ids.iter().copied().collect()
}

fn by_name(entries: Vec<TreeEntry>) -> impl Iterator<Item = (Vec<u8>, TreeEntry)> {
    let named = |entry: TreeEntry| (entry.name.as_bytes().to_vec(), entry);
    entries.into_iter().map(named)
}

/// Whether two entries of a name are equal, or are both directories.
fn is_same(a: &TreeEntry, b: &TreeEntry) -> bool {
    a.id == b.id || a.kind == Kind::Directory && b.kind == Kind::Directory
}

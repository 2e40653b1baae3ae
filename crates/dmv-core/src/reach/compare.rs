//! The former nodes at the place of a node: the walk skips what they share with it.

use crate::hash::ObjectId;
use crate::object::list::ListNode;
use crate::object::tree::{Child, Node, TreeEntry};
use crate::object::{ObjectRead, ObjectType};
use std::collections::{HashMap, HashSet};

/// Most former nodes that one node is compared with. More would only cost time.
const MAX_OLD: usize = 4;
/// Most former nodes that are read to reach the level of a smaller successor.
const MAX_READ: usize = 64;

/// Former tree nodes of a level, or of lower levels if the directory has grown.
#[derive(Default)]
pub struct OldTrees {
    entries: HashMap<Vec<u8>, Vec<TreeEntry>>,
    /// Children of the former nodes, by their last name.
    children: Vec<Child>,
    ids: HashSet<ObjectId>,
    /// Former nodes of lower levels.
    lower: Vec<ObjectId>,
}

impl OldTrees {
    /// Reads the nodes `old`, if they are stored here, for comparison with a node of `level`.
    pub fn read(objects: &dyn ObjectRead, old: &[ObjectId], level: u8) -> OldTrees {
        let mut out = OldTrees::default();
        let mut todo = old.to_vec();
        for _ in 0..MAX_READ {
            let Some(id) = todo.pop() else {
                break;
            };
            let Ok(Some(bytes)) = objects.read(ObjectType::Tree, &id) else {
                continue;
            };
            match Node::decode(&bytes) {
                Ok(node) if node.level() > level => {
                    if let Node::Inner { children, .. } = node {
                        todo.extend(children.iter().rev().map(|c| c.id));
                    }
                }
                Ok(node) if node.level() < level => out.lower.push(id),
                Ok(Node::Leaf(entries)) => {
                    for entry in entries {
                        let name = entry.name.as_bytes().to_vec();
                        out.entries.entry(name).or_default().push(entry);
                    }
                }
                Ok(Node::Inner { children, .. }) => {
                    out.ids.extend(children.iter().map(|c| c.id));
                    out.children.extend(children);
                }
                Err(_) => {}
            }
        }
        out.children.sort_by(|a, b| a.last.cmp(&b.last));
        out
    }

    /// Returns whether a former node had this child.
    pub fn has_child(&self, id: &ObjectId) -> bool {
        self.ids.contains(id)
    }

    /// Returns the former entries of a name.
    pub fn entries(&self, name: &[u8]) -> Vec<&TreeEntry> {
        self.entries
            .get(name)
            .map(|e| e.iter().collect())
            .unwrap_or_default()
    }

    /// Returns the former nodes that may contain names after `after`, up to and including `last`.
    pub fn overlapping(&self, after: Option<&[u8]>, last: &[u8]) -> Vec<ObjectId> {
        let behind = |c: &Child| after.is_none_or(|after| c.last.as_bytes() > after);
        let from = self.children.partition_point(|c| !behind(c));
        let mut out = Vec::new();
        for child in self.children[from..].iter().take(MAX_OLD) {
            out.push(child.id);
            if child.last.as_bytes() >= last {
                break;
            }
        }
        out.extend(self.lower.iter().take(MAX_OLD));
        out
    }
}

/// Former list nodes of a level, or of lower levels if the file has grown.
#[derive(Default)]
pub struct OldLists {
    children: Vec<ObjectId>,
    ids: HashSet<ObjectId>,
    lower: Vec<ObjectId>,
}

impl OldLists {
    /// Reads the nodes `old`, if they are stored here, for comparison with a node of `level`.
    pub fn read(objects: &dyn ObjectRead, old: &[ObjectId], level: u8) -> OldLists {
        let mut out = OldLists::default();
        let mut todo = old.to_vec();
        for _ in 0..MAX_READ {
            let Some(id) = todo.pop() else {
                break;
            };
            let Ok(Some(bytes)) = objects.read(ObjectType::List, &id) else {
                continue;
            };
            let Ok(node) = ListNode::decode(&bytes) else {
                continue;
            };
            let children = node.entries.iter().map(|e| e.id);
            match node.level.cmp(&level) {
                std::cmp::Ordering::Greater => todo.extend(children.rev()),
                std::cmp::Ordering::Less => out.lower.push(id),
                std::cmp::Ordering::Equal => out.children.extend(children),
            }
        }
        out.ids = out.children.iter().copied().collect();
        out
    }

    /// Returns whether a former node had this child.
    pub fn has_child(&self, id: &ObjectId) -> bool {
        self.ids.contains(id)
    }

    /// Returns the former nodes that are not children of `node`: the possible origins of its new
    /// children.
    pub fn not_in(&self, node: &ListNode) -> Vec<ObjectId> {
        let now: HashSet<ObjectId> = node.entries.iter().map(|e| e.id).collect();
        let gone = self.children.iter().filter(|id| !now.contains(id));
        gone.chain(&self.lower).take(MAX_OLD).copied().collect()
    }
}

//! One decoded node: its entries or children, its encoding, and the comparison with its parent.

use super::parts::{Child, FLAG_ATTRS, FLAG_LIST, NodePlace, Outline, Totals};
use super::raw::RawNode;
use super::{Kind, TreeEntry, empty_tree_id};
use crate::hash::ObjectId;
use crate::object::boundary::{ends_after, tree_boundary_hash};
use crate::object::codec::{DecodeError, EncodeError, put_bytes, put_header, put_varint};
use crate::object::name::SafeName;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::sync::Arc;

/// A decoded node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Level 0: entries, with strictly rising names.
    Leaf(Vec<TreeEntry>),
    /// Level 1 or more: nodes of the level below, with strictly rising names.
    Inner {
        /// The level of this node.
        level: u8,
        /// The nodes below it, at least one.
        children: Vec<Child>,
    },
}

impl Node {
    /// Returns the level: 0 for entries.
    pub fn level(&self) -> u8 {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner { level, .. } => *level,
        }
    }

    /// Returns the number of entries or children.
    pub fn count(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner { children, .. } => children.len(),
        }
    }

    /// Returns the totals of everything below the node; `None` if a sum overflows, which no decoded
    /// node does.
    pub fn totals(&self) -> Option<Totals> {
        let mut sum = Totals::default();
        match self {
            Node::Leaf(entries) => {
                for entry in entries {
                    sum = sum.plus(Totals::of_entry(entry))?;
                }
            }
            Node::Inner { children, .. } => {
                for child in children {
                    sum = sum.plus(child.totals)?;
                }
            }
        }
        Some(sum)
    }

    /// Returns the encoding. Fails for a node that [`decode`](Self::decode) would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut body = Vec::new();
        match self {
            Node::Leaf(entries) => {
                for entry in entries {
                    entry.check()?;
                    put_entry(&mut body, entry);
                }
            }
            Node::Inner { children, .. } => {
                children
                    .iter()
                    .for_each(|child| put_child(&mut body, child));
            }
        }
        let out = frame(self.level(), self.count(), &body);
        match Node::decode(&out) {
            Ok(_) => Ok(out),
            Err(e) => Err(EncodeError { what: e.what }),
        }
    }

    /// Decodes one node, root or not.
    pub fn decode(bytes: &[u8]) -> Result<Node, DecodeError> {
        let mut raw = RawNode::open(bytes)?;
        if raw.level() == 0 {
            let mut entries = Vec::with_capacity(raw.left());
            while let Some(entry) = raw.entry()? {
                entries.push(entry.to_entry());
            }
            Ok(Node::Leaf(entries))
        } else {
            let mut children = Vec::with_capacity(raw.left());
            while let Some(child) = raw.child()? {
                children.push(child.to_child());
            }
            let level = raw.level();
            Ok(Node::Inner { level, children })
        }
    }

    /// Returns whether the node ends where the boundary rule says. `last_of_level`: it is the last
    /// node of its level.
    ///
    /// This costs a hash per entry, so only the check of objects from peers calls it.
    pub(crate) fn ends_where_it_should(&self, last_of_level: bool) -> bool {
        let (level, count) = (self.level(), self.count());
        (0..count).all(|i| {
            let name = match self {
                Node::Leaf(entries) => &entries[i].name,
                Node::Inner { children, .. } => &children[i].last,
            };
            let ends = ends_after(i + 1, || tree_boundary_hash(level, name.as_bytes()));
            ends == (i + 1 == count) || (i + 1 == count && last_of_level)
        })
    }

    /// Returns the first and last name; `None` for the empty directory.
    pub(super) fn name_range(&self) -> Option<(&SafeName, &SafeName)> {
        match self {
            Node::Leaf(entries) => Some((&entries.first()?.name, &entries.last()?.name)),
            Node::Inner { children, .. } => Some((&children.first()?.last, &children.last()?.last)),
        }
    }

    /// Reads the root node of a directory.
    pub fn read_root(reader: &dyn ObjectRead, id: &ObjectId) -> Result<Node, ObjectError> {
        Node::read(reader, &NodePlace::Root(id))
    }

    /// Reads a node, and compares it with what the one above records.
    pub(super) fn read(
        reader: &dyn ObjectRead,
        place: &NodePlace<'_>,
    ) -> Result<Node, ObjectError> {
        Node::of_bytes(&read_bytes(reader, place.id())?, place)
    }

    /// Decodes a node, and compares it with what the one above records.
    pub(super) fn of_bytes(bytes: &[u8], place: &NodePlace<'_>) -> Result<Node, ObjectError> {
        let node = Node::decode(bytes)
            .map_err(|e| ObjectError::undecodable(ObjectType::Tree, place.id(), e))?;
        place.check(&node.outline())?;
        Ok(node)
    }

    fn outline(&self) -> Outline<'_> {
        let range = self.name_range();
        Outline {
            level: self.level(),
            count: self.count(),
            totals: self.totals(),
            range: range.map(|(first, last)| (first.as_bytes(), last.as_bytes())),
        }
    }
}

/// Returns the bytes of a node. Those of the empty directory are known even if a partial repository
/// does not store them.
pub(super) fn read_bytes(reader: &dyn ObjectRead, id: &ObjectId) -> Result<Arc<[u8]>, ObjectError> {
    let ty = ObjectType::Tree;
    match reader.read(ty, id)? {
        Some(bytes) => Ok(bytes),
        None if *id == empty_tree_id() => Ok(frame(0, 0, &[]).into()),
        None => Err(ObjectError::Missing { id: *id, ty }),
    }
}

/// Puts the header of a node before its encoded entries.
pub(super) fn frame(level: u8, count: usize, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 8);
    put_header(&mut out, ObjectType::Tree);
    out.push(level);
    put_varint(&mut out, count as u64);
    out.extend_from_slice(body);
    out
}

pub(super) fn put_entry(out: &mut Vec<u8>, entry: &TreeEntry) {
    put_bytes(out, entry.name.as_bytes());
    let attrs = if entry.attrs.is_some() { FLAG_ATTRS } else { 0 };
    let list = if entry.is_list { FLAG_LIST } else { 0 };
    out.extend_from_slice(&[entry.kind as u8, attrs | list]);
    out.extend_from_slice(entry.id.as_bytes());
    put_varint(out, entry.size);
    if entry.kind == Kind::Directory {
        put_varint(out, entry.files);
    }
    if let Some(attrs) = &entry.attrs {
        put_bytes(out, attrs);
    }
}

pub(super) fn put_child(out: &mut Vec<u8>, child: &Child) {
    put_bytes(out, child.last.as_bytes());
    out.extend_from_slice(child.id.as_bytes());
    put_varint(out, child.totals.entries);
    put_varint(out, child.totals.bytes);
    put_varint(out, child.totals.files);
}

//! Reading a directory: all entries in order, or one name.

use super::apart::read_apart;
use super::node::{Node, read_bytes};
use super::parts::{Child, NodePlace};
use super::raw::RawNode;
use super::{Kind, TreeEntry};
use crate::hash::ObjectId;
use crate::object::codec::DecodeError;
use crate::object::name::{NameRef, RepoPath, SafeName};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::vec;

/// A position in a directory, with the nodes that lead to it.
///
/// The next item is an entry, or a node that has not been read yet and can be skipped. Each node is
/// compared with what its parent records about it when it is read.
pub(crate) struct Cursor<'r> {
    reader: &'r dyn ObjectRead,
    stack: Vec<Frame>,
}

struct Frame {
    level: u8,
    rest: Rest,
    /// The last name before the remaining part, if this node or one above it knows it.
    after: Option<SafeName>,
}

enum Rest {
    Leaf(vec::IntoIter<TreeEntry>),
    Inner(vec::IntoIter<Child>),
}

/// A node that has not been read.
struct NextNode {
    /// The level of the node that names it.
    level: u8,
    child: Child,
    /// The last name before it, if known.
    after: Option<SafeName>,
}

impl NextNode {
    fn place(&self) -> NodePlace<'_> {
        NodePlace::Below {
            level: self.level,
            child: &self.child,
            after: self.after.as_ref(),
        }
    }
}

/// The next item at a [`Cursor`].
pub(crate) enum Peek<'a> {
    /// Nothing: the end of the directory.
    End,
    /// A node of this level that has not been read.
    Node(u8, &'a Child),
    /// An entry.
    Entry(&'a TreeEntry),
}

impl<'r> Cursor<'r> {
    /// Returns a cursor at the start of the directory `id`.
    pub(crate) fn open(
        reader: &'r dyn ObjectRead,
        id: &ObjectId,
    ) -> Result<Cursor<'r>, ObjectError> {
        let root = Node::read_root(reader, id)?;
        Ok(Cursor {
            reader,
            stack: vec![Frame::new(root, None)],
        })
    }

    /// Returns cursors at the start of two directories that are compared, the old one first.
    ///
    /// Entries that both have alike may be left out.
    pub(crate) fn open_both(
        reader: &'r dyn ObjectRead,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<[Cursor<'r>; 2], ObjectError> {
        let roots = read_apart(reader, &NodePlace::Root(old), &NodePlace::Root(new))?;
        Ok(roots.map(|root| Cursor {
            reader,
            stack: vec![Frame::new(root, None)],
        }))
    }

    /// Returns a cursor at the end of an empty listing.
    pub(crate) fn nowhere(reader: &'r dyn ObjectRead) -> Cursor<'r> {
        Cursor {
            reader,
            stack: Vec::new(),
        }
    }

    /// Returns the next item.
    pub(crate) fn peek(&mut self) -> Peek<'_> {
        while self.stack.last().is_some_and(Frame::is_over) {
            self.stack.pop();
        }
        match self.stack.last() {
            None => Peek::End,
            Some(Frame { level, rest, .. }) => match rest {
                Rest::Leaf(entries) => Peek::Entry(&entries.as_slice()[0]),
                Rest::Inner(children) => Peek::Node(level - 1, &children.as_slice()[0]),
            },
        }
    }

    /// Returns the next entry and moves past it; `None` at a node or at the end.
    pub(crate) fn take_entry(&mut self) -> Option<TreeEntry> {
        match &mut self.stack.last_mut()?.rest {
            Rest::Leaf(entries) => entries.next(),
            Rest::Inner(_) => None,
        }
    }

    /// Returns whether further nodes of its level follow the next node.
    pub(crate) fn has_more_behind_node(&self) -> bool {
        match self.stack.split_last() {
            None => false,
            Some((top, above)) => {
                let is_alone = matches!(&top.rest, Rest::Inner(rest) if rest.len() == 1);
                !is_alone || above.iter().any(|frame| !frame.is_over())
            }
        }
    }

    /// Skips the next node without reading it.
    pub(crate) fn skip_node(&mut self) {
        self.take_node();
    }

    /// Reads the next node. Its content becomes the next items.
    pub(crate) fn expand(&mut self) -> Result<(), ObjectError> {
        if let Some(next) = self.take_node() {
            let node = Node::read(self.reader, &next.place())?;
            self.stack.push(Frame::new(node, next.after));
        }
        Ok(())
    }

    /// Reads the next nodes of two directories that are compared. Entries that both have alike may be left out.
    pub(crate) fn expand_both(old: &mut Self, new: &mut Self) -> Result<(), ObjectError> {
        if let (Some(a), Some(b)) = (old.take_node(), new.take_node()) {
            let [a_node, b_node] = read_apart(old.reader, &a.place(), &b.place())?;
            old.stack.push(Frame::new(a_node, a.after));
            new.stack.push(Frame::new(b_node, b.after));
        }
        Ok(())
    }

    /// Returns the next node and moves past it; `None` at an entry or at the end.
    fn take_node(&mut self) -> Option<NextNode> {
        let frame = self.stack.last_mut()?;
        let Rest::Inner(children) = &mut frame.rest else {
            return None;
        };
        let child = children.next()?;
        let after = frame.after.replace(child.last.clone());
        Some(NextNode {
            level: frame.level,
            child,
            after,
        })
    }

    /// Returns whether the node `id` of `level` is known to follow, though not necessarily next.
    pub(crate) fn is_ahead(&self, level: u8, id: &ObjectId) -> bool {
        self.stack.iter().any(|frame| match &frame.rest {
            Rest::Inner(children) => {
                frame.level == level + 1 && children.as_slice().iter().any(|c| c.id == *id)
            }
            Rest::Leaf(_) => false,
        })
    }

    /// Moves forward to the first entry that is not before `name`.
    fn seek(&mut self, name: &[u8]) -> Result<(), ObjectError> {
        loop {
            match self.peek() {
                Peek::Node(_, child) if child.last.as_bytes() < name => self.skip_node(),
                Peek::Node(..) => self.expand()?,
                Peek::Entry(entry) if entry.name.as_bytes() < name => {
                    self.take_entry();
                }
                Peek::Entry(_) | Peek::End => return Ok(()),
            }
        }
    }
}

impl Frame {
    fn new(node: Node, after: Option<SafeName>) -> Frame {
        let level = node.level();
        let rest = match node {
            Node::Leaf(entries) => Rest::Leaf(entries.into_iter()),
            Node::Inner { children, .. } => Rest::Inner(children.into_iter()),
        };
        Frame { level, rest, after }
    }

    fn is_over(&self) -> bool {
        match &self.rest {
            Rest::Leaf(entries) => entries.as_slice().is_empty(),
            Rest::Inner(children) => children.as_slice().is_empty(),
        }
    }
}

/// The entries of a directory in name order, with one node per level in memory.
///
/// Ends after the first error.
pub struct TreeIter<'r> {
    reader: &'r dyn ObjectRead,
    state: State<'r>,
}

enum State<'r> {
    /// Nothing has been read yet: the directory, and the name to begin at.
    New(ObjectId, Option<Box<[u8]>>),
    Open(Cursor<'r>),
    Over,
}

impl<'r> TreeIter<'r> {
    /// Returns all entries of the directory `id`. The first call of `next` reads the root.
    pub fn new(reader: &'r dyn ObjectRead, id: ObjectId) -> TreeIter<'r> {
        TreeIter {
            reader,
            state: State::New(id, None),
        }
    }

    /// Returns the entries of the directory `id` from the name `start` on, whether or not it
    /// exists.
    pub fn starting_at(reader: &'r dyn ObjectRead, id: ObjectId, start: &[u8]) -> TreeIter<'r> {
        TreeIter {
            reader,
            state: State::New(id, Some(start.into())),
        }
    }

    fn advance(&mut self) -> Result<Option<TreeEntry>, ObjectError> {
        if let State::New(id, start) = &self.state {
            let mut cursor = Cursor::open(self.reader, id)?;
            if let Some(start) = start {
                cursor.seek(start)?;
            }
            self.state = State::Open(cursor);
        }
        let State::Open(cursor) = &mut self.state else {
            return Ok(None);
        };
        loop {
            match cursor.peek() {
                Peek::End => return Ok(None),
                Peek::Node(..) => cursor.expand()?,
                Peek::Entry(_) => return Ok(cursor.take_entry()),
            }
        }
    }
}

impl Iterator for TreeIter<'_> {
    type Item = Result<TreeEntry, ObjectError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.state = State::Over;
        }
        item
    }
}

/// Returns the entry `name` of the directory `dir`. Reads one node per level.
pub fn lookup(
    reader: &dyn ObjectRead,
    dir: &ObjectId,
    name: &[u8],
) -> Result<Option<TreeEntry>, ObjectError> {
    let mut above: Option<NextNode> = None;
    loop {
        let place = match &above {
            None => NodePlace::Root(dir),
            Some(next) => next.place(),
        };
        let bytes = read_bytes(reader, place.id())?;
        let fail = |e| ObjectError::undecodable(ObjectType::Tree, place.id(), e);
        let mut node = RawNode::open(&bytes).map_err(fail)?;
        let found = find(&mut node, name).map_err(fail)?;
        place.check(&node.outline())?;
        match found {
            Lookup::Entry(entry) => return Ok(entry),
            Lookup::Below(None) => return Ok(None),
            // Names before this complete node are also before its first child.
            Lookup::Below(Some(mut below)) => {
                let before = above.and_then(|above| above.after);
                below.after = below.after.or(before);
                above = Some(below);
            }
        }
    }
}

/// Where a node leads for a name.
enum Lookup {
    Entry(Option<TreeEntry>),
    Below(Option<NextNode>),
}

/// Walks a node to its end, so that all of it is checked, and returns what leads to `name`.
fn find(node: &mut RawNode<'_>, name: &[u8]) -> Result<Lookup, DecodeError> {
    if node.level() == 0 {
        let mut found = None;
        while let Some(entry) = node.entry()? {
            if found.is_none() && entry.name.as_bytes() == name {
                found = Some(entry);
            }
        }
        return Ok(Lookup::Entry(found.map(|entry| entry.to_entry())));
    }
    let (mut found, mut after) = (None, None);
    while let Some(child) = node.child()? {
        if child.last.as_bytes() < name {
            after = Some(child.last);
        } else {
            found.get_or_insert(child);
        }
    }
    let level = node.level();
    Ok(Lookup::Below(found.map(|child| NextNode {
        level,
        child: child.to_child(),
        after: after.map(NameRef::to_name),
    })))
}

/// Returns the entry at `path` below the directory `root`.
///
/// Returns `None` if it does not exist, if a component on the way is not a directory, and for the
/// root path, which has no entry.
pub fn lookup_path(
    reader: &dyn ObjectRead,
    root: &ObjectId,
    path: &RepoPath,
) -> Result<Option<TreeEntry>, ObjectError> {
    let mut found: Option<TreeEntry> = None;
    for name in path.components() {
        let dir = match &found {
            None => *root,
            Some(entry) if entry.kind == Kind::Directory => entry.id,
            Some(_) => return Ok(None),
        };
        found = lookup(reader, &dir, name)?;
        if found.is_none() {
            return Ok(None);
        }
    }
    Ok(found)
}

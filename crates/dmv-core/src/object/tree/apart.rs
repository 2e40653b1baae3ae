//! Reads two nodes to compare them. What both have alike is not copied, because copies would take most of the time
//! in large directories.

use super::TreeEntry;
use super::node::{Node, read_bytes};
use super::parts::NodePlace;
use super::raw::{RawEntry, RawNode};
use crate::object::codec::DecodeError;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::cmp::Ordering;

/// Reads two nodes, the old one first. If both are leaves, they come without the entries that are alike.
pub(super) fn read_apart(
    reader: &dyn ObjectRead,
    old: &NodePlace<'_>,
    new: &NodePlace<'_>,
) -> Result<[Node; 2], ObjectError> {
    let bytes = [read_bytes(reader, old.id())?, read_bytes(reader, new.id())?];
    let (mut old, mut new) = (Side::open(old, &bytes[0])?, Side::open(new, &bytes[1])?);
    if !(old.is_leaf() && new.is_leaf()) {
        return Ok([
            Node::of_bytes(&bytes[0], old.place)?,
            Node::of_bytes(&bytes[1], new.place)?,
        ]);
    }
    old.step()?;
    new.step()?;
    loop {
        let order = match (&old.next, &new.next) {
            (None, None) => return Ok([old.finish()?, new.finish()?]),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.name.cmp(&b.name),
        };
        match order {
            Ordering::Less => old.keep()?,
            Ordering::Greater => new.keep()?,
            Ordering::Equal if is_alike(&old.next, &new.next) => {
                old.step()?;
                new.step()?;
            }
            Ordering::Equal => {
                old.keep()?;
                new.keep()?;
            }
        }
    }
}

fn is_alike(old: &Option<RawEntry<'_>>, new: &Option<RawEntry<'_>>) -> bool {
    matches!((old, new), (Some(old), Some(new)) if old.same_content(new))
}

/// One of the two nodes.
struct Side<'a> {
    place: &'a NodePlace<'a>,
    node: RawNode<'a>,
    /// The entry that is looked at.
    next: Option<RawEntry<'a>>,
    /// The entries before it that the other node does not have like this.
    only: Vec<TreeEntry>,
}

impl<'a> Side<'a> {
    fn open(place: &'a NodePlace<'a>, bytes: &'a [u8]) -> Result<Side<'a>, ObjectError> {
        Ok(Side {
            place,
            node: RawNode::open(bytes).map_err(|e| undecodable(place, e))?,
            next: None,
            only: Vec::new(),
        })
    }

    fn is_leaf(&self) -> bool {
        self.node.level() == 0
    }

    fn step(&mut self) -> Result<(), ObjectError> {
        self.next = self.node.entry().map_err(|e| undecodable(self.place, e))?;
        Ok(())
    }

    fn keep(&mut self) -> Result<(), ObjectError> {
        self.only.extend(self.next.as_ref().map(RawEntry::to_entry));
        self.step()
    }

    /// Returns the leaf. Only at the end of the node, all of which has been checked by then.
    fn finish(self) -> Result<Node, ObjectError> {
        self.place.check(&self.node.outline())?;
        Ok(Node::Leaf(self.only))
    }
}

fn undecodable(place: &NodePlace<'_>, why: DecodeError) -> ObjectError {
    ObjectError::undecodable(ObjectType::Tree, place.id(), why)
}

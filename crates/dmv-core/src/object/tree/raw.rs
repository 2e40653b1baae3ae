//! The only decoder of tree nodes: it walks a node's bytes in place.
//!
//! It checks on the way everything that the format demands of one node, so a walk that reaches the
//! end has seen a valid node. It copies nothing. Copying would take most of the time when one name
//! is looked up in many directories, as for the history of a path.

use super::attrs::check_attrs;
use super::parts::{Child, FLAG_ATTRS, FLAG_LIST, Outline, Totals};
use super::{Kind, TreeEntry, check_value};
use crate::hash::ObjectId;
use crate::limits::{MAX_ATTR_BYTES, MAX_DIR_ENTRIES, MAX_NAME_BYTES, MAX_NODE_LEVEL, NODE_MAX};
use crate::object::ObjectType;
use crate::object::codec::{DecodeError, Decoder};
use crate::object::name::NameRef;

/// A node during a walk.
pub(super) struct RawNode<'a> {
    input: Decoder<'a>,
    level: u8,
    count: usize,
    left: usize,
    totals: Totals,
    first: Option<NameRef<'a>>,
    last: Option<NameRef<'a>>,
}

/// An entry, borrowed from a node's bytes.
pub(super) struct RawEntry<'a> {
    pub name: NameRef<'a>,
    kind: Kind,
    is_list: bool,
    id: ObjectId,
    size: u64,
    files: u64,
    attrs: Option<&'a [u8]>,
}

/// A child, as the bytes of its parent record it.
pub(super) struct RawChild<'a> {
    pub last: NameRef<'a>,
    id: ObjectId,
    totals: Totals,
}

/// Calls `visit` with the name, type and id of each entry or child of a node.
pub fn each_link(
    bytes: &[u8],
    visit: &mut dyn FnMut(&[u8], ObjectType, ObjectId),
) -> Result<(), DecodeError> {
    let mut node = RawNode::open(bytes)?;
    match node.level() {
        0 => {
            while let Some(entry) = node.entry()? {
                let ty = entry.kind.linked(entry.is_list);
                visit(entry.name.as_bytes(), ty, entry.id);
            }
        }
        _ => {
            while let Some(child) = node.child()? {
                visit(child.last.as_bytes(), ObjectType::Tree, child.id);
            }
        }
    }
    Ok(())
}

impl<'a> RawNode<'a> {
    /// Opens a node, at its first entry or child.
    pub fn open(bytes: &'a [u8]) -> Result<RawNode<'a>, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.header(ObjectType::Tree)?;
        let level = input.u8()?;
        if level > MAX_NODE_LEVEL {
            return Err(input.error("node level is too high"));
        }
        let count = input.varint_up_to(NODE_MAX as u64, "node has too many entries")? as usize;
        if level > 0 && count == 0 {
            return Err(input.error("inner node is empty"));
        }
        Ok(RawNode {
            input,
            level,
            count,
            left: count,
            totals: Totals::default(),
            first: None,
            last: None,
        })
    }

    /// Returns the level: 0 for entries.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns how many entries or children are still to come.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the values that the parent also records. Only valid after the walk.
    pub fn outline(&self) -> Outline<'a> {
        let range = self.first.zip(self.last);
        Outline {
            level: self.level,
            count: self.count,
            totals: Some(self.totals),
            range: range.map(|(first, last)| (first.as_bytes(), last.as_bytes())),
        }
    }

    /// Returns the next entry of a node of level 0; `None` at the end of a valid node.
    pub fn entry(&mut self) -> Result<Option<RawEntry<'a>>, DecodeError> {
        if self.is_over()? {
            return Ok(None);
        }
        let name = self.name()?;
        let input = &mut self.input;
        let kind = Kind::from_number(input.u8()?).ok_or_else(|| input.error("unknown kind"))?;
        let flags = input.u8()?;
        if flags & !(FLAG_ATTRS | FLAG_LIST) != 0 {
            return Err(input.error("unknown flag"));
        }
        let is_list = flags & FLAG_LIST != 0;
        let id = input.id()?;
        let size = input.varint()?;
        let is_directory = kind == Kind::Directory;
        let files = if is_directory { input.varint()? } else { 0 };
        check_value(kind, is_list, size, files).map_err(|what| input.error(what))?;
        let attrs = if flags & FLAG_ATTRS != 0 {
            let attrs = input.bytes(MAX_ATTR_BYTES, "attributes are too long")?;
            check_attrs(attrs).map_err(|e| input.error(e.what))?;
            Some(attrs)
        } else {
            None
        };
        self.add(Totals {
            entries: 1,
            bytes: size,
            files: if is_directory { files } else { 1 },
        })?;
        Ok(Some(RawEntry {
            name,
            kind,
            is_list,
            id,
            size,
            files,
            attrs,
        }))
    }

    /// Returns the next child of a node of level 1 or more; `None` at the end of a valid node.
    pub fn child(&mut self) -> Result<Option<RawChild<'a>>, DecodeError> {
        if self.is_over()? {
            return Ok(None);
        }
        let last = self.name()?;
        let input = &mut self.input;
        let id = input.id()?;
        let totals = Totals {
            entries: input.varint_up_to(MAX_DIR_ENTRIES, "directory has too many names")?,
            bytes: input.varint()?,
            files: input.varint()?,
        };
        if totals.entries == 0 {
            return Err(input.error("child node is empty"));
        }
        self.add(totals)?;
        Ok(Some(RawChild { last, id, totals }))
    }

    fn is_over(&mut self) -> Result<bool, DecodeError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(false)
            }
            None => self.input.finish().map(|()| true),
        }
    }

    fn name(&mut self) -> Result<NameRef<'a>, DecodeError> {
        let bytes = self.input.bytes(MAX_NAME_BYTES, "name is too long")?;
        if self.last.is_some_and(|before| before.as_bytes() >= bytes) {
            return Err(self.input.error("names do not rise"));
        }
        let name = NameRef::new(bytes).map_err(|e| self.input.error(e.why()))?;
        self.first.get_or_insert(name);
        self.last = Some(name);
        Ok(name)
    }

    fn add(&mut self, more: Totals) -> Result<(), DecodeError> {
        let sum = self.totals.plus(more);
        self.totals = sum.ok_or_else(|| self.input.error("totals are out of range"))?;
        Ok(())
    }
}

impl RawEntry<'_> {
    /// Returns whether both entries have the same content and attributes, whatever their names.
    pub fn same_content(&self, other: &RawEntry<'_>) -> bool {
        (self.kind, self.id, self.is_list) == (other.kind, other.id, other.is_list)
            && self.attrs == other.attrs
    }

    /// Returns an owned copy.
    pub fn to_entry(&self) -> TreeEntry {
        TreeEntry {
            name: self.name.to_name(),
            kind: self.kind,
            is_list: self.is_list,
            id: self.id,
            size: self.size,
            files: self.files,
            attrs: self.attrs.map(Into::into),
        }
    }
}

impl RawChild<'_> {
    /// Returns an owned copy.
    pub fn to_child(&self) -> Child {
        Child {
            last: self.last.to_name(),
            id: self.id,
            totals: self.totals,
        }
    }
}

//! One node: its bytes, and what its parent says about it.

use super::{Kind, TreeEntry, check_attrs, check_value};
use crate::hash::ObjectId;
use crate::limits::{MAX_ATTR_BYTES, MAX_DIR_ENTRIES, MAX_NAME_BYTES, MAX_NODE_LEVEL, NODE_MAX};
use crate::object::boundary::{ends_after, tree_boundary_hash};
use crate::object::codec::{DecodeError, Decoder, EncodeError, put_bytes, put_header, put_varint};
use crate::object::name::SafeName;
use crate::object::{ObjectError, ObjectRead, ObjectType};

const FLAG_ATTRS: u8 = 1;
/// Also the flag of a conflict's terms.
pub(in crate::object) const FLAG_LIST: u8 = 2;

/// What lies under a node or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Names, not counting those inside directories.
    pub entries: u64,
    /// Bytes of content, inside directories too.
    pub bytes: u64,
    /// Files, inside directories too.
    pub files: u64,
}

impl Totals {
    /// The sum, if it stays in range.
    pub(super) fn plus(self, other: Totals) -> Option<Totals> {
        Some(Totals {
            entries: self
                .entries
                .checked_add(other.entries)
                .filter(|n| *n <= MAX_DIR_ENTRIES)?,
            bytes: self.bytes.checked_add(other.bytes)?,
            files: self.files.checked_add(other.files)?,
        })
    }

    /// What one entry adds.
    pub(super) fn of_entry(entry: &TreeEntry) -> Totals {
        Totals {
            entries: 1,
            bytes: entry.size,
            files: entry.file_count(),
        }
    }
}

/// What a node says about a node below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The last name under it.
    pub last: SafeName,
    /// Its id.
    pub id: ObjectId,
    /// What lies under it.
    pub totals: Totals,
}

/// A decoded node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Level 0: entries, names strictly rising.
    Leaf(Vec<TreeEntry>),
    /// Level 1 or more: nodes of the level below, names strictly rising.
    Inner {
        /// The level of this node.
        level: u8,
        /// The nodes under it, at least one.
        children: Vec<Child>,
    },
}

impl Node {
    /// The level: 0 for entries.
    pub fn level(&self) -> u8 {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner { level, .. } => *level,
        }
    }

    /// How many entries or children it has.
    pub fn count(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner { children, .. } => children.len(),
        }
    }

    /// What lies under it; `None` when the sums leave their range, which no decoded node does.
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

    /// The encoding. Fails for a node that [`decode`](Self::decode) would refuse.
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
        let mut input = Decoder::new(bytes);
        input.header(ObjectType::Tree)?;
        let level = input.u8()?;
        if level > MAX_NODE_LEVEL {
            return Err(input.error("node level is too high"));
        }
        let count = input.varint_up_to(NODE_MAX as u64, "node has too many entries")? as usize;
        let mut sum = Totals::default();
        let mut add = |totals, input: &Decoder<'_>| match sum.plus(totals) {
            Some(total) => {
                sum = total;
                Ok(())
            }
            None => Err(input.error("totals are out of range")),
        };
        let node = if level == 0 {
            let mut entries: Vec<TreeEntry> = Vec::with_capacity(count);
            for _ in 0..count {
                let entry = take_entry(&mut input, entries.last().map(|e| &e.name))?;
                add(Totals::of_entry(&entry), &input)?;
                entries.push(entry);
            }
            Node::Leaf(entries)
        } else {
            if count == 0 {
                return Err(input.error("inner node is empty"));
            }
            let mut children: Vec<Child> = Vec::with_capacity(count);
            for _ in 0..count {
                let child = take_child(&mut input, children.last().map(|c| &c.last))?;
                add(child.totals, &input)?;
                children.push(child);
            }
            Node::Inner { level, children }
        };
        input.finish()?;
        Ok(node)
    }

    /// Whether the node ends where the boundary rule says, given whether it is the last of its
    /// level. Costs a hash per entry, so readers leave it to checks of what strangers send.
    pub fn ends_where_it_should(&self, last_of_level: bool) -> bool {
        let (level, count) = (self.level(), self.count());
        (0..count).all(|i| {
            let name = match self {
                Node::Leaf(entries) => &entries[i].name,
                Node::Inner { children, .. } => &children[i].last,
            };
            let ends = ends_after(i + 1, tree_boundary_hash(level, name.as_bytes()));
            ends == (i + 1 == count) || (i + 1 == count && last_of_level)
        })
    }

    /// The first and last name; `None` for the empty directory.
    pub(super) fn name_range(&self) -> Option<(&SafeName, &SafeName)> {
        match self {
            Node::Leaf(entries) => Some((&entries.first()?.name, &entries.last()?.name)),
            Node::Inner { children, .. } => Some((&children.first()?.last, &children.last()?.last)),
        }
    }

    /// Reads the root node of a directory.
    pub fn read_root(reader: &dyn ObjectRead, id: &ObjectId) -> Result<Node, ObjectError> {
        let node = read(reader, id)?;
        if node.level() > 0 && node.count() < 2 {
            return Err(damaged(id, "root node has a single child"));
        }
        Ok(node)
    }

    /// Reads the node `child` of a parent of `parent_level` and compares it with what the parent
    /// said. `after` is the last name before it.
    pub(super) fn read_child(
        reader: &dyn ObjectRead,
        parent_level: u8,
        child: &Child,
        after: Option<&SafeName>,
    ) -> Result<Node, ObjectError> {
        let node = read(reader, &child.id)?;
        let why = if Some(node.level()) != parent_level.checked_sub(1) {
            "level is not what the node above says"
        } else if node.totals() != Some(child.totals) {
            "totals are not what the node above says"
        } else if node.name_range().map(|(_, last)| last) != Some(&child.last) {
            "last name is not what the node above says"
        } else if node.name_range().map(|(first, _)| first) <= after {
            "names do not rise from the node before"
        } else {
            return Ok(node);
        };
        Err(damaged(&child.id, why))
    }
}

fn read(reader: &dyn ObjectRead, id: &ObjectId) -> Result<Node, ObjectError> {
    let bytes = reader.require(ObjectType::Tree, id)?;
    Node::decode(&bytes).map_err(|e| ObjectError::undecodable(ObjectType::Tree, id, e))
}

pub(super) fn damaged(id: &ObjectId, why: &str) -> ObjectError {
    ObjectError::Damaged {
        id: *id,
        ty: ObjectType::Tree,
        why: why.to_owned(),
    }
}

/// Puts the head of a node before its encoded entries.
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

fn take_name(input: &mut Decoder<'_>, before: Option<&SafeName>) -> Result<SafeName, DecodeError> {
    let bytes = input.bytes(MAX_NAME_BYTES, "name is too long")?;
    if before.is_some_and(|before| before.as_bytes() >= bytes) {
        return Err(input.error("names do not rise"));
    }
    SafeName::new(bytes).map_err(|e| input.error(e.why()))
}

fn take_entry(
    input: &mut Decoder<'_>,
    before: Option<&SafeName>,
) -> Result<TreeEntry, DecodeError> {
    let name = take_name(input, before)?;
    let kind = Kind::from_number(input.u8()?).ok_or_else(|| input.error("unknown kind"))?;
    let flags = input.u8()?;
    if flags & !(FLAG_ATTRS | FLAG_LIST) != 0 {
        return Err(input.error("unknown flag"));
    }
    let is_list = flags & FLAG_LIST != 0;
    let id = input.id()?;
    let size = input.varint()?;
    let files = if kind == Kind::Directory {
        input.varint()?
    } else {
        0
    };
    check_value(kind, is_list, size, files).map_err(|what| input.error(what))?;
    let attrs = if flags & FLAG_ATTRS != 0 {
        let attrs = input.bytes(MAX_ATTR_BYTES, "attributes are too long")?;
        check_attrs(attrs).map_err(|e| input.error(e.what))?;
        Some(attrs.into())
    } else {
        None
    };
    Ok(TreeEntry {
        name,
        kind,
        is_list,
        id,
        size,
        files,
        attrs,
    })
}

fn take_child(input: &mut Decoder<'_>, before: Option<&SafeName>) -> Result<Child, DecodeError> {
    let last = take_name(input, before)?;
    let id = input.id()?;
    let totals = Totals {
        entries: input.varint_up_to(MAX_DIR_ENTRIES, "directory has too many names")?,
        bytes: input.varint()?,
        files: input.varint()?,
    };
    if totals.entries == 0 {
        return Err(input.error("child node is empty"));
    }
    Ok(Child { last, id, totals })
}

//! Writing a directory, entry by entry in name order, with one unfinished node per level in memory.

use super::TreeEntry;
use super::node::{frame, put_child, put_entry};
use super::parts::{Child, Totals};
use crate::hash::ObjectId;
use crate::object::boundary::{ends_after, tree_boundary_hash};
use crate::object::codec::EncodeError;
use crate::object::name::SafeName;
use crate::object::{ObjectError, ObjectType, ObjectWrite};

/// A finished directory: the fields with which an entry or commit refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeSummary {
    /// The root node.
    pub id: ObjectId,
    /// Bytes of everything below it.
    pub bytes: u64,
    /// Number of files below it.
    pub files: u64,
    /// Number of names in it, without those in its subdirectories.
    pub entries: u64,
}

/// Returns the id of the empty directory.
pub fn empty_tree_id() -> ObjectId {
    ObjectType::Tree.id_of(&frame(0, 0, &[]))
}

/// Stores the empty directory and returns its id.
pub fn put_empty_tree(writer: &mut dyn ObjectWrite) -> Result<ObjectId, ObjectError> {
    writer.put(ObjectType::Tree, &frame(0, 0, &[]))
}

/// Builds one directory from entries in name order.
///
/// It holds one unfinished node per level; it has written all other nodes.
#[derive(Debug, Default)]
pub struct TreeBuilder {
    levels: Vec<Level>,
    last: Option<SafeName>,
    totals: Totals,
}

/// The unfinished node of one level.
#[derive(Debug, Default)]
struct Level {
    body: Vec<u8>,
    count: usize,
    totals: Totals,
    nodes_done: u64,
    /// The last finished node. If it stays the only one, it is the root.
    newest: Option<ObjectId>,
}

impl TreeBuilder {
    /// Returns a builder of a directory without entries.
    pub fn new() -> TreeBuilder {
        TreeBuilder::default()
    }

    /// Adds the next entry, whose name must be greater than all before it.
    ///
    /// After an error the caller must drop the builder.
    pub fn push(
        &mut self,
        entry: &TreeEntry,
        writer: &mut dyn ObjectWrite,
    ) -> Result<(), ObjectError> {
        entry.check()?;
        let totals = Totals::of_entry(entry);
        self.take(&entry.name, totals)?;
        self.add(0, &entry.name, totals, writer, |out| put_entry(out, entry))
    }

    /// Adds a node that another directory has, with everything below it, without reading it. Returns `false` and adds
    /// nothing if a node of this level or below is open here: then the same entries may make other nodes.
    ///
    /// The node must not be the last one of its level there, because that one ends with its directory. All other nodes
    /// end where their own names say.
    pub(crate) fn push_node(
        &mut self,
        level: u8,
        node: &Child,
        writer: &mut dyn ObjectWrite,
    ) -> Result<bool, ObjectError> {
        let level = usize::from(level);
        if self
            .levels
            .iter()
            .take(level + 1)
            .any(|open| open.count > 0)
        {
            return Ok(false);
        }
        self.take(&node.last, node.totals)?;
        while self.levels.len() <= level {
            self.levels.push(Level::default());
        }
        let (own, below) = self.levels[..=level]
            .split_last_mut()
            .expect("a level is there");
        own.nodes_done += 1;
        own.newest = Some(node.id);
        // Such a node has at least `NODE_MIN` nodes below it. That they are several is all that counts.
        below.iter_mut().for_each(|level| level.nodes_done += 2);
        self.add_child(level + 1, node, writer)?;
        Ok(true)
    }

    /// Notes what is added behind all names so far.
    fn take(&mut self, name: &SafeName, totals: Totals) -> Result<(), EncodeError> {
        if self.last.as_ref().is_some_and(|last| last >= name) {
            return Err(EncodeError {
                what: "tree entries are not in name order",
            });
        }
        self.totals = self.totals.plus(totals).ok_or(EncodeError {
            what: "directory has too many entries or bytes",
        })?;
        self.last = Some(name.clone());
        Ok(())
    }

    /// Writes the unfinished nodes and returns the directory.
    pub fn finish(mut self, writer: &mut dyn ObjectWrite) -> Result<TreeSummary, ObjectError> {
        let Some(last) = self.last.take() else {
            let id = put_empty_tree(writer)?;
            return Ok(self.summary(id));
        };
        let mut level = 0;
        loop {
            if self.levels[level].count > 0 {
                self.close(level, &last, writer)?;
            }
            let done = &self.levels[level];
            // The first level with a single node ends in the root. If that node was full, a level
            // above was begun; it is dropped.
            if let (1, Some(id)) = (done.nodes_done, done.newest) {
                return Ok(self.summary(id));
            }
            level += 1;
        }
    }

    fn summary(&self, id: ObjectId) -> TreeSummary {
        TreeSummary {
            id,
            bytes: self.totals.bytes,
            files: self.totals.files,
            entries: self.totals.entries,
        }
    }

    /// Adds one item to a level, and ends the node there if the boundary rule says so.
    fn add(
        &mut self,
        level: usize,
        name: &SafeName,
        totals: Totals,
        writer: &mut dyn ObjectWrite,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), ObjectError> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let open = &mut self.levels[level];
        put(&mut open.body);
        open.count += 1;
        open.totals = open.totals.plus(totals).ok_or(EncodeError {
            what: "directory has too many entries or bytes",
        })?;
        if ends_after(open.count, || {
            tree_boundary_hash(level as u8, name.as_bytes())
        }) {
            self.close(level, name, writer)?;
        }
        Ok(())
    }

    /// Writes the open node of a level and adds it to the level above.
    fn close(
        &mut self,
        level: usize,
        last: &SafeName,
        writer: &mut dyn ObjectWrite,
    ) -> Result<(), ObjectError> {
        let open = &mut self.levels[level];
        let id = writer.put(
            ObjectType::Tree,
            &frame(level as u8, open.count, &open.body),
        )?;
        let child = Child {
            last: last.clone(),
            id,
            totals: open.totals,
        };
        open.body.clear();
        open.count = 0;
        open.totals = Totals::default();
        open.nodes_done += 1;
        open.newest = Some(id);
        // The recursion is as deep as the tree has levels: at most five for `MAX_DIR_ENTRIES`.
        self.add_child(level + 1, &child, writer)
    }

    fn add_child(
        &mut self,
        level: usize,
        child: &Child,
        writer: &mut dyn ObjectWrite,
    ) -> Result<(), ObjectError> {
        self.add(level, &child.last, child.totals, writer, |out| {
            put_child(out, child);
        })
    }
}

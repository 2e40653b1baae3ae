//! Writing a tree with some of its entries replaced.

use super::walk::entry_of;
use crate::hash::ObjectId;
use crate::object::conflict::Term;
use crate::object::name::{RepoPath, SafeName};
use crate::object::tree::{Cursor, Kind, Peek, TreeBuilder, TreeEntry, TreeSummary};
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use std::collections::BTreeMap;

/// The new entry at each path, or `None` for no entry. The name inside an entry is ignored.
pub type Edits = BTreeMap<RepoPath, Option<TreeEntry>>;

/// The same for paths and contents that are kept elsewhere.
pub type EditsOf<'a> = BTreeMap<&'a RepoPath, Option<NewContent<'a>>>;

/// Edits in the order of their paths, wherever they are kept.
pub trait EditSource {
    /// Returns the edit of a path, if it has one.
    fn edit_of(&self, path: &RepoPath) -> Option<Option<NewContent<'_>>>;

    /// Returns the first path with an edit that is not before `from` and for which `is_wanted` holds.
    fn first_from(
        &self,
        from: &RepoPath,
        is_wanted: &dyn Fn(&RepoPath) -> bool,
    ) -> Option<&RepoPath>;
}

impl EditSource for EditsOf<'_> {
    fn edit_of(&self, path: &RepoPath) -> Option<Option<NewContent<'_>>> {
        self.get(path).copied()
    }

    fn first_from(
        &self,
        from: &RepoPath,
        is_wanted: &dyn Fn(&RepoPath) -> bool,
    ) -> Option<&RepoPath> {
        let mut paths = self.range::<RepoPath, _>(from..).map(|(path, _)| *path);
        paths.find(|path| is_wanted(path))
    }
}

/// What an edit puts at a path.
#[derive(Clone, Copy, Debug)]
pub enum NewContent<'a> {
    /// The entry, whose name is ignored.
    Entry(&'a TreeEntry),
    /// A version of a conflict, without attributes but privacy.
    Version(&'a Term),
}

impl NewContent<'_> {
    fn named(self, name: SafeName) -> TreeEntry {
        match self {
            NewContent::Entry(entry) => TreeEntry {
                name,
                ..entry.clone()
            },
            NewContent::Version(term) => entry_of(&name, term, None),
        }
    }
}

/// Writes `root` with `edits` applied. Directories without edits keep their ids and are not read.
///
/// A directory that an edit needs is created, even in place of a file. A directory that the edits
/// empty stays. If one edit is above another, the upper one counts.
pub fn edit_tree(
    reader: &dyn ObjectRead,
    writer: &mut dyn ObjectWrite,
    root: ObjectId,
    edits: &Edits,
) -> Result<TreeSummary, ObjectError> {
    edit_tree_of(reader, writer, root, &borrow_edits(edits))
}

/// Returns the same edits for [`edit_tree_of`].
pub fn borrow_edits(edits: &Edits) -> EditsOf<'_> {
    let edits = edits.iter();
    edits
        .map(|(path, entry)| (path, entry.as_ref().map(NewContent::Entry)))
        .collect()
}

/// Edits a tree as [`edit_tree`], with paths and contents that are kept elsewhere.
pub fn edit_tree_of(
    reader: &dyn ObjectRead,
    writer: &mut dyn ObjectWrite,
    root: ObjectId,
    edits: &EditsOf<'_>,
) -> Result<TreeSummary, ObjectError> {
    Editor {
        reader,
        edits,
        takes_over: false,
    }
    .edit(writer, root)
}

/// Edits a tree as [`edit_tree_of`], and reads no nodes but those around the edits. So the time does not grow with the
/// directory. The nodes of `root` must be stored where `writer` stores: those that stay the same are not written.
pub fn edit_stored_tree(
    reader: &dyn ObjectRead,
    writer: &mut dyn ObjectWrite,
    root: ObjectId,
    edits: &impl EditSource,
) -> Result<TreeSummary, ObjectError> {
    Editor {
        reader,
        edits,
        takes_over: true,
    }
    .edit(writer, root)
}

/// How a tree is edited.
struct Editor<'r, E> {
    reader: &'r dyn ObjectRead,
    edits: &'r E,
    /// Whether nodes without edits are taken over unread.
    takes_over: bool,
}

impl<E: EditSource> Editor<'_, E> {
    fn edit(
        &self,
        writer: &mut dyn ObjectWrite,
        root: ObjectId,
    ) -> Result<TreeSummary, ObjectError> {
        let edits = self.edits;
        let mut stack = vec![self.directory(Some(root), None, RepoPath::root())?];
        loop {
            let dir = stack.last_mut().expect("the root leaves it last");
            let Some((name, old)) = dir.next(edits, writer)? else {
                let Some(done) = stack.pop() else {
                    unreachable!("it was there just before");
                };
                let kept = done.old.is_some() || done.pushed > 0;
                let summary = done.builder.finish(writer)?;
                let (Some(above), Some((name, attrs))) = (stack.last_mut(), done.entry) else {
                    return Ok(summary);
                };
                if kept {
                    let entry = TreeEntry::directory(name, &summary, attrs);
                    above.push(&entry, writer)?;
                }
                continue;
            };
            let path = join(&dir.path, &name)?;
            if let Some(edit) = edits.edit_of(&path) {
                if let Some(new) = edit {
                    dir.push(&new.named(name), writer)?;
                }
                continue;
            }
            let next = edits.first_from(&path, &|_| true);
            let goes_on = next.is_some_and(|next| next.starts_with(&path));
            match old {
                Some(old) if !goes_on => dir.push(&old, writer)?,
                old => {
                    let old = old.filter(|old| old.kind == Kind::Directory);
                    let id = old.as_ref().map(|old| old.id);
                    let entry = Some((name, old.and_then(|old| old.attrs)));
                    stack.push(self.directory(id, entry, path)?);
                }
            }
        }
    }

    fn directory(
        &self,
        id: Option<ObjectId>,
        entry: Option<(SafeName, Option<Box<[u8]>>)>,
        path: RepoPath,
    ) -> Result<EditedDirectory<'_>, ObjectError> {
        let old = id.map(|id| Cursor::open(self.reader, &id)).transpose()?;
        Ok(EditedDirectory {
            path,
            entry,
            old,
            takes_over: self.takes_over,
            last: None,
            builder: TreeBuilder::new(),
            pushed: 0,
        })
    }
}

/// A directory that is being rewritten.
struct EditedDirectory<'r> {
    path: RepoPath,
    /// Name and attributes of its entry; none for the root.
    entry: Option<(SafeName, Option<Box<[u8]>>)>,
    old: Option<Cursor<'r>>,
    takes_over: bool,
    /// The last name that was returned or skipped.
    last: Option<SafeName>,
    builder: TreeBuilder,
    pushed: u64,
}

impl EditedDirectory<'_> {
    /// Returns the next name that the directory has or an edit adds, with the directory's entry. Takes over nodes
    /// without edits on the way.
    fn next(
        &mut self,
        edits: &impl EditSource,
        writer: &mut dyn ObjectWrite,
    ) -> Result<Option<(SafeName, Option<TreeEntry>)>, ObjectError> {
        let edited = self.next_edited(edits)?;
        let has_old = self.take_over(edited.as_ref(), writer)?;
        let is_old = has_old
            && match self.old.as_mut().map(Cursor::peek) {
                Some(Peek::Entry(old)) => edited.as_ref().is_none_or(|edited| old.name <= *edited),
                _ => false,
            };
        let old = match &mut self.old {
            Some(old) if is_old => old.take_entry(),
            _ => None,
        };
        let found = match old {
            Some(entry) => Some((entry.name.clone(), Some(entry))),
            None => edited.map(|name| (name, None)),
        };
        if let Some((name, _)) = &found {
            self.last = Some(name.clone());
        }
        Ok(found)
    }

    /// Takes over the nodes before the next edit, unread where they stay the same nodes. Returns whether the
    /// directory has an entry next.
    fn take_over(
        &mut self,
        edited: Option<&SafeName>,
        writer: &mut dyn ObjectWrite,
    ) -> Result<bool, ObjectError> {
        let Some(old) = &mut self.old else {
            return Ok(false);
        };
        loop {
            let (level, node) = match old.peek() {
                Peek::End => return Ok(false),
                Peek::Entry(_) => return Ok(true),
                Peek::Node(level, node) => (level, node.clone()),
            };
            let is_before = edited.is_none_or(|edited| node.last < *edited);
            if self.takes_over
                && is_before
                && old.has_more_behind_node()
                && self.builder.push_node(level, &node, writer)?
            {
                self.pushed += node.totals.entries;
                self.last = Some(node.last);
                old.skip_node();
            } else {
                old.expand()?;
            }
        }
    }

    /// Returns the first name after the last one that is in the path of an edit.
    fn next_edited(&self, edits: &impl EditSource) -> Result<Option<SafeName>, ObjectError> {
        let depth = self.path.depth();
        let from = match &self.last {
            None => self.path.clone(),
            Some(last) => join(&self.path, last)?,
        };
        let is_behind = |path: &RepoPath| match &self.last {
            None => *path != self.path,
            Some(_) => !path.starts_with(&from),
        };
        let next = edits.first_from(&from, &is_behind);
        let next = next.filter(|path| path.starts_with(&self.path));
        let name = next.and_then(|path| path.components().nth(depth));
        Ok(name.and_then(|name| SafeName::new(name).ok()))
    }

    fn push(&mut self, entry: &TreeEntry, writer: &mut dyn ObjectWrite) -> Result<(), ObjectError> {
        self.pushed += 1;
        self.builder.push(entry, writer)
    }
}

fn join(dir: &RepoPath, name: &SafeName) -> Result<RepoPath, ObjectError> {
    dir.join(name).map_err(|_| {
        crate::object::codec::EncodeError {
            what: "a path is too long or too deep",
        }
        .into()
    })
}

//! Writing a tree with some of its entries replaced.

use super::walk::entry_of;
use crate::hash::ObjectId;
use crate::object::conflict::Term;
use crate::object::name::{RepoPath, SafeName};
use crate::object::tree::{Kind, TreeBuilder, TreeEntry, TreeIter, TreeSummary};
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use std::collections::BTreeMap;
use std::iter::Peekable;

/// The new entry at each path, or `None` for no entry. The name inside an entry is ignored.
pub type Edits = BTreeMap<RepoPath, Option<TreeEntry>>;

/// The same for paths and contents that are kept elsewhere.
pub type EditsOf<'a> = BTreeMap<&'a RepoPath, Option<NewContent<'a>>>;

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
    let mut stack = vec![EditedDirectory::new(
        reader,
        Some(root),
        None,
        RepoPath::root(),
    )];
    loop {
        let dir = stack.last_mut().expect("the root leaves it last");
        let Some((name, old)) = dir.next(edits)? else {
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
        if let Some(edit) = edits.get(&path) {
            if let Some(new) = edit {
                dir.push(&new.named(name), writer)?;
            }
            continue;
        }
        let goes_on = edits
            .range::<RepoPath, _>(&path..)
            .next()
            .is_some_and(|(next, _)| next.starts_with(&path));
        match old {
            Some(old) if !goes_on => dir.push(&old, writer)?,
            old => {
                let old = old.filter(|old| old.kind == Kind::Directory);
                let id = old.as_ref().map(|old| old.id);
                let entry = Some((name, old.and_then(|old| old.attrs)));
                stack.push(EditedDirectory::new(reader, id, entry, path));
            }
        }
    }
}

/// A directory that is being rewritten.
struct EditedDirectory<'r> {
    path: RepoPath,
    /// Name and attributes of its entry; none for the root.
    entry: Option<(SafeName, Option<Box<[u8]>>)>,
    old: Option<Peekable<TreeIter<'r>>>,
    /// The last name that was returned.
    last: Option<SafeName>,
    builder: TreeBuilder,
    pushed: u64,
}

impl<'r> EditedDirectory<'r> {
    fn new(
        reader: &'r dyn ObjectRead,
        id: Option<ObjectId>,
        entry: Option<(SafeName, Option<Box<[u8]>>)>,
        path: RepoPath,
    ) -> EditedDirectory<'r> {
        EditedDirectory {
            path,
            entry,
            old: id.map(|id| TreeIter::new(reader, id).peekable()),
            last: None,
            builder: TreeBuilder::new(),
            pushed: 0,
        }
    }

    /// Returns the next name that the directory has or an edit adds, with the directory's entry.
    fn next(
        &mut self,
        edits: &EditsOf<'_>,
    ) -> Result<Option<(SafeName, Option<TreeEntry>)>, ObjectError> {
        let edited = self.next_edited(edits)?;
        let old = match self.old.as_mut().and_then(Peekable::peek) {
            Some(Err(_)) | None => None,
            Some(Ok(entry)) => Some(entry.name.clone()),
        };
        let take_old = match (&old, &edited) {
            (Some(old), Some(edited)) => old <= edited,
            (Some(_), None) => true,
            (None, _) => self.old.as_mut().is_some_and(|old| old.peek().is_some()),
        };
        let found = match (take_old, edited) {
            (true, _) => match self.old.as_mut().and_then(Iterator::next).transpose()? {
                Some(entry) => Some((entry.name.clone(), Some(entry))),
                None => None,
            },
            (false, Some(name)) => Some((name, None)),
            (false, None) => None,
        };
        self.last = found.as_ref().map(|(name, _)| name.clone());
        Ok(found)
    }

    /// Returns the first name after the last one that is in the path of an edit.
    fn next_edited(&self, edits: &EditsOf<'_>) -> Result<Option<SafeName>, ObjectError> {
        let depth = self.path.depth();
        let from = match &self.last {
            None => self.path.clone(),
            Some(last) => join(&self.path, last)?,
        };
        let is_behind = |path: &RepoPath| match &self.last {
            None => *path != self.path,
            Some(_) => !path.starts_with(&from),
        };
        let next = edits
            .range::<RepoPath, _>(&from..)
            .map(|(path, _)| *path)
            .find(|path| is_behind(path))
            .filter(|path| path.starts_with(&self.path));
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

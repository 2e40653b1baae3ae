//! The walk through three trees in step that writes the merged tree.
//!
//! It decides each name by the algebra of `terms`, merges contents with `text`, and applies the
//! moves that `rename` has found. It has one open directory per level in memory.

use super::content::{read_counted, unread, write_blob};
use super::rename::{Moves, Source};
use super::terms::Terms;
use super::text::marked_text;
use super::{MergeError, MergeResult, NewConflict, Trees};
use crate::hash::ObjectId;
use crate::limits::MAX_PATH_DEPTH;
use crate::object::codec::EncodeError;
use crate::object::conflict::{Conflict, Term};
use crate::object::name::{RepoPath, SafeName};
use crate::object::root::{Lack, Root};
use crate::object::tree::{
    Attrs, Kind, TreeBuilder, TreeEntry, TreeIter, TreeSummary, lookup_path, merge_attrs,
};
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use std::sync::atomic::{AtomicBool, Ordering};

/// The entries of base, ours and theirs at one path.
type Three = [Option<TreeEntry>; 3];

/// The result of a walk.
pub(super) struct WalkResult {
    pub merged: MergeResult,
    /// What ours deleted and theirs changed; and what theirs deleted and ours changed.
    pub sources: [Vec<Source>; 2],
    /// How many of the moves were applied.
    pub followed: usize,
}

pub(super) struct Walk<'a, 'w> {
    reader: &'a dyn ObjectRead,
    writer: &'w mut dyn ObjectWrite,
    moves: &'a Moves,
    trees: Trees,
    cancel: &'a AtomicBool,
    /// The path of the topmost directory on the stack.
    path: RepoPath,
    conflicts: Vec<NewConflict>,
    sources: [Vec<Source>; 2],
    followed: usize,
    content_bytes: u64,
    /// Conflicts of texts that differ too much to separate all changes.
    coarse: Vec<RepoPath>,
    /// Absent content. Once there is any, the walk continues only to find all of it.
    lacks: Vec<Lack>,
}

/// The decision about one name.
enum Step {
    Put(Option<TreeEntry>),
    Enter(Three, Attrs, bool),
}

impl<'a, 'w> Walk<'a, 'w> {
    pub fn new(
        reader: &'a dyn ObjectRead,
        writer: &'w mut dyn ObjectWrite,
        moves: &'a Moves,
        trees: Trees,
        cancel: &'a AtomicBool,
    ) -> Walk<'a, 'w> {
        Walk {
            reader,
            writer,
            moves,
            trees,
            cancel,
            path: RepoPath::root(),
            conflicts: Vec::new(),
            sources: [Vec::new(), Vec::new()],
            followed: 0,
            content_bytes: 0,
            coarse: Vec::new(),
            lacks: Vec::new(),
        }
    }

    pub fn run(mut self) -> Result<WalkResult, MergeError> {
        let Trees { base, ours, theirs } = self.trees;
        let mut stack = vec![OpenDirectory::new(
            self.reader,
            [base, Some(ours), Some(theirs)],
            None,
        )];
        let tree = loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(MergeError::Cancelled);
            }
            let dir = stack.last_mut().expect("the root leaves it last");
            if let Some((name, three)) = self.next_in(dir)? {
                self.path.push(&name).map_err(|_| too_long())?;
                match self.decide(&name, three)? {
                    Step::Put(entry) => {
                        self.path.pop();
                        dir.put(entry, self.writer)?;
                    }
                    Step::Enter(three, attrs, keep) => {
                        if stack.len() >= MAX_PATH_DEPTH {
                            return Err(too_long().into());
                        }
                        let ids = three.map(|entry| entry.map(|entry| entry.id));
                        stack.push(OpenDirectory::new(
                            self.reader,
                            ids,
                            Some((name, attrs, keep)),
                        ));
                    }
                }
                continue;
            }
            let done = stack.pop().expect("it was there just before");
            let (summary, entry) = done.finish(self.writer)?;
            match stack.last_mut() {
                None => break summary,
                Some(above) => {
                    self.path.pop();
                    above.put(entry, self.writer)?;
                }
            }
        };
        if !self.lacks.is_empty() {
            return Err(MergeError::Lacking {
                lacks: self.lacks,
                undecided: tree,
            });
        }
        let merged = MergeResult {
            tree,
            conflicts: self.conflicts,
            moves: Vec::new(),
            moves_skipped: false,
            coarse: self.coarse,
            content_bytes: self.content_bytes,
        };
        Ok(WalkResult {
            merged,
            sources: self.sources,
            followed: self.followed,
        })
    }

    /// Returns the next name in a directory. If a node of the directory is absent, records that and
    /// ends the directory.
    fn next_in(
        &mut self,
        dir: &mut OpenDirectory<'_>,
    ) -> Result<Option<(SafeName, Three)>, MergeError> {
        match dir.next() {
            Err(ObjectError::Missing { id, ty }) => {
                let path = self.path.clone();
                let root = Root::Object(ty, id);
                self.lacks.push(Lack { path, root });
                Ok(None)
            }
            next => Ok(next?),
        }
    }

    /// Decides about the current path.
    fn decide(&mut self, name: &SafeName, three: Three) -> Result<Step, MergeError> {
        let [base, ours, theirs] = self.follow(name, three)?;
        if !self.moves.has_below(&self.path) {
            if same(&ours, &theirs) || same(&theirs, &base) {
                return Ok(Step::Put(ours));
            }
            if same(&ours, &base) {
                return Ok(Step::Put(theirs));
            }
        }
        let is_dir = |e: &Option<TreeEntry>| e.as_ref().is_some_and(|e| e.kind == Kind::Directory);
        let is_other = |e: &Option<TreeEntry>| e.is_some() && !is_dir(e);
        if (is_dir(&ours) || is_dir(&theirs)) && !is_other(&ours) && !is_other(&theirs) {
            let both = ours.is_some() && theirs.is_some();
            if is_dir(&base) && !both {
                self.note_source(&base, &ours, &theirs);
            }
            let keep = both || !is_dir(&base);
            let attrs = merged_attrs([&base, &ours, &theirs]);
            let base = base.filter(|base| base.kind == Kind::Directory);
            return Ok(Step::Enter([base, ours, theirs], attrs, keep));
        }
        // The directory is removed on both sides, and one of them has put something in its place.
        if is_dir(&base) && (ours.is_none() || theirs.is_none()) {
            return Ok(Step::Put(ours.or(theirs)));
        }
        Ok(Step::Put(self.merge_entry(name, base, ours, theirs)?))
    }

    /// Applies the moves: an entry that was moved away is absent here, and one that was moved here
    /// meets the other side's version at its former path.
    fn follow(&mut self, name: &SafeName, three: Three) -> Result<Three, MergeError> {
        let [base, ours, theirs] = three;
        if self.moves.is_source(&self.path) {
            let gone = |entry: Option<TreeEntry>| {
                entry.filter(|entry| !self.moves.moves_away(&self.path, entry.kind))
            };
            return Ok([gone(base), gone(ours), gone(theirs)]);
        }
        let Some((from, side)) = self.moves.to(&self.path) else {
            return Ok([base, ours, theirs]);
        };
        self.followed += 1;
        let at = |tree: Option<ObjectId>| -> Result<Option<TreeEntry>, ObjectError> {
            let found = match tree {
                Some(tree) => lookup_path(self.reader, &tree, from)?,
                None => None,
            };
            Ok(found.map(|entry| TreeEntry {
                name: name.clone(),
                ..entry
            }))
        };
        let base = at(self.trees.base)?;
        Ok(match side {
            0 => [base, ours, at(Some(self.trees.theirs))?],
            _ => [base, at(Some(self.trees.ours))?, theirs],
        })
    }

    /// Records an entry that one side deleted and the other changed.
    fn note_source(
        &mut self,
        base: &Option<TreeEntry>,
        ours: &Option<TreeEntry>,
        theirs: &Option<TreeEntry>,
    ) {
        let side = match (ours, theirs) {
            (None, Some(_)) => 0,
            (Some(_), None) => 1,
            _ => return,
        };
        if let Some(base) = base {
            self.sources[side].push(Source {
                path: self.path.clone(),
                base: base.clone(),
            });
        }
    }

    /// Merges an entry that is not a directory on all sides.
    fn merge_entry(
        &mut self,
        name: &SafeName,
        base: Option<TreeEntry>,
        ours: Option<TreeEntry>,
        theirs: Option<TreeEntry>,
    ) -> Result<Option<TreeEntry>, MergeError> {
        let attrs = merged_attrs([&base, &ours, &theirs]);
        let is_open = |entry: &Option<TreeEntry>| {
            entry
                .as_ref()
                .is_some_and(|entry| entry.kind == Kind::Conflict)
        };
        let start = self.terms(base.as_ref())?;
        let (one, other) = (self.terms(ours.as_ref())?, self.terms(theirs.as_ref())?);
        // Both sides settled one conflict, in different ways. The sum of terms could be a version
        // that neither of them has. The new conflict asks which of their answers is right.
        let settled_twice = is_open(&base) && !is_open(&ours) && !is_open(&theirs);
        let terms = if settled_twice {
            Terms::asked_again(start, one, other)
        } else {
            Terms::merge(start, one, other)
        };
        let agreed = match (terms.agreed(), terms.three()) {
            (Some(value), _) => Some(value),
            (None, Some([base, ours, theirs]))
                if settled_twice && (base == ours || base == theirs) =>
            {
                None
            }
            (None, Some([base, Some(ours), Some(theirs)])) => {
                self.merge_files(base, ours, theirs)?.map(Some)
            }
            _ => None,
        };
        if let Some(value) = agreed {
            return Ok(value.map(|term| entry_of(name, &term, attrs)));
        }
        if base.as_ref().is_some_and(|base| base.kind.is_blob()) {
            self.note_source(&base, &ours, &theirs);
        }
        let conflict = terms.into_conflict();
        let bytes = conflict.encode().map_err(|_| MergeError::TooManySides {
            path: self.path.clone(),
        })?;
        let id = self.writer.put(ObjectType::Conflict, &bytes)?;
        self.conflicts.push(NewConflict {
            path: self.path.clone(),
            id,
            conflict,
        });
        Ok(Some(TreeEntry {
            name: name.clone(),
            kind: Kind::Conflict,
            is_list: false,
            id,
            size: 0,
            files: 0,
            attrs: None,
        }))
    }

    fn terms(&self, entry: Option<&TreeEntry>) -> Result<Terms, ObjectError> {
        let conflict = match entry.filter(|entry| entry.kind == Kind::Conflict) {
            Some(entry) => Some(read_conflict(self.reader, &entry.id)?),
            None => None,
        };
        Ok(Terms::of(entry, conflict))
    }

    /// Merges two changes of one file: content, executable bit and privacy separately. Returns `None` if the
    /// changes do not fit together.
    fn merge_files(
        &mut self,
        base: Option<Term>,
        ours: Term,
        theirs: Term,
    ) -> Result<Option<Term>, MergeError> {
        let Some(base) = base else {
            return Ok(None);
        };
        if ![base, ours, theirs].iter().all(|term| term.kind.is_blob()) {
            return Ok(None);
        }
        let kind = changed(base.kind, ours.kind, theirs.kind);
        let is_private = changed(base.is_private, ours.is_private, theirs.is_private);
        let content = |term: &Term| (term.id, term.is_list);
        let merged = match () {
            () if content(&ours) == content(&theirs) => ours,
            () if content(&theirs) == content(&base) => ours,
            () if content(&ours) == content(&base) => theirs,
            () => match self.merge_text([base, ours, theirs])? {
                Some(term) => term,
                None => return Ok(None),
            },
        };
        Ok(Some(Term {
            kind,
            is_private,
            ..merged
        }))
    }

    fn merge_text(&mut self, terms: [Term; 3]) -> Result<Option<Term>, MergeError> {
        let mut texts = [Vec::new(), Vec::new(), Vec::new()];
        for (text, term) in texts.iter_mut().zip(&terms) {
            let count = &mut self.content_bytes;
            match read_counted(self.reader, term, count)? {
                Some(content) => *text = content,
                None => {
                    self.lacks.extend(unread(self.reader, &self.path, &terms)?);
                    return Ok(None);
                }
            }
        }
        let [base, ours, theirs] = &texts;
        let made = marked_text(base, ours, theirs, self.cancel)?;
        if made.regions > 0 {
            if made.is_coarse {
                self.coarse.push(self.path.clone());
            }
            return Ok(None);
        }
        let blob = write_blob(&made.text, self.writer)?;
        Ok(Some(Term {
            id: blob.id,
            is_list: blob.is_list,
            size: blob.size,
            ..terms[1]
        }))
    }
}

/// Reads and decodes a conflict.
pub(crate) fn read_conflict(
    reader: &dyn ObjectRead,
    id: &ObjectId,
) -> Result<Conflict, ObjectError> {
    let ty = ObjectType::Conflict;
    let bytes = reader.require(ty, id)?;
    Conflict::decode(&bytes).map_err(|e| ObjectError::undecodable(ty, id, e))
}

/// Returns an entry called `name` for a term. `attrs` are its attributes besides privacy.
pub fn entry_of(name: &SafeName, term: &Term, attrs: Attrs) -> TreeEntry {
    let entry = TreeEntry {
        name: name.clone(),
        kind: term.kind,
        is_list: term.is_list,
        id: term.id,
        size: term.size,
        files: term.files,
        attrs,
    };
    entry.with_privacy(term.is_private)
}

fn too_long() -> ObjectError {
    let what = "a path is too long or too deep";
    EncodeError { what }.into()
}

fn same(a: &Option<TreeEntry>, b: &Option<TreeEntry>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.same_content(b),
        _ => false,
    }
}

/// Merges the attributes separately.
fn merged_attrs(three: [&Option<TreeEntry>; 3]) -> Attrs {
    let [base, ours, theirs] = three.map(|entry| entry.as_ref().map(|entry| &entry.attrs));
    merge_attrs(base, ours, theirs)
}

/// Returns what a merge makes of a property of which there are only two values: if the sides differ, one
/// of them equals the base.
fn changed<T: PartialEq>(base: T, ours: T, theirs: T) -> T {
    if ours == base { theirs } else { ours }
}

/// A directory that is being merged.
struct OpenDirectory<'r> {
    sides: [Side<'r>; 3],
    builder: TreeBuilder,
    put: u64,
    /// Name and attributes of its entry, and whether it stays if it is empty. The root has none.
    entry: Option<(SafeName, Attrs, bool)>,
}

impl<'r> OpenDirectory<'r> {
    fn new(
        reader: &'r dyn ObjectRead,
        ids: [Option<ObjectId>; 3],
        entry: Option<(SafeName, Attrs, bool)>,
    ) -> OpenDirectory<'r> {
        OpenDirectory {
            sides: ids.map(|id| Side {
                rest: id.map(|id| TreeIter::new(reader, id)),
                head: None,
            }),
            builder: TreeBuilder::new(),
            put: 0,
            entry,
        }
    }

    /// Returns the next name, with each side's entry.
    fn next(&mut self) -> Result<Option<(SafeName, Three)>, ObjectError> {
        for side in &mut self.sides {
            side.fill()?;
        }
        let heads = self.sides.iter().filter_map(|side| side.head.as_ref());
        let Some(name) = heads.map(|entry| &entry.name).min().cloned() else {
            return Ok(None);
        };
        let three = self
            .sides
            .each_mut()
            .map(|side| side.head.take_if(|entry| entry.name == name));
        Ok(Some((name, three)))
    }

    fn put(
        &mut self,
        entry: Option<TreeEntry>,
        writer: &mut dyn ObjectWrite,
    ) -> Result<(), ObjectError> {
        let Some(entry) = entry else {
            return Ok(());
        };
        self.put += 1;
        self.builder.push(&entry, writer)
    }

    fn finish(
        self,
        writer: &mut dyn ObjectWrite,
    ) -> Result<(TreeSummary, Option<TreeEntry>), ObjectError> {
        let is_empty = self.put == 0;
        let summary = self.builder.finish(writer)?;
        let entry = self.entry.filter(|(_, _, keep)| *keep || !is_empty);
        let entry = entry.map(|(name, attrs, _)| TreeEntry::directory(name, &summary, attrs));
        Ok((summary, entry))
    }
}

struct Side<'r> {
    rest: Option<TreeIter<'r>>,
    head: Option<TreeEntry>,
}

impl Side<'_> {
    fn fill(&mut self) -> Result<(), ObjectError> {
        if self.head.is_none()
            && let Some(rest) = &mut self.rest
        {
            self.head = rest.next().transpose()?;
        }
        Ok(())
    }
}

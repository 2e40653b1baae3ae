//! How a worktree shows the conflicts of a commit.
//!
//! A commit stores a conflict as an entry of its tree. A worktree's files come from the **form** of
//! the commit: the tree in which readable files replace each conflict. The form depends only on the
//! commit and is computed in memory when it is needed. So status, checkout and commit work with
//! plain trees. docs/guide/conflicts.md shows examples.

use crate::hash::ObjectId;
use crate::merge::{
    self, MergedText, NewContent, any_marker_line, edit_tree_of, entry_of, marked_text,
    marker_line, read_text, unread, write_blob,
};
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::RepoError;
use crate::repo::base::notes;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::at::{ConflictAt, FoundConflicts};
use crate::repo::conflict::choices::{ConflictResolution, edits_of};
use crate::repo::conflict::names::{NamesBeside, last_name};
use crate::repo::conflict::pending::PendingConflict;
use crate::repo::conflict::{at, choices, nested};
use crate::repo::look::lack::refuse;
use crate::subset::{Extent, Subset};
use crate::worktree::scan::Select;
use crate::worktree::split_path;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::AtomicBool;

/// A conflict as a worktree shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    pub at: ConflictAt,
    /// What is at the conflict's own path: the text with markers, or the version of ours.
    pub own: Option<Term>,
    /// Whether that is a text with markers.
    pub markers: Markers,
    /// The versions in files beside it.
    pub sides: Vec<ShownSide>,
    /// Versions that may be texts and are absent from this repository. Without them, it is unknown
    /// how the conflict is shown.
    pub lacks: Vec<Lack>,
    /// Whether no commit has the conflict yet.
    pub is_pending: bool,
}

/// The marker lines in the file of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markers {
    /// The file is no text with markers.
    None,
    /// It has markers of this many characters.
    Len(usize),
    /// It may have some: the texts that tell it are absent.
    Unknown,
}

impl Markers {
    /// Returns whether the file may have markers.
    pub fn are_possible(self) -> bool {
        self != Markers::None
    }

    /// Returns the number of the first marker line in a text, if there is one.
    pub fn line_in(self, text: &[u8]) -> Option<u64> {
        match self {
            Markers::None => None,
            Markers::Len(len) => marker_line(text, len),
            Markers::Unknown => any_marker_line(text),
        }
    }
}

/// A version in a file beside a conflict.
#[derive(Clone, Debug)]
pub struct ShownSide {
    pub path: RepoPath,
    pub term: Term,
}

impl ShownSide {
    /// Returns the entry of the file.
    pub fn entry(&self) -> TreeEntry {
        entry_of(&last_name(&self.path), &self.term, None)
    }

    /// Returns the path and the entry of the file.
    pub fn file(&self) -> (RepoPath, TreeEntry) {
        (self.path.clone(), self.entry())
    }
}

impl Shown {
    /// Returns the edits of a tree that show the conflict.
    pub fn edits(&self) -> impl Iterator<Item = (&RepoPath, Option<NewContent<'_>>)> {
        let sides = self.sides.iter();
        let sides = sides.map(|side| (&side.path, Some(NewContent::Version(&side.term))));
        let own = self.own.as_ref().map(NewContent::Version);
        sides.chain([(&self.at.path, own)])
    }

    /// Returns the entry at the conflict's own path.
    pub fn entry(&self) -> Option<TreeEntry> {
        let name = last_name(&self.at.path);
        self.own.map(|term| entry_of(&name, &term, None))
    }

    /// Returns whether any of the files that show the conflict is selected.
    pub fn is_selected(&self, select: &dyn Select) -> bool {
        let sides = self.sides.iter().map(|side| &side.path);
        let mut paths = std::iter::once(&self.at.path).chain(sides);
        paths.any(|path| {
            let split = split_path(path.as_bytes());
            split.is_some_and(|(dir, name)| select.takes(dir, name))
        })
    }

    /// Returns whether a subset includes all files that show the conflict, and all that can replace
    /// them.
    pub fn is_all_in(&self, subset: &Subset) -> bool {
        let is_in = |path: &RepoPath, kind: Kind| match kind {
            Kind::Directory => subset.extent(path.as_bytes()) == Extent::All,
            _ => subset.includes(path.as_bytes(), false),
        };
        let sides = self.sides.iter();
        let mut sides = sides.map(|side| (&side.path, side.term.kind));
        is_in(&self.at.path, Kind::File)
            && sides.all(|(path, kind)| is_in(path, kind) && is_in(&self.at.path, kind))
    }
}

/// A commit's tree as a worktree shows it.
#[derive(Clone, Debug)]
pub struct Form {
    /// The tree that the commit names.
    pub stored: ObjectId,
    /// The choices in effect for conflicts without files. `tree` has the chosen versions.
    pub chosen: Vec<ConflictResolution>,
    /// The tree that files are compared with.
    pub tree: ObjectId,
    pub shown: Vec<Shown>,
    /// The files that show sides of conflicts, in the order of the bytes of their paths: positions in `shown` and in its
    /// `sides`.
    sides: Vec<(u32, u8)>,
    /// The first missing object of each conflict at a path outside this repository's slice. These
    /// conflicts stay in `tree` as they are.
    pub unseen: Vec<Lack>,
}

impl Form {
    /// Returns the form of a tree without conflicts.
    pub fn plain(tree: ObjectId) -> Form {
        Form {
            stored: tree,
            chosen: Vec::new(),
            tree,
            shown: Vec::new(),
            sides: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// Returns whether the commit has conflicts, open or settled.
    pub fn has_conflicts(&self) -> bool {
        !self.shown.is_empty() || !self.chosen.is_empty()
    }

    /// Fails with `AbsentError::Lacking` if it is unknown how a conflict at a `wanted` path is
    /// shown.
    pub fn check_known(&self, wanted: impl Fn(&[u8]) -> bool) -> Result<(), RepoError> {
        let is_in = |shown: &&Shown| wanted(shown.at.path.as_bytes());
        let lacks = self.shown.iter().filter(is_in).flat_map(|s| &s.lacks);
        let unseen = self
            .unseen
            .iter()
            .filter(|lack| wanted(lack.path.as_bytes()));
        refuse(lacks.chain(unseen).cloned().collect())
    }

    /// Returns whether it is unknown how the conflict at `path` is shown, because content is absent.
    pub fn is_unknown(&self, path: &[u8]) -> bool {
        let mut shown = self.shown.iter();
        shown.any(|shown| !shown.lacks.is_empty() && shown.at.path.as_bytes() == path)
    }

    /// Returns whether `path` is a file that shows a side of a conflict, or lies below such a
    /// directory.
    pub fn is_side(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut ends = above.map(|(end, _)| end).chain([path.len()]);
        !self.sides.is_empty() && ends.any(|end| self.has_side(&path[..end]))
    }

    /// Returns the form with conflicts that no commit has yet, in path order. They take the place of
    /// what the commit has at their paths.
    pub fn with_pending(
        mut self,
        repo: &Repo,
        pending: Vec<PendingConflict>,
    ) -> Result<Form, RepoError> {
        if pending.is_empty() {
            return Ok(self);
        }
        let is_over = |path: &RepoPath| pending.iter().any(|one| one.touches(path.as_bytes()));
        self.shown.retain(|shown| !is_over(&shown.at.path));
        self.chosen.retain(|chosen| !is_over(&chosen.path));
        self.unseen.retain(|lack| !is_over(&lack.path));
        for one in &pending {
            self.shown.push(show_pending(repo, one)?);
        }
        self.shown.sort_by(|a, b| a.at.path.cmp(&b.at.path));
        self.fill(repo)?;
        Ok(self)
    }

    /// Makes the tree that shows the conflicts and choices.
    fn fill(&mut self, repo: &Repo) -> Result<(), RepoError> {
        self.list_sides();
        let chosen = edits_of(&self.chosen);
        if self.shown.is_empty() && chosen.is_empty() {
            return Ok(());
        }
        let mut edits = merge::borrow_edits(&chosen);
        for shown in &self.shown {
            edits.extend(shown.edits());
        }
        let made = edit_tree_of(repo.objects(), &mut &repo.made, self.stored, &edits)?;
        self.tree = made.id;
        Ok(())
    }

    fn list_sides(&mut self) {
        let files = self.shown.iter().enumerate().flat_map(|(n, shown)| {
            let sides = 0..shown.sides.len();
            // A commit has fewer conflicts, and a conflict fewer versions, than these types count.
            sides.map(move |side| (n as u32, side as u8))
        });
        let mut sides = Vec::with_capacity(self.shown.iter().map(|shown| shown.sides.len()).sum());
        sides.extend(files);
        sides.sort_unstable_by_key(|side| self.side(*side).as_bytes());
        self.sides = sides;
    }

    fn has_side(&self, path: &[u8]) -> bool {
        let found = self
            .sides
            .binary_search_by(|side| self.side(*side).as_bytes().cmp(path));
        found.is_ok()
    }

    fn side(&self, (shown, side): (u32, u8)) -> &RepoPath {
        &self.shown[shown as usize].sides[usize::from(side)].path
    }
}

/// Says whether a worktree has a version of a conflict at a path. So a worktree in which an earlier
/// build wrote the versions under other names keeps these names.
pub type IsThere<'a> = &'a dyn Fn(&RepoPath, &TreeEntry) -> Result<bool, RepoError>;

/// Returns the form of the commit `id` in this worktree, as a switch writes it.
pub fn form_at(repo: &Repo, id: &ObjectId) -> Result<Form, RepoError> {
    form_with(repo, &repo.read_commit(id)?, &notes::read(repo)?)
}

/// Returns the form of a commit in a worktree with these notes.
pub fn form_with(repo: &Repo, commit: &Commit, notes: &PathNotes) -> Result<Form, RepoError> {
    form_showing(repo, commit, notes, at::conflicts_here(repo, commit)?)
}

/// Returns the same for a commit whose conflicts are known.
pub fn form_showing(
    repo: &Repo,
    commit: &Commit,
    notes: &PathNotes,
    found: FoundConflicts,
) -> Result<Form, RepoError> {
    let chosen = choices::chosen(repo, notes, &commit.tree)?;
    make_form(repo, commit, chosen, None, found)
}

/// Returns the form of the worktree's base, with the names that its files have.
pub fn form_of_base(
    repo: &Repo,
    id: &ObjectId,
    notes: &PathNotes,
    is_there: IsThere<'_>,
) -> Result<Form, RepoError> {
    let commit = repo.read_commit(id)?;
    let chosen = choices::chosen(repo, notes, &commit.tree)?;
    form_of(repo, &commit, chosen, Some(is_there))
}

impl Repo {
    /// Returns the tree of a commit with readable files in place of each conflict, as an export
    /// writes it.
    ///
    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if the files of a
    /// conflict at a `wanted` path cannot be determined.
    pub fn readable_tree(
        &self,
        commit: &Commit,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<ObjectId, RepoError> {
        let form = form_of(self, commit, Vec::new(), None)?;
        form.check_known(wanted)?;
        Ok(form.tree)
    }
}

/// Returns the form of a commit with some choices. New objects of the form are not stored.
/// `is_there`: see [`IsThere`].
pub fn form_of(
    repo: &Repo,
    commit: &Commit,
    chosen: Vec<ConflictResolution>,
    is_there: Option<IsThere<'_>>,
) -> Result<Form, RepoError> {
    let found = at::conflicts_here(repo, commit)?;
    make_form(repo, commit, chosen, is_there, found)
}

fn make_form(
    repo: &Repo,
    commit: &Commit,
    chosen: Vec<ConflictResolution>,
    is_there: Option<IsThere<'_>>,
    found: FoundConflicts,
) -> Result<Form, RepoError> {
    let mut form = Form::plain(commit.tree);
    let taken: BTreeSet<RepoPath> = edits_of(&chosen).into_keys().collect();
    let mut names = NamesBeside::new(repo, &commit.tree, taken);
    form.unseen = found.unseen;
    let settled: HashSet<&RepoPath> = chosen.iter().map(|chosen| &chosen.path).collect();
    // There may be as many conflicts as files, so nothing here has spare room or a second copy.
    form.shown.reserve_exact(found.here.len());
    for at in found.here {
        if !settled.contains(&at.path) {
            form.shown.push(show(repo, at, &mut names, is_there)?);
        }
    }
    drop(names);
    form.chosen = chosen;
    form.fill(repo)?;
    Ok(form)
}

/// Returns how a conflict is shown, with free names for its versions.
pub fn show(
    repo: &Repo,
    at: ConflictAt,
    names: &mut NamesBeside<'_>,
    is_there: Option<IsThere<'_>>,
) -> Result<Shown, RepoError> {
    let mut versions = at.versions();
    versions.retain(|(_, term)| term.is_some());
    let mut sides = Vec::with_capacity(versions.len());
    for (label, term) in versions {
        let Some(term) = term else { continue };
        let term = nested::readable(repo, term)?;
        let path = names.free(&at.path, &label)?;
        let mut side = ShownSide { path, term };
        if let Some(is_there) = is_there {
            let path = names.former(&at.path, &label)?;
            let former = ShownSide { path, term };
            let is_there = |side: &ShownSide| is_there(&side.path, &side.entry());
            if is_there(&former)? && !is_there(&side)? {
                side = former;
            }
        }
        sides.push(side);
    }
    show_own(repo, at, sides, false)
}

/// Returns how files show a conflict that no commit has.
pub fn show_pending(repo: &Repo, pending: &PendingConflict) -> Result<Shown, RepoError> {
    show_own(repo, pending.at.clone(), pending.sides.clone(), true)
}

/// Returns how a conflict is shown whose versions are in the files `sides`.
fn show_own(
    repo: &Repo,
    at: ConflictAt,
    sides: Vec<ShownSide>,
    is_pending: bool,
) -> Result<Shown, RepoError> {
    let mut lacks = Vec::new();
    let marked = marked(repo, &at, &mut lacks)?;
    let ours = at.ours().filter(|ours| ours.kind != Kind::Directory);
    let own = match &marked {
        Some(marked) => {
            let Blob { id, is_list, size } = write_blob(&marked.text, &mut &repo.made)?;
            // The text has lines of all versions.
            let is_private = at.texts().iter().any(|term| term.is_private);
            ours.map(|ours| Term {
                id,
                is_list,
                is_private,
                size,
                ..ours
            })
        }
        None => ours,
    };
    Ok(Shown {
        own,
        at,
        markers: match marked {
            Some(marked) => Markers::Len(marked.marker_len),
            None if lacks.is_empty() => Markers::None,
            None => Markers::Unknown,
        },
        sides,
        lacks,
        is_pending,
    })
}

/// Returns the base and the sides as one text with markers, if all of them are texts and differ.
/// Adds versions that it would have to read and that are absent to `lacks`.
fn marked(
    repo: &Repo,
    at: &ConflictAt,
    lacks: &mut Vec<Lack>,
) -> Result<Option<MergedText>, RepoError> {
    let ([base], [Some(ours), Some(theirs)]) = (&at.conflict.bases[..], &at.conflict.sides[..])
    else {
        return Ok(None);
    };
    let mut texts = [Vec::new(), Vec::new(), Vec::new()];
    for (text, term) in texts.iter_mut().zip([*base, Some(*ours), Some(*theirs)]) {
        let Some(term) = term else { continue };
        if !term.kind.is_blob() {
            return Ok(None);
        }
        match read_text(repo.objects(), &term)? {
            Some(content) => *text = content,
            None => {
                lacks.extend(unread(repo.objects(), &at.path, &at.texts())?);
                return Ok(None);
            }
        }
    }
    // Computing a form cannot be cancelled. The comparison limits the time it takes.
    let never = AtomicBool::new(false);
    let made = marked_text(&texts[0], &texts[1], &texts[2], &never);
    let made = made.map_err(|_| RepoError::Cancelled)?;
    Ok((made.regions > 0).then_some(made))
}

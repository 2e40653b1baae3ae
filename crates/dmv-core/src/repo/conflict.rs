//! Conflicts of a commit, and how a worktree shows them.
//!
//! A commit keeps a conflict as an entry of its tree. Files come from the commit's **form**: the tree
//! in which each conflict is replaced by files a person can read. The form is a function of the
//! commit alone and is made in memory when it is needed, so status, checkout and commit work with
//! plain trees. docs/guide/conflicts.md tells what it looks like.

use super::choices::{Chosen, Record, edits_of};
use super::lack::refuse;
use super::{Repo, RepoError};
use crate::hash::ObjectId;
use crate::history::merge_bases;
use crate::limits::MAX_NAME_BYTES;
use crate::merge::{ConflictKind, Marked, edit_tree, entry_of, marked_text};
use crate::merge::{read_conflict, read_text, unread, write_blob};
use crate::object::commit::Commit;
use crate::object::conflict::{Conflict, Term};
use crate::object::list::Blob;
use crate::object::name::{RepoPath, SafeName};
use crate::object::root::{Lack, Root};
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::subset::{Extent, Subset};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The key of a commit's extra that lists its conflicts: docs/format/objects.md, "Commit".
const CONFLICTS_KEY: &[u8] = b"conflicts";
/// Bytes of that list; a longer one is left empty, and the tree is searched.
const MAX_LIST_BYTES: usize = 32 << 10;

/// A conflict in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictAt {
    /// Where its entry is.
    pub path: RepoPath,
    /// The conflict object.
    pub id: ObjectId,
    /// What it holds.
    pub conflict: Conflict,
}

impl ConflictAt {
    /// What kind of question it asks.
    pub fn kind(&self) -> ConflictKind {
        ConflictKind::of(&self.conflict)
    }

    /// What would be merged by lines.
    fn texts(&self) -> Vec<Term> {
        let conflict = &self.conflict;
        let terms = conflict.bases.iter().chain(&conflict.sides);
        terms.flatten().copied().collect()
    }

    /// What the side merged into has.
    pub fn ours(&self) -> Option<Term> {
        self.conflict.sides.first().copied().flatten()
    }

    /// What the side that was merged has.
    pub fn theirs(&self) -> Option<Term> {
        self.conflict.sides.last().copied().flatten()
    }

    /// What both started from.
    pub fn base(&self) -> Option<Term> {
        self.conflict.bases.first().copied().flatten()
    }

    /// All versions with what they are called: `ours`, `theirs`, `base`, and more of them with
    /// numbers. `None`: it has nothing there.
    pub fn versions(&self) -> Vec<(String, Option<Term>)> {
        let mut out = Vec::new();
        let last = self.conflict.sides.len() - 1;
        for (n, side) in self.conflict.sides.iter().enumerate() {
            let label = match n {
                0 => "ours".to_owned(),
                n if n == last => "theirs".to_owned(),
                n => format!("side{}", n + 1),
            };
            out.push((label, *side));
        }
        for (n, base) in self.conflict.bases.iter().enumerate() {
            let label = match n {
                0 => "base".to_owned(),
                n => format!("base{}", n + 1),
            };
            out.push((label, *base));
        }
        out
    }
}

/// How a conflict is shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub at: ConflictAt,
    /// What is at the conflict's own path: marked text, or what ours has.
    pub entry: Option<TreeEntry>,
    /// The text with its markers, if that is what is there.
    pub marked: Option<Marked>,
    /// The sides beside it.
    pub sides: Vec<(RepoPath, TreeEntry)>,
    /// What is not here of what may be texts: how it is shown cannot be told without.
    pub lacks: Vec<Lack>,
}

impl Shown {
    /// Whether a subset has all that the conflict is shown as, and can become.
    pub fn is_all_in(&self, subset: &Subset) -> bool {
        let is_in = |path: &RepoPath, kind: Kind| match kind {
            Kind::Directory => subset.extent(path.as_bytes()) == Extent::All,
            _ => subset.includes(path.as_bytes(), false),
        };
        let sides = self.sides.iter();
        let mut sides = sides.map(|(path, entry)| (path, entry.kind));
        is_in(&self.at.path, Kind::File)
            && sides.all(|(path, kind)| is_in(path, kind) && is_in(&self.at.path, kind))
    }
}

/// A commit's tree as a worktree has it.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// The tree that the commit names.
    pub stored: ObjectId,
    /// Choices for its conflicts that count already, without files: what was chosen is in `tree`.
    pub chosen: Vec<Chosen>,
    /// The tree that files are compared with.
    pub tree: ObjectId,
    pub shown: Vec<Shown>,
    /// Paths at which sides of conflicts are shown.
    sides: HashSet<Vec<u8>>,
    /// Conflicts at paths that this repository does not hold: what of each is missing first. They
    /// stay in `tree` as they are.
    pub unseen: Vec<Lack>,
}

impl Form {
    /// That of a tree without conflicts.
    pub fn plain(tree: ObjectId) -> Form {
        Form {
            stored: tree,
            chosen: Vec::new(),
            tree,
            shown: Vec::new(),
            sides: HashSet::new(),
            unseen: Vec::new(),
        }
    }

    /// Whether the commit has conflicts, open or not.
    pub fn has_conflicts(&self) -> bool {
        !self.shown.is_empty() || !self.chosen.is_empty()
    }

    /// Fails with [`RepoError::Lacking`] if it cannot be told how some conflict is shown whose path
    /// is `wanted`.
    pub fn check_known(&self, wanted: impl Fn(&[u8]) -> bool) -> Result<(), RepoError> {
        let is_in = |shown: &&Shown| wanted(shown.at.path.as_bytes());
        let lacks = self.shown.iter().filter(is_in).flat_map(|s| &s.lacks);
        let unseen = self.unseen.iter().filter(|lack| wanted(&lack.path));
        refuse(lacks.chain(unseen).cloned().collect())
    }

    /// Whether a side of a conflict is shown at `path` or, a directory, above it.
    pub fn is_side(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut ends = above.map(|(end, _)| end).chain([path.len()]);
        !self.sides.is_empty() && ends.any(|end| self.sides.contains(&path[..end]))
    }
}

impl ObjectRead for Repo {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        if !self.made.is_empty()
            && let Some(bytes) = self.made.read(ty, id)?
        {
            return Ok(Some(bytes));
        }
        self.store.read(ty, id)
    }

    // Walks ask this of every chunk of a transfer: its bytes stay unread.
    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok((!self.made.is_empty() && self.made.holds(ty, id)?) || self.store.holds(ty, id)?)
    }
}

impl Repo {
    /// The unresolved conflicts of a commit, in path order.
    pub fn conflicts(&self, commit: &Commit) -> Result<Vec<ConflictAt>, RepoError> {
        let mut out = Vec::new();
        for path in self.conflict_paths(commit)? {
            out.extend(self.conflict_at(&commit.tree, path)?);
        }
        Ok(out)
    }

    /// The same of a commit of which not all is here: the conflicts that can be looked at, and what is
    /// missing of each of those that lie outside of what this repository holds.
    pub fn conflicts_here(
        &self,
        commit: &Commit,
    ) -> Result<(Vec<ConflictAt>, Vec<Lack>), RepoError> {
        if !self.is_partial() {
            return Ok((self.conflicts(commit)?, Vec::new()));
        }
        let (mut here, mut unseen) = (Vec::new(), Vec::new());
        // A slice that cannot be read is told of by others, and stops nobody who only looks.
        let slice = self.slice().ok();
        for path in self.conflict_paths(commit)? {
            let is_outside = slice
                .as_ref()
                .is_none_or(|slice| slice.may_lack(ObjectType::Conflict, path.as_bytes(), None));
            let lack = |ty, id| Lack {
                path: path.as_bytes().to_vec(),
                root: Root::Object(ty, id),
            };
            if is_outside && self.store.is_being_filled() {
                // To look for what is not going to come is to wait for the end of the transfer.
                unseen.push(lack(ObjectType::Tree, commit.tree));
                continue;
            }
            match self.conflict_at(&commit.tree, path.clone()) {
                Ok(at) => here.extend(at),
                Err(RepoError::Absent { id, ty }) if is_outside => unseen.push(lack(ty, id)),
                Err(e) => return Err(e),
            }
        }
        Ok((here, unseen))
    }

    /// The conflict that an entry of a tree is.
    pub fn conflict_of(&self, path: &RepoPath, entry: &TreeEntry) -> Result<ConflictAt, RepoError> {
        Ok(ConflictAt {
            path: path.clone(),
            id: entry.id,
            conflict: read_conflict(self.objects(), &entry.id)?,
        })
    }

    /// The commits that a merge commit brought together, and what they started from: where the
    /// versions of its conflicts come from. None for other commits, or where they are not here.
    pub fn merged_by(&self, commit: &Commit) -> Result<Vec<ObjectId>, RepoError> {
        let [ours, theirs, ..] = commit.parents[..] else {
            return Ok(Vec::new());
        };
        match merge_bases(self.objects(), &ours, &theirs) {
            Ok(bases) => Ok([commit.parents.clone(), bases].concat()),
            Err(ObjectError::Missing { .. }) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }

    /// The first of `commits` that has just `term` at `path`.
    pub fn origin_of(
        &self,
        path: &RepoPath,
        term: &Term,
        commits: &[ObjectId],
    ) -> Result<Option<ObjectId>, RepoError> {
        let wanted = entry_of(&last_name(path), term, None);
        for id in commits {
            let tree = self.read_commit(id)?.tree;
            let found = lookup_path(self.objects(), &tree, path)?;
            if found.is_some_and(|found| found.same_content(&wanted)) {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    /// The conflict at `path` in a tree, if there is one.
    pub(super) fn conflict_at(
        &self,
        tree: &ObjectId,
        path: RepoPath,
    ) -> Result<Option<ConflictAt>, RepoError> {
        let entry = lookup_path(self.objects(), tree, &path)?;
        let Some(entry) = entry.filter(|entry| entry.kind == Kind::Conflict) else {
            return Ok(None);
        };
        self.conflict_of(&path, &entry).map(Some)
    }

    /// Paths where a commit has, or is said to have, conflicts.
    pub(super) fn conflict_paths(&self, commit: &Commit) -> Result<Vec<RepoPath>, RepoError> {
        let listed = commit.extras.iter().find(|(key, _)| key == CONFLICTS_KEY);
        let Some((_, list)) = listed else {
            return Ok(Vec::new());
        };
        if !list.is_empty() {
            let paths = list.split(|b| *b == 0);
            let paths: BTreeSet<RepoPath> = paths.filter_map(|p| RepoPath::parse(p).ok()).collect();
            return Ok(paths.into_iter().filter(|path| !path.is_root()).collect());
        }
        let mut out = Vec::new();
        self.list(&RepoPath::root(), commit.tree, true, &mut |listed| {
            if listed.entry.kind == Kind::Conflict {
                out.push(listed.path);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(out)
    }

    /// The form of the commit `id` in this worktree.
    pub(super) fn form_at(&self, id: &ObjectId) -> Result<Form, RepoError> {
        self.form_with(&self.read_commit(id)?, self.record()?)
    }

    /// The form of a commit in a worktree that has a record of choices.
    pub(super) fn form_with(
        &self,
        commit: &Commit,
        record: Option<Record>,
    ) -> Result<Form, RepoError> {
        let chosen = self.chosen(record, &commit.tree)?;
        self.form_of(commit, chosen)
    }

    /// The tree of a commit with each conflict as files: what an export writes of `wanted` paths.
    pub fn readable_tree(
        &self,
        commit: &Commit,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<ObjectId, RepoError> {
        let form = self.form_of(commit, Vec::new())?;
        form.check_known(wanted)?;
        Ok(form.tree)
    }

    /// The form of a commit with some choices. Its objects that are not stored are kept in memory.
    pub(super) fn form_of(&self, commit: &Commit, chosen: Vec<Chosen>) -> Result<Form, RepoError> {
        let mut form = Form::plain(commit.tree);
        let mut edits = edits_of(&chosen);
        let mut taken: BTreeSet<RepoPath> = edits.keys().cloned().collect();
        let (conflicts, unseen) = self.conflicts_here(commit)?;
        form.unseen = unseen;
        let settled: HashSet<&RepoPath> = chosen.iter().map(|chosen| &chosen.path).collect();
        for at in conflicts {
            if !settled.contains(&at.path) {
                let shown = self.show(at, &commit.tree, &mut taken)?;
                let sides = shown.sides.iter();
                form.sides
                    .extend(sides.map(|(path, _)| path.as_bytes().to_vec()));
                form.shown.push(shown);
            }
        }
        form.chosen = chosen;
        if form.shown.is_empty() && edits.is_empty() {
            return Ok(form);
        }
        for shown in &form.shown {
            edits.insert(shown.at.path.clone(), shown.entry.clone());
            for (path, entry) in &shown.sides {
                edits.insert(path.clone(), Some(entry.clone()));
            }
        }
        let made = edit_tree(self.objects(), &mut &self.made, commit.tree, &edits)?;
        form.tree = made.id;
        Ok(form)
    }

    fn show(
        &self,
        at: ConflictAt,
        tree: &ObjectId,
        taken: &mut BTreeSet<RepoPath>,
    ) -> Result<Shown, RepoError> {
        let name = last_name(&at.path);
        let mut sides = Vec::new();
        for (label, term) in at.versions() {
            let Some(term) = term else { continue };
            let path = self.free_name(&at.path, &label, tree, taken)?;
            let entry = entry_of(&last_name(&path), &term, None);
            sides.push((path, entry));
        }
        let mut lacks = Vec::new();
        let marked = self.marked(&at, &mut lacks)?;
        let ours = at.ours().filter(|ours| ours.kind != Kind::Directory);
        let entry = match &marked {
            Some(marked) => {
                let Blob { id, is_list, size } = write_blob(&marked.text, &mut &self.made)?;
                ours.map(|ours| Term {
                    id,
                    is_list,
                    size,
                    ..ours
                })
            }
            None => ours,
        };
        Ok(Shown {
            entry: entry.map(|term| entry_of(&name, &term, None)),
            at,
            marked,
            sides,
            lacks,
        })
    }

    /// The text that base and sides make together, if all of them are texts and differ. What would
    /// have to be looked at and is not here is added to `lacks`.
    fn marked(&self, at: &ConflictAt, lacks: &mut Vec<Lack>) -> Result<Option<Marked>, RepoError> {
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
            match read_text(self.objects(), &term)? {
                Some(content) => *text = content,
                None => {
                    let path = at.path.as_bytes();
                    lacks.extend(unread(self.objects(), path, &at.texts())?);
                    return Ok(None);
                }
            }
        }
        // A form is made in one go; how long that takes has its bound in the comparison.
        let never = AtomicBool::new(false);
        let made = marked_text(&texts[0], &texts[1], &texts[2], &never);
        let made = made.map_err(|_| RepoError::Cancelled)?;
        Ok((made.regions > 0).then_some(made))
    }

    /// A name beside `path` that the tree does not have.
    fn free_name(
        &self,
        path: &RepoPath,
        label: &str,
        tree: &ObjectId,
        taken: &mut BTreeSet<RepoPath>,
    ) -> Result<RepoPath, RepoError> {
        for n in 1u32.. {
            let ending = match n {
                1 => format!(".{label}"),
                n => format!(".{label}.{n}"),
            };
            let path = beside(path, &ending)?;
            let free = !taken.contains(&path) && lookup_path(self, tree, &path)?.is_none();
            if free {
                taken.insert(path.clone());
                return Ok(path);
            }
        }
        unreachable!("a directory has fewer names than numbers")
    }
}

/// The path with `ending` added to its last name, which is cut where it would be too long.
pub(super) fn beside(path: &RepoPath, ending: &str) -> Result<RepoPath, RepoError> {
    let name = path.file_name().unwrap_or_default();
    let mut len = name.len().min(MAX_NAME_BYTES.saturating_sub(ending.len()));
    // Not inside a character.
    while len > 0 && name.get(len).is_some_and(|b| b & 0xc0 == 0x80) {
        len -= 1;
    }
    let dir = path.parent().unwrap_or_default();
    let name = [&name[..len], ending.as_bytes()].concat();
    Repo::parse_path(&crate::worktree::join(dir.as_bytes(), &name))
}

pub(super) fn last_name(path: &RepoPath) -> SafeName {
    let name = path.file_name().unwrap_or_default();
    SafeName::new(name).expect("a path consists of valid names")
}

/// Sets a commit's list of conflicts, which are at `paths`, in order.
pub(super) fn list_conflicts(extras: &mut Vec<(Vec<u8>, Vec<u8>)>, paths: &[RepoPath]) {
    extras.retain(|(key, _)| key != CONFLICTS_KEY);
    if paths.is_empty() {
        return;
    }
    let mut list = paths
        .iter()
        .map(|path| path.as_bytes())
        .collect::<Vec<_>>()
        .join(&0);
    if list.len() > MAX_LIST_BYTES {
        list.clear();
    }
    extras.push((CONFLICTS_KEY.to_vec(), list));
    extras.sort();
}

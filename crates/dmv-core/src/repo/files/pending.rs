//! The conflicts of a worktree that no commit has yet: noting them, and showing them in its form.
//!
//! To a switch their files are edits like any other, so nothing overwrites them. The commands that
//! know conflicts (`status`, `conflicts`, `diff`, `resolve`, `commit`) see them in the form of the
//! base, as `conflict::pending` says.

use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::STASH;
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::conflict::form::{Form, Shown, ShownSide};
use crate::repo::conflict::pending::{PendingConflict, added, note_in, noted};
use crate::repo::conflict::settle::{WorktreeComparison, stat_of};
use crate::repo::conflict::{form, settle};
use crate::repo::files::checkout::target::SwitchTo;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::saved::{all_gone, stat_at, store_made};
use crate::repo::look::entries;
use crate::worktree::select::is_under;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Which of the conflicts that no commit has a command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are neither over (the file is as the commit has it, and no version is beside it) nor put aside.
    Live,
    /// All that the next commit ends: without those that a stash has put aside.
    All,
}

/// Returns the worktree with these conflicts in the form of its base.
pub fn with_conflicts(
    repo: &Repo,
    mut tree: OpenWorktree,
    which: Which,
) -> Result<OpenWorktree, RepoError> {
    let mut pending = std::mem::take(&mut tree.pending);
    let Some(form) = tree.form.take() else {
        return Ok(tree);
    };
    pending = match which {
        Which::Live => live(repo, &tree, &form, pending)?,
        Which::All => {
            let aside = PutAside::find(repo, &tree, &pending)?;
            pending.retain(|one| !aside.has(&one.at.path));
            pending
        }
    };
    let form = form.with_pending(repo, pending)?;
    tree.base_tree = Some(form.tree);
    tree.form = Some(form);
    Ok(tree)
}

/// Returns the conflicts that are not over.
fn live(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    pending: Vec<PendingConflict>,
) -> Result<Vec<PendingConflict>, RepoError> {
    let aside = PutAside::find(repo, tree, &pending)?;
    let mut out = Vec::new();
    for one in pending {
        if !aside.has(&one.at.path) && !is_over(repo, tree, form, &one)? {
            out.push(one);
        }
    }
    Ok(out)
}

/// The conflicts that a stash has put aside with their files. They come back when it is applied.
pub struct PutAside {
    /// Their paths, with the number of the stash.
    paths: BTreeMap<RepoPath, usize>,
}

impl PutAside {
    /// Finds those among `pending` whose files are in a stash, and of which the worktree shows nothing.
    pub fn find(
        repo: &Repo,
        tree: &OpenWorktree,
        pending: &[PendingConflict],
    ) -> Result<PutAside, RepoError> {
        let mut paths = BTreeMap::new();
        if pending.is_empty() {
            return Ok(PutAside { paths });
        }
        let mut stashes = Vec::new();
        for (key, value) in repo.refs.with_prefix(STASH)?.into_iter().rev() {
            let commit = worktree::id_value(repo, &key, &value)?;
            stashes.push(repo.read_commit(&commit)?.tree);
        }
        for one in pending {
            if stashes.is_empty() || is_side_there(tree, one)? {
                continue;
            }
            let shown = form::show_pending(repo, one)?;
            if settle::has_markers(&tree.root, &shown) {
                continue;
            }
            for (n, stash) in stashes.iter().enumerate() {
                if has_files_of(repo, stash, &shown)? {
                    paths.insert(one.at.path.clone(), n);
                    break;
                }
            }
        }
        Ok(PutAside { paths })
    }

    /// Returns whether the conflict at `path` is put aside.
    pub fn has(&self, path: &RepoPath) -> bool {
        self.paths.contains_key(path)
    }

    /// Returns the first conflict at or under `path`, with the number of its stash.
    pub fn first_under(&self, path: &RepoPath) -> Option<(&RepoPath, usize)> {
        let mut paths = self.paths.iter();
        let found = paths.find(|(at, _)| at.starts_with(path))?;
        Some((found.0, *found.1))
    }
}

/// Returns whether a tree has the files that show a conflict: the text with its markers, or all versions.
pub fn has_files_of(repo: &Repo, tree: &ObjectId, shown: &Shown) -> Result<bool, RepoError> {
    let has = |path: &RepoPath, entry: &TreeEntry| -> Result<bool, RepoError> {
        let there = lookup_path(repo.objects(), tree, path)?;
        Ok(there.is_some_and(|there| there.same_content(entry)))
    };
    if shown.markers.are_possible()
        && let Some(own) = shown.entry()
        && has(&shown.at.path, &own)?
    {
        return Ok(true);
    }
    for (path, entry) in shown.sides.iter().map(ShownSide::file) {
        if !has(&path, &entry)? {
            return Ok(false);
        }
    }
    Ok(!shown.sides.is_empty())
}

fn is_side_there(tree: &OpenWorktree, pending: &PendingConflict) -> Result<bool, RepoError> {
    for side in &pending.sides {
        if stat_of(&tree.root, side.path.as_bytes())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_over(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    pending: &PendingConflict,
) -> Result<bool, RepoError> {
    Ok(!is_side_there(tree, pending)? && is_as_committed(repo, tree, form, &pending.at.path)?)
}

/// Returns whether the worktree has at `path` what the commit has there.
fn is_as_committed(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    path: &RepoPath,
) -> Result<bool, RepoError> {
    let committed = lookup_path(repo.objects(), &form.stored, path)?;
    match (committed, stat_of(&tree.root, path.as_bytes())?) {
        (None, None) => Ok(true),
        (Some(entry), Some(stat)) => match entry.kind {
            Kind::Directory => Ok(stat.kind == FileKind::Dir),
            // What cannot be read is not known to be over.
            _ => match same_as(repo, tree, path.as_bytes(), &entry, &stat) {
                Ok(same) => Ok(same),
                Err(SameError::Path(_)) => Ok(false),
                Err(SameError::Repo(e)) => Err(e),
            },
        },
        _ => Ok(false),
    }
}

/// Returns the conflicts that are not over, of a worktree without them in its form.
pub fn live_in(repo: &Repo, tree: &OpenWorktree) -> Result<Vec<PendingConflict>, RepoError> {
    match &tree.form {
        Some(form) => live(repo, tree, form, tree.pending.clone()),
        None => Ok(Vec::new()),
    }
}

/// Returns their paths, without the files beside them. To a switch the file there is the user's,
/// even if it is as the commit has it.
pub fn own_paths(repo: &Repo, tree: &OpenWorktree) -> Result<Vec<RepoPath>, RepoError> {
    let live = live_in(repo, tree)?.into_iter();
    Ok(live.map(|one| one.at.path).collect())
}

/// Returns a conflict with the files that the worktree has of it. `None` if it has none.
pub fn in_subset(tree: &OpenWorktree, shown: &Shown) -> Option<PendingConflict> {
    let is_in = |path: &RepoPath| tree.subset.includes(path.as_bytes(), false);
    let mut one = PendingConflict::of(shown);
    one.sides.retain(|side| is_in(&side.path));
    (is_in(&shown.at.path) || !one.sides.is_empty()).then_some(one)
}

/// Returns the notes with conflicts that files show, beside earlier ones about other paths.
pub fn with_new(
    repo: &Repo,
    tree: &OpenWorktree,
    new: Vec<PendingConflict>,
) -> Result<PathNotes, RepoError> {
    let mut notes = tree.notes.clone();
    if !new.is_empty() {
        note_in(&mut notes, &added(noted(repo, &tree.notes)?, new));
    }
    Ok(notes)
}

/// Returns the notes that stay when a switch makes its target the base's. Forgets conflicts that are over
/// and about the same paths as a conflict of the new commit: they would show it as settled. Call it
/// before the switch writes files.
pub fn after_switch(
    repo: &Repo,
    tree: &OpenWorktree,
    to: &SwitchTo<'_>,
) -> Result<PathNotes, RepoError> {
    let mut notes = to.notes.clone();
    let form = &to.form;
    if tree.pending.is_empty() || form.shown.is_empty() {
        return Ok(notes);
    }
    let live = live_in(repo, tree)?;
    let is_live = |one: &PendingConflict| live.iter().any(|live| live.at.path == one.at.path);
    let committed: Vec<PendingConflict> = form.shown.iter().map(PendingConflict::of).collect();
    let is_met = |one: &PendingConflict| {
        let mut paths = committed.iter().flat_map(PendingConflict::paths);
        paths.any(|path| one.touches(path.as_bytes()))
    };
    let mut stay = tree.pending.clone();
    stay.retain(|one| is_live(one) || !is_met(one));
    note_in(&mut notes, &stay);
    Ok(notes)
}

/// Removes the conflicts that a commit ends from `notes`, in a worktree whose form has the conflicts
/// that no commit had. Those at `left` stay. So do those that are over while there are stashes, which
/// may bring their files back.
pub fn end_in(
    repo: &Repo,
    notes: &mut PathNotes,
    tree: &OpenWorktree,
    left: &BTreeSet<RepoPath>,
) -> Result<(), RepoError> {
    let may_return = !repo.refs.with_prefix(STASH)?.is_empty();
    let shown = tree.form.iter().flat_map(|form| &form.shown);
    let shown: BTreeSet<&RepoPath> = shown.map(|shown| &shown.at.path).collect();
    notes.retain(|path, note| {
        let stays = left.contains(path) || may_return && !shown.contains(path);
        stays || !matches!(note, Note::Conflict { .. })
    });
    Ok(())
}

/// Stores the files that show conflicts of no commit, so that a commit can have them as they are.
pub fn store_files(tx: &mut Transaction<'_>, form: &Form) -> Result<(), RepoError> {
    for shown in form.shown.iter().filter(|shown| shown.is_pending) {
        let sides = shown.sides.iter().map(|side| side.entry());
        for entry in shown.entry().into_iter().chain(sides) {
            store_made(tx, &entry)?;
        }
    }
    Ok(())
}

/// Turns the changes at the paths of conflicts that no commit has from changes against the form
/// into changes against the commit.
pub fn against_commit(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    told: &mut WorktreeComparison,
) -> Result<(), RepoError> {
    let pending = form.shown.iter().filter(|shown| shown.is_pending);
    for Shown { at, .. } in pending {
        let is_at = |change: &PathChange| is_under(change.path.as_bytes(), at.path.as_bytes());
        if told.changes.iter().any(is_at) {
            told.changes.retain(|change| !is_at(change));
            told.changes.extend(changes_at(repo, tree, form, &at.path)?);
        }
    }
    told.changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// Opens conflicts again that count as settled because their file could not be written.
pub fn open_unwritten(form: &Form, unwritten: &BTreeSet<Vec<u8>>, told: &mut WorktreeComparison) {
    for Shown { at, .. } in form.shown.iter().filter(|shown| shown.is_pending) {
        if unwritten.contains(at.path.as_bytes()) && told.settled.contains(&at.path) {
            told.settled.retain(|settled| *settled != at.path);
            told.changes.retain(|change| change.path != at.path);
            told.open.push(at.path.clone());
        }
    }
    told.open.sort();
}

/// Returns how the files at and below `path` differ from the commit.
fn changes_at(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    path: &RepoPath,
) -> Result<Vec<PathChange>, RepoError> {
    let mut committed: BTreeMap<Vec<u8>, TreeEntry> = BTreeMap::new();
    match lookup_path(repo.objects(), &form.stored, path)? {
        Some(entry) if entry.kind == Kind::Directory => {
            let mut note = |listed: entries::ListingLine| {
                committed.insert(listed.path.into_bytes(), listed.entry);
                Ok(ControlFlow::Continue(()))
            };
            repo.list_subset(path, entry.id, &tree.subset, &mut note)?;
        }
        Some(entry) => {
            committed.insert(path.as_bytes().to_vec(), entry);
        }
        None => {}
    }
    let there = match stat_at(tree, path.as_bytes())? {
        Some(stat) if stat.kind == FileKind::Dir => all_gone(tree, vec![path.as_bytes().to_vec()])?
            .into_keys()
            .collect(),
        Some(_) => vec![path.as_bytes().to_vec()],
        None => Vec::new(),
    };
    let mut changes = Vec::new();
    let mut note = |path: Vec<u8>, kind| {
        let path = RepoPath::from_checked(path);
        changes.push(PathChange { path, kind });
    };
    for path in there {
        match (committed.remove(&path), stat_at(tree, &path)?) {
            (Some(entry), Some(stat)) => {
                let same = match same_as(repo, tree, &path, &entry, &stat) {
                    Ok(same) => same || entry.kind == Kind::Directory && stat.kind == FileKind::Dir,
                    Err(SameError::Path(_)) => false,
                    Err(SameError::Repo(e)) => return Err(e),
                };
                if !same {
                    note(path, ChangeKind::Modified);
                }
            }
            _ => note(path, ChangeKind::Added),
        }
    }
    for (path, _) in committed {
        note(path, ChangeKind::Deleted);
    }
    Ok(changes)
}

/// Returns the paths that a commit of all files leaves out, because they show a conflict of no
/// commit that is `open`: with `told`, what differs from the form.
pub fn left_out(form: &Form, told: &WorktreeComparison) -> Vec<RepoPath> {
    let changed: BTreeSet<&RepoPath> = told.changes.iter().map(|change| &change.path).collect();
    let mut out = Vec::new();
    for shown in form.shown.iter().filter(|shown| shown.is_pending) {
        if told.open.contains(&shown.at.path) {
            let own = shown.own.iter().map(|_| &shown.at.path);
            let sides = shown.sides.iter().map(|side| &side.path);
            let sides = sides.filter(|side| !changed.contains(side));
            out.extend(own.chain(sides).cloned());
        }
    }
    out.sort();
    out
}

//! The conflicts of a worktree that no commit has yet: noting them, and showing them in its form.
//!
//! To a switch their files are edits like any other, so nothing overwrites them. The commands that
//! know conflicts (`status`, `conflicts`, `diff`, `resolve`, `commit`) see them in the form of the
//! base, as `conflict::pending` says.

use crate::fsutil::FileKind;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::STASH;
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::conflict::form::{Form, Shown};
use crate::repo::conflict::pending::{PendingConflict, added, note_in, noted};
use crate::repo::conflict::settle::{WorktreeComparison, stat_of};
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
    /// Those that are not over: the file is as the commit has it, and no version is beside it.
    Live,
    /// All that the next commit ends.
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
    if which == Which::Live {
        pending = live(repo, &tree, &form, pending)?;
    }
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
    let mut out = Vec::new();
    for one in pending {
        if !is_over(repo, tree, form, &one)? {
            out.push(one);
        }
    }
    Ok(out)
}

fn is_over(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    pending: &PendingConflict,
) -> Result<bool, RepoError> {
    for side in &pending.sides {
        if stat_of(&tree.root, side.path.as_bytes())?.is_some() {
            return Ok(false);
        }
    }
    let path = &pending.at.path;
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

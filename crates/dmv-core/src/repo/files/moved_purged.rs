//! Moving files whose content was purged.
//!
//! The content may not be stored again, so the next commit takes the entry from the base, by its id. If no
//! checkout could write the file, there is none to rename: then only the note of the unwritten path moves
//! (docs/format/layout.md, "Paths that were not written").

use crate::diff::changes;
use crate::merge::{Edits, edit_tree};
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::slice::RepoSlice;
use crate::repo::base::{path, slice};
use crate::repo::conflict::names::last_name;
use crate::repo::files::commit::{StoredCommit, readable};
use crate::repo::files::moving::EntryMove;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::saved::stat_at;
use crate::repo::files::unwritten;
use crate::store::MetaWriter;
use crate::worktree::scan::Select;
use crate::worktree::snapshot::{Problem, Snapshot};
use crate::worktree::split_path;

/// Returns whether a path has no file because its content was purged, so that only its note can move.
pub(in crate::repo) fn is_only_noted(
    repo: &Handle,
    tree: &OpenWorktree,
    at: &[u8],
) -> Result<bool, RepoError> {
    Ok(unwritten::purged_paths(repo, tree)?.contains(at))
}

/// Lets the notes of purged files move along with what `mv`, or its undo, has moved.
pub(in crate::repo) fn move_notes(
    repo: &Handle,
    tree: &OpenWorktree,
    moves: &[EntryMove],
) -> Result<(), RepoError> {
    let purged = unwritten::purged_paths(repo, tree)?;
    if purged.is_empty() {
        return Ok(());
    }
    let mut notes = unwritten::noted_unwritten(repo)?;
    let mut is_changed = false;
    for note in notes.iter_mut() {
        let old = note.path.clone();
        if !purged.contains(old.as_bytes()) {
            continue;
        }
        for EntryMove { from, to } in moves {
            let Some(new) = below(&old, from, to)? else {
                continue;
            };
            let base = note.path_in_base(repo, tree)?;
            note.from = (base != new).then_some(base);
            note.path = new;
            is_changed = true;
            break;
        }
    }
    if is_changed {
        unwritten::note_unwritten(repo, &notes)?;
    }
    Ok(())
}

/// Returns the new path of `old` if it is `from` or lies below it.
fn below(old: &RepoPath, from: &RepoPath, to: &RepoPath) -> Result<Option<RepoPath>, RepoError> {
    if !old.starts_with(from) {
        return Ok(None);
    }
    let rest = &old.as_bytes()[from.as_bytes().len()..];
    path::parse_path(&[to.as_bytes(), rest].concat()).map(Some)
}

/// Gives moved files their purged entries in the tree to commit, and takes these files off the problems
/// of the snapshot.
pub(in crate::repo) fn with_moved<'s>(
    repo: &'s Handle,
    tree: &OpenWorktree,
    (writer, before, made): StoredCommit<'s>,
    (select, snapshot): (&dyn Select, &mut Snapshot),
) -> Result<StoredCommit<'s>, RepoError> {
    let (Some(form), true) = (&tree.form, slice::is_partial(repo)) else {
        return Ok((writer, before, made));
    };
    let is_selected = |path: &RepoPath| {
        let split = split_path(path.as_bytes());
        split.is_some_and(|(dir, name)| select.takes(dir, name))
    };
    let mut edits = Edits::new();
    for (from, to, entry) in unwritten::moved_entries(repo, tree)? {
        if is_selected(&from) && is_selected(&to) {
            edits.insert(to, Some(entry));
        }
    }
    // Without its file, a purged entry is a problem. An unreadable slice stops no commit; other
    // commands report it.
    let slice = if snapshot.problems.is_empty() {
        RepoSlice::default()
    } else {
        slice::slice(repo).unwrap_or_default()
    };
    let purged = &slice.purged;
    let may_be_moved = !purged.is_empty();
    let (writer, before, root) = match made {
        Some(made) if may_be_moved || !edits.is_empty() => {
            let (writer, sealed) = readable(repo, writer, before)?;
            (writer, Some(sealed), made.id)
        }
        // Without a change, no file has gone.
        made => return Ok((writer, before, made)),
    };
    if may_be_moved {
        let gone: Vec<TreeEntry> = changes(repo.objects(), Some(form.stored), Some(root))?
            .into_iter()
            .filter(|change| change.new.is_none())
            .filter_map(|change| change.old)
            .filter(|old| old.kind.is_blob() && purged.contains_key(&old.id))
            .collect();
        edits.extend(moved_on_disk(repo, tree, &gone, &mut snapshot.problems)?);
    }
    let mut meta = MetaWriter::new(&writer);
    let summary = edit_tree(repo.objects(), &mut meta, root, &edits)?;
    meta.flush()?;
    drop(meta);
    Ok((writer, before, Some(summary)))
}

/// Finds the files with the content of an entry that is gone, and takes them off the problems.
fn moved_on_disk(
    repo: &Handle,
    tree: &OpenWorktree,
    gone: &[TreeEntry],
    problems: &mut Vec<Problem>,
) -> Result<Edits, RepoError> {
    let mut found = Edits::new();
    for problem in problems.iter() {
        let Some(stat) = stat_at(tree, problem.path.as_bytes())? else {
            continue;
        };
        for entry in gone {
            match same_as(repo, &tree.root, problem.path.as_bytes(), entry, &stat) {
                Ok(true) => {}
                Ok(false) | Err(SameError::Path(_)) => continue,
                Err(SameError::Repo(e)) => return Err(e),
            }
            let to = path::parse_path(problem.path.as_bytes())?;
            let mut entry = entry.clone();
            entry.name = last_name(&to);
            found.insert(to, Some(entry));
            break;
        }
    }
    let is_found = |problem: &Problem| {
        let mut paths = found.keys();
        paths.any(|path| path.as_bytes() == problem.path.as_bytes())
    };
    problems.retain(|problem| !is_found(problem));
    Ok(found)
}

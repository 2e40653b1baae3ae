//! The tracked files that a user names by paths, for `rm` and `mv`, and why a path is refused.

use crate::diff::is_wanted;
use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::repo::base::error::{FilesError, LookError, PathRefusal, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::conflict::pending::PendingConflict;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::stat_at;
use crate::repo::files::{ignored, pending};
use crate::repo::look::entries;
use crate::subset::Extent;
use crate::worktree::base::entry_at;
use crate::worktree::ignore::Verdict;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The tracked files and empty directories at or below some paths.
#[derive(Debug, Default)]
pub struct NamedFiles {
    /// Those that the worktree's subset includes.
    pub inside: BTreeMap<Vec<u8>, TreeEntry>,
    /// Those outside of the subset, if the path itself is outside.
    pub outside: BTreeMap<Vec<u8>, TreeEntry>,
}

/// Finds what `paths` name in the base as the worktree shows it. Fails for a path that is not
/// tracked, and for a directory unless `recursive` is set.
pub fn named(
    repo: &Repo,
    tree: &OpenWorktree,
    paths: &[RepoPath],
    recursive: bool,
) -> Result<NamedFiles, RepoError> {
    let form = tree.form.as_ref().ok_or(LookError::NoCommit)?;
    let mut out = NamedFiles::default();
    for path in paths {
        let shown = form.shown.iter().find(|shown| shown.at.path == *path);
        for side in shown.iter().flat_map(|shown| &shown.sides) {
            add(repo, tree, &side.path, &side.entry(), &mut out)?;
        }
        if path.is_root() {
            refuse_unless(recursive, path, PathRefusal::Directory)?;
            add_below(repo, tree, path, form.tree, &mut out)?;
            continue;
        }
        match entry_at(repo.objects(), &form.tree, path.as_bytes())? {
            Some(entry) if entry.kind == Kind::Directory => {
                refuse_unless(recursive, path, PathRefusal::Directory)?;
                add(repo, tree, path, &entry, &mut out)?;
            }
            Some(entry) => add(repo, tree, path, &entry, &mut out)?,
            None if shown.is_some() => {}
            None => return Err(not_tracked(repo, tree, path)?),
        }
    }
    Ok(out)
}

fn refuse_unless(allowed: bool, path: &RepoPath, why: PathRefusal) -> Result<(), RepoError> {
    if allowed {
        Ok(())
    } else {
        Err(refused(path, why))
    }
}

/// Returns the error for a path that a command does not accept.
pub fn refused(path: &RepoPath, why: PathRefusal) -> RepoError {
    let path = path.clone();
    RepoError::Files(FilesError::PathRefused { path, why })
}

/// Returns why a path that the base does not have cannot be used as a tracked one.
pub fn not_tracked(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
) -> Result<RepoError, RepoError> {
    let Some(stat) = stat_at(tree, path.as_bytes())? else {
        return Ok(refused(path, PathRefusal::Nowhere));
    };
    let is_dir = stat.kind == FileKind::Dir;
    Ok(match ignored::verdict(repo, tree, path, is_dir)? {
        Verdict::Ignored => refused(path, PathRefusal::Ignored),
        Verdict::Wanted | Verdict::Unknown => refused(path, PathRefusal::Untracked),
    })
}

/// Adds an entry, or everything below it if it is a directory.
fn add(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
    entry: &TreeEntry,
    out: &mut NamedFiles,
) -> Result<(), RepoError> {
    if entry.kind == Kind::Directory && entry.id != empty_tree_id() {
        return add_below(repo, tree, path, entry.id, out);
    }
    let list = if is_wanted(&tree.subset, path, entry) {
        &mut out.inside
    } else {
        &mut out.outside
    };
    list.insert(path.as_bytes().to_vec(), entry.clone());
    Ok(())
}

/// Adds everything in the directory `path`. If the subset has a part of it, adds that part only.
fn add_below(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
    id: ObjectId,
    out: &mut NamedFiles,
) -> Result<(), RepoError> {
    let is_outside = tree.subset.extent(path.as_bytes()) == Extent::None;
    let list = if is_outside {
        &mut out.outside
    } else {
        &mut out.inside
    };
    let mut note = |listed: entries::ListingLine| {
        list.insert(listed.path.as_bytes().to_vec(), listed.entry);
        Ok(ControlFlow::Continue(()))
    };
    if is_outside {
        repo.list(path, id, true, &mut note)
    } else {
        repo.list_subset(path, id, &tree.subset, &mut note)
    }
}

/// Fails if `path` is at, below or above the files of a conflict.
pub fn refuse_in_conflict(repo: &Repo, tree: &OpenWorktree, path: &[u8]) -> Result<(), RepoError> {
    let shown = tree.form.iter().flat_map(|form| &form.shown);
    let mut all: Vec<PendingConflict> = shown.map(PendingConflict::of).collect();
    all.extend(pending::live_in(repo, tree)?);
    match all.iter().find(|one| one.touches(path)) {
        Some(one) => Err(refused(&one.at.path, PathRefusal::Conflict)),
        None => Ok(()),
    }
}

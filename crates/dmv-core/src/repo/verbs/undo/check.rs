//! What stands in the way of an undo: later changes, and worktrees on the branches that it moves.

use super::{refused, short};
use crate::refs::{Change, Operation};
use crate::repo::base::error::{BranchError, LaterChange, RepoError, UndoError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, head_key, path_key, worktree_of};
use crate::repo::base::repo::Repo;
use crate::repo::base::{branch, worktree};
use crate::repo::files::worktrees::{WholeWorktree, whole_worktree};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Fails if a value that `undone` changed is no longer the value that it set.
pub fn check_unchanged(
    repo: &Repo,
    undone: &Operation,
    changes: &[Change],
) -> Result<(), RepoError> {
    for change in changes {
        if repo.refs.get(&change.key)? == change.old {
            continue;
        }
        if let WholeWorktree::Came(name) = whole_worktree(&undone.changes) {
            let path = worktree::worktree_path(repo, &name)?.into();
            let operation = short(undone);
            return Err(UndoError::WorktreeUsed { operation, path }.into());
        }
        let by = changed_by(repo, undone, &change.key)?;
        let here = worktree::worktree_name(repo).unwrap_or_default();
        let told = |later: Operation| -> Result<Box<LaterChange>, RepoError> {
            let name = later.worktree();
            let at = if name.is_empty() || name == here {
                String::new()
            } else {
                worktree::worktree_path(repo, name)?
            };
            Ok(Box::new(LaterChange {
                operation: short(&later),
                at: Some(PathBuf::from(at)).filter(|at| at.is_absolute()),
                command: later.command,
            }))
        };
        return Err(UndoError::ChangedSince {
            operation: short(undone),
            what: spoken(&change.key),
            undone: by.as_ref().is_some_and(|later| later.undoes == undone.seq),
            by: by.map(told).transpose()?,
        }
        .into());
    }
    Ok(())
}

/// Returns the last operation after `undone` that is in force and has changed `key`. What was taken back since, and
/// what took it back, stands in nobody's way.
fn changed_by(repo: &Repo, undone: &Operation, key: &str) -> Result<Option<Operation>, RepoError> {
    let mut by = None;
    repo.each_operation(&mut |later, is_undone| {
        if later.seq <= undone.seq {
            return Ok(ControlFlow::Break(()));
        }
        let cancels = is_undone || later.undoes > undone.seq;
        if cancels || later.changes.iter().all(|c| c.key != key) {
            return Ok(ControlFlow::Continue(()));
        }
        by = Some(later);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(by)
}

/// Refuses changes that would leave a worktree on a branch that does not exist, or two worktrees on
/// one branch.
pub fn check_heads(repo: &Repo, undone: &Operation, changes: &[Change]) -> Result<(), RepoError> {
    let after = |key: &str| match changes.iter().find(|change| change.key == key) {
        Some(change) => Ok(change.new.clone()),
        None => repo.refs.get(key),
    };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut heads = Vec::new();
    let known = repo.refs.with_prefix("worktree/")?;
    let known = known.iter().map(|(key, _)| key.as_str());
    let keys: BTreeSet<&str> = known
        .chain(changes.iter().map(|c| c.key.as_str()))
        .collect();
    for key in keys {
        let name = worktree_of(key).filter(|name| key == head_key(name));
        let head = after(key)?.as_deref().and_then(Head::parse);
        if let (Some(name), Some(Head::Branch(branch))) = (name, head)
                // The own worktree of a bare repository has no path, and no files.
                && after(&path_key(name))?.is_some()
        {
            let moves = changes.iter().any(|change| change.key == key);
            heads.push((moves, name.to_owned(), branch));
        }
    }
    // Heads that stay as they are come first.
    heads.sort();
    for (moves, worktree, branch) in heads {
        let key = format!("branch/{branch}");
        let gone = after(&key)?.is_none() && after(&base_key(&worktree))?.is_some();
        let goes = changes.iter().any(|change| change.key == key);
        if gone && goes {
            let at = worktree::worktree_path(repo, &worktree)?;
            return Err(BranchError::InUse { name: branch, at }.into());
        }
        if gone && moves {
            let why = format!("branch '{branch}', which it left, no longer exists");
            return Err(refused(undone, why));
        }
        if !taken.insert(branch.clone()) && moves {
            let others = branch::worktrees_on(repo, &branch)?;
            let other = others.into_iter().find(|name| *name != worktree);
            let at = worktree::worktree_path(repo, &other.unwrap_or_default())?;
            return Err(BranchError::InUse { name: branch, at }.into());
        }
    }
    Ok(())
}

/// Returns a key in the words of the user.
fn spoken(key: &str) -> String {
    match key.split_once('/') {
        Some(("worktree", rest)) => {
            let name = rest.split('/').next().unwrap_or_default();
            format!("worktree '{name}'")
        }
        Some(("remote", name)) => format!("remote branch '{name}'"),
        Some((kind, name)) => format!("{kind} '{name}'"),
        None => key.to_owned(),
    }
}

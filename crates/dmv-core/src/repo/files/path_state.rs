//! The state of a path that the user gives to a command on the worktree.

use crate::fsutil::SafeDir;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::tree::lookup_path;
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::handle::Handle;
use crate::repo::base::{notes, worktree};
use crate::repo::conflict::{at, choices, settle};
use crate::repo::files::diff;
use crate::repo::look::entries;
use crate::repo::look::entries::blob_of;
use crate::subset::Extent;
use crate::worktree::select::is_under;

/// The state of a path that the user gives to a command on the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The path is in the worktree or in its commit.
    Known,
    /// The path is neither in the worktree nor in its commit.
    Unknown,
    /// The path is outside the worktree's subset.
    Outside {
        /// Whether something with that name is on disk.
        on_disk: bool,
        /// Set if the commit has a conflict at or below the path: whether a choice settles one.
        conflict: Option<bool>,
    },
}

/// Returns whether the worktree's file at `path` was written with this content and still exists.
pub fn is_checked_out(repo: &Handle, path: &RepoPath, blob: &Blob) -> bool {
    let base = worktree::base_commit(repo).ok().flatten();
    let tree = base.and_then(|id| entries::read_commit(repo, &id).ok());
    let entry = tree.and_then(|commit| lookup_path(repo.objects(), &commit.tree, path).ok()?);
    entry.is_some_and(|entry| blob_of(&entry) == *blob) && diff::stat_worktree(repo, path).is_ok()
}

/// Returns the state of `path`, relative to the worktree's root.
pub fn path_state(repo: &Handle, path: &RepoPath) -> Result<PathState, RepoError> {
    let root = SafeDir::open_root(worktree::worktree_root(repo).ok_or(WorktreeError::NoWorktree)?)?;
    let on_disk = path.is_root() || settle::stat_of(&root, path.as_bytes())?.is_some();
    let commit = worktree::base_commit(repo)?.map(|id| entries::read_commit(repo, &id));
    let commit = commit.transpose()?;
    let subset = worktree::subset(repo)?;
    let bytes = path.as_bytes();
    let is_inside = subset.includes(bytes, false) || subset.extent(bytes) != Extent::None;
    let Some(commit) = commit else {
        return Ok(match (is_inside, on_disk) {
            (false, _) => PathState::Outside {
                on_disk,
                conflict: None,
            },
            (true, true) => PathState::Known,
            (true, false) => PathState::Unknown,
        });
    };
    if is_inside {
        let is_known = on_disk || lookup_path(repo.objects(), &commit.tree, path)?.is_some();
        return Ok(if is_known {
            PathState::Known
        } else {
            PathState::Unknown
        });
    }
    let is_below = |at: &RepoPath| is_under(at.as_bytes(), bytes);
    let has_conflict = at::conflict_paths(repo, &commit)?.iter().any(is_below);
    let chosen = choices::chosen(repo, &notes::read(repo)?, &commit.tree)?;
    let is_settled = chosen.iter().any(|chosen| is_below(&chosen.path));
    Ok(PathState::Outside {
        on_disk,
        conflict: has_conflict.then_some(is_settled),
    })
}

//! The state of a path that the user gives to a command on the worktree.

use crate::fsutil::SafeDir;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::tree::lookup_path;
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::notes;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::{at, choices, settle};
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

impl Repo {
    /// Returns whether the worktree's base has the content `blob` at `path` and the worktree has a
    /// file there.
    pub fn is_checked_out(&self, path: &RepoPath, blob: &Blob) -> bool {
        let base = self.base_commit().ok().flatten();
        let tree = base.and_then(|id| self.read_commit(&id).ok());
        let entry = tree.and_then(|commit| lookup_path(self.objects(), &commit.tree, path).ok()?);
        entry.is_some_and(|entry| blob_of(&entry) == *blob) && self.stat_worktree(path).is_ok()
    }

    /// Returns the state of `path`, which is relative to the worktree's root.
    pub fn path_state(&self, path: &RepoPath) -> Result<PathState, RepoError> {
        let root = SafeDir::open_root(self.worktree_root().ok_or(WorktreeError::NoWorktree)?)?;
        let on_disk = path.is_root() || settle::stat_of(&root, path.as_bytes())?.is_some();
        let commit = self.base_commit()?.map(|id| self.read_commit(&id));
        let commit = commit.transpose()?;
        let subset = self.subset()?;
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
            let is_known = on_disk || lookup_path(self.objects(), &commit.tree, path)?.is_some();
            return Ok(if is_known {
                PathState::Known
            } else {
                PathState::Unknown
            });
        }
        let is_below = |at: &RepoPath| is_under(at.as_bytes(), bytes);
        let has_conflict = at::conflict_paths(self, &commit)?.iter().any(is_below);
        let chosen = choices::chosen(self, &notes::read(self)?, &commit.tree)?;
        let is_settled = chosen.iter().any(|chosen| is_below(&chosen.path));
        Ok(PathState::Outside {
            on_disk,
            conflict: has_conflict.then_some(is_settled),
        })
    }
}

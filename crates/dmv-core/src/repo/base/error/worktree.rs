//! Errors of worktrees as a whole: `files::worktrees`, `open_worktree`, `unfinished`.

use super::more;
use crate::path::DiskPath;
use std::path::PathBuf;

/// A worktree cannot be used, created or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The command needs a worktree, and the current directory is not in one.
    #[error("this command needs a worktree, and the current directory is not in one")]
    NoWorktree,
    /// A worktree cannot be created in this directory.
    #[error("cannot create a worktree in {}: {why}", dir.display())]
    NotFree {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        why: String,
    },
    /// This repository has no worktree at this path.
    #[error("{} is not a worktree of this repository", .0.display())]
    NoSuchWorktree(PathBuf),
    /// The worktree is the main one: it contains the repository itself.
    #[error("{} is the main worktree: it contains the repository itself", .0.display())]
    OwnWorktree(PathBuf),
    /// The user is in the worktree that was to be removed.
    #[error("the current directory is in the worktree at {}, which would be removed; nothing was changed", at.display())]
    InUse {
        /// The directory of the worktree.
        at: PathBuf,
        /// A directory of the repository outside of it.
        from: PathBuf,
    },
    /// The worktree is a copy, so two worktrees have the same name.
    #[error("{} is a copy of the worktree at {}", dir.display(), at.display())]
    WorktreeCopy {
        /// The copy.
        dir: PathBuf,
        /// The original worktree.
        at: PathBuf,
    },
    /// A switch of the worktree was cut off, so the files are a mix of two commits or subsets; or a `stash pop`,
    /// so that they are a mix of edits and a stash.
    #[error(
        "'{command}' was interrupted in this worktree: some files are from before and some from after it"
    )]
    Unfinished {
        /// The command that completes it.
        command: String,
    },
    /// The removal of a worktree would lose work that is stored nowhere else.
    #[error("removing the worktree at {} would lose uncommitted changes in {}{}; nothing was changed", at.display(), paths[0], more(paths.len()))]
    WouldLoseThere {
        /// The directory of the worktree.
        at: PathBuf,
        /// The paths of that work, from there.
        paths: Vec<DiskPath>,
    },
}

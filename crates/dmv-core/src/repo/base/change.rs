//! How one path differs: the terms that `status`, `diff` and `resolve` share.

use crate::object::name::RepoPath;

/// The way in which a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The path is not in the commit.
    Added,
    /// The content or the executable bit differs.
    Modified,
    /// The path is not in the worktree.
    Deleted,
    /// A file, symlink or directory replaces another of these.
    Type,
}

impl ChangeKind {
    /// Returns the word for this change.
    pub fn word(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Type => "type",
        }
    }
}

/// A path that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: RepoPath,
    /// How it differs.
    pub kind: ChangeKind,
}

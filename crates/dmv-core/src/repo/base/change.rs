//! How one path differs: the words that `status`, `diff` and `resolve` share.

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Not in the commit.
    Added,
    /// Other content, or another executable bit.
    Modified,
    /// Not in the worktree.
    Deleted,
    /// File, symlink or directory in place of another of these.
    Type,
}

impl ChangeKind {
    /// The word for it.
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
    /// Where.
    pub path: Vec<u8>,
    /// How.
    pub kind: ChangeKind,
}

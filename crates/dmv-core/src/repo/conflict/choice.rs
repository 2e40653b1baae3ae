//! The choices that a user has for a conflict.

use std::path::PathBuf;

/// The way to settle a conflict.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The version of the side that was merged into, even if it has nothing there.
    Ours,
    /// The version of the side that was merged.
    Theirs,
    /// The version that both sides started from.
    Base,
    /// All sides: ours at the conflict's path, the others beside it.
    Both,
    /// A copy of this file.
    With(PathBuf),
}

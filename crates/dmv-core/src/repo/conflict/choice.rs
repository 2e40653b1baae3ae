//! What a person can choose for a conflict.

use std::path::PathBuf;

/// How a conflict is to be settled.
#[derive(Clone, Debug)]
pub enum Choice {
    /// What the side merged into has, also if that is nothing.
    Ours,
    /// What the side that was merged has.
    Theirs,
    /// What both started from.
    Base,
    /// Every side: ours under the name, others beside it.
    Both,
    /// A copy of this file.
    With(PathBuf),
}

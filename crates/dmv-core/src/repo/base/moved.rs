//! How a branch that was moved from elsewhere is described.

use crate::hash::ObjectId;

/// Who moved a branch last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mover {
    /// The user, or the name of the device.
    pub who: String,
    /// The command.
    pub command: String,
}

/// What happened to a branch, as a clause: who moved it from where to where, and how. `branch` is how
/// it is called.
pub fn moved_clause(
    branch: &str,
    (base, tip): (Option<ObjectId>, Option<ObjectId>),
    by: Option<&Mover>,
) -> String {
    let short = |id: Option<ObjectId>| id.map_or("no commit".to_owned(), |id| id.short(12));
    let (base, tip) = (short(base), short(tip));
    match by {
        Some(Mover { who, command }) => {
            format!("'{who}' moved {branch} from {base} to {tip} ({command})")
        }
        None => format!("another command moved {branch} from {base} to {tip}"),
    }
}

/// How a branch stands to the files of a worktree that is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchMoved {
    /// The commit that the files come from.
    pub base: Option<ObjectId>,
    /// The commit that the branch is at.
    pub tip: Option<ObjectId>,
    /// Whether the branch only went on, so that a commit of these files can be merged with it. If
    /// not, commits were taken off it.
    pub forward: bool,
}

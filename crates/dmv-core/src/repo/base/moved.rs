//! The description of a branch that another command moved.

use crate::hash::ObjectId;

/// The author of a branch's last move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mover {
    /// The user, or the name of the device.
    pub who: String,
    /// The command.
    pub command: String,
}

/// Returns a clause that says who moved a branch, from where to where, and with which command.
/// `branch` is the branch's description in the clause.
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

/// The state of a branch compared with the files of a worktree that is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchPosition {
    /// The commit that the files come from.
    pub base: Option<ObjectId>,
    /// The branch's current commit.
    pub tip: Option<ObjectId>,
    /// Whether the branch only moved forward, so that a commit of these files can be merged with
    /// it. If not, commits were removed from the branch.
    pub forward: bool,
}

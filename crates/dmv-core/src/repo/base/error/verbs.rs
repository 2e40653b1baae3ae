//! Errors of merging, replaying, stashing and bisecting: room `verbs`.

use crate::hash::ObjectId;
use crate::object::name::RepoPath;

/// A verb does not fit the history, or what it started from does not exist.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// No bisection is under way in this worktree.
    #[error("no bisection is under way in this worktree")]
    NotBisecting,
    /// A good commit of a bisection descends from the bad one.
    #[error(
        "commit {} is bad, but the good commit {} contains it: the fault was repaired between them, or a result is wrong",
        bad.short(12),
        good.short(12)
    )]
    GoodAfterBad {
        /// The bad commit.
        bad: ObjectId,
        /// The good commit.
        good: ObjectId,
    },
    /// The branch can only be merged, and the caller allowed only a fast-forward.
    #[error(
        "branch '{name}' cannot be fast-forwarded: both sides have new commits; the branch has not moved"
    )]
    NotFastForward {
        /// The branch's name.
        name: String,
    },
    /// The commit has several parents or not the requested one, so it is unclear which change is
    /// meant.
    #[error("commit {} has {parents} parents: name the one that its change starts from", commit.short(12))]
    Mainline {
        /// The commit.
        commit: ObjectId,
        /// The number of its parents.
        parents: usize,
        /// The command that needs to know.
        verb: &'static str,
    },
    /// A file cannot be put at a path of a branch.
    #[error("cannot put '{path}': {why}")]
    CannotPut {
        /// The path.
        path: RepoPath,
        /// What is in the way.
        why: &'static str,
    },
    /// A branch has changed a path that somebody else was about to change, too.
    #[error("branch '{branch}' has changed '{path}' meanwhile; nothing was committed")]
    ChangedOnBranch {
        /// The branch.
        branch: String,
        /// The first such path.
        path: RepoPath,
    },
    /// There is no stash with this number.
    #[error("there is no stash@{{{n}}}: {}", stash_count(*count))]
    NoStash {
        /// The number, counted from the newest one, which is 0.
        n: usize,
        /// How many stashes there are.
        count: usize,
    },
}

fn stash_count(count: usize) -> String {
    match count {
        0 => "nothing is stashed".to_owned(),
        1 => "there is one stash".to_owned(),
        n => format!("there are {n} stashes"),
    }
}

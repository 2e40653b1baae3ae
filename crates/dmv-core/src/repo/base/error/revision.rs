//! Errors of resolving a revision: `look::revision`.

use crate::hash::ObjectId;

/// The reason why a revision could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The revision names nothing.
    #[error("there is no branch, tag or commit '{0}'")]
    Unknown(String),
    /// Only remotes have a branch of this name.
    #[error(
        "there is no local branch, tag or commit '{name}', only the remote {} {}",
        if remotes.len() == 1 { "branch" } else { "branches" },
        remotes.join(", ")
    )]
    OnlyRemote {
        /// The revision.
        name: String,
        /// The remote branches, each with the name of its remote.
        remotes: Vec<String>,
    },
    /// The worktree was on no other branch or commit before.
    #[error("'{0}' does not exist: this worktree has not been on another branch or commit")]
    NoPrevious(String),
    /// The worktree was on a branch before that does not exist any more.
    #[error(
        "'{name}' does not exist: branch '{branch}', on which this worktree was before, was deleted"
    )]
    PreviousGone {
        /// The revision.
        name: String,
        /// The branch.
        branch: String,
    },
    /// The prefix matches several commits.
    #[error("'{prefix}' is ambiguous; it matches the commits {}", list(candidates))]
    Ambiguous {
        /// The prefix.
        prefix: String,
        /// The commits whose ids begin with it.
        candidates: Vec<ObjectId>,
    },
    /// The name means several things.
    #[error("'{name}' is ambiguous; it means {}", meanings.join(" and "))]
    Several {
        /// The name.
        name: String,
        /// Revisions that mean each of them.
        meanings: Vec<String>,
    },
    /// The revision goes back further than the history, or names a parent that does not exist.
    #[error("'{0}' does not exist: the history has no such ancestor")]
    Beyond(String),
    /// The revision has a date that cannot be read.
    #[error("'{text}' has no date: {why}")]
    BadDate {
        /// The revision.
        text: String,
        /// What a date looks like, as a clause.
        why: String,
    },
    /// The operation log begins after the date of the revision.
    #[error("'{text}' is not known: the operation log goes back only to {first}")]
    BeforeLog {
        /// The revision.
        text: String,
        /// The day of the oldest operation.
        first: String,
    },
    /// What the revision names did not exist at its date.
    #[error("'{text}' does not exist: '{name}' had no commit at that time")]
    NotYet {
        /// The revision.
        text: String,
        /// What it names.
        name: String,
    },
    /// The text is not a valid revision.
    #[error("'{0}' is not a valid revision")]
    Syntax(String),
}

fn list(ids: &[ObjectId]) -> String {
    ids.iter()
        .map(|id| id.short(12))
        .collect::<Vec<_>>()
        .join(", ")
}

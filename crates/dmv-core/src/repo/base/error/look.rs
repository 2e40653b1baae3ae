//! Errors of naming commits and paths: `look::revision`, `entries`, `content`, `moved`.

use crate::hash::ObjectId;
use crate::object::name::RepoPath;
use crate::path::DiskPath;
use crate::repo::base::moved::{Mover, moved_clause};

/// A revision or path does not lead to what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// A revision does not have this path.
    #[error("'{path}' does not exist in {revision}")]
    NoSuchPath {
        /// The revision, as given.
        revision: String,
        /// The path, as given.
        path: DiskPath,
    },
    /// Patterns match nothing in a revision.
    #[error("nothing in {revision} matches {patterns}")]
    NothingMatches {
        /// The revision.
        revision: String,
        /// The patterns, in printable form.
        patterns: String,
        /// The path whose name is the text of a pattern, and which the pattern does not match.
        namesake: Option<RepoPath>,
    },
    /// A path is not valid in a repository.
    #[error("'{path}' is not a valid path in a repository: {why}")]
    BadPath {
        /// The path, as given.
        path: DiskPath,
        /// Why it is not valid.
        why: String,
    },
    /// A directory was given where a file was expected, or the reverse.
    #[error("'{}' is {what}", if path.is_root() { ".".to_owned() } else { path.to_string() })]
    WrongKind {
        /// The path.
        path: RepoPath,
        /// What the path is.
        what: &'static str,
    },
    /// Another command moved the branch since the worktree's files were last made equal to it.
    #[error("{}; your files are unchanged", moved_clause(&format!("branch '{name}'"), (*base, *tip), by.as_deref()))]
    Moved {
        /// The branch's name.
        name: String,
        /// The commit that the files come from.
        base: Option<ObjectId>,
        /// The branch's current commit.
        tip: Option<ObjectId>,
        /// Who moved the branch, if the operation log says so.
        by: Option<Box<Mover>>,
        /// Whether the branch only moved forward.
        forward: bool,
    },
    /// There is no commit to work on yet.
    #[error("there is no commit yet")]
    NoCommit,
}

//! The head of a worktree: a branch or a commit.

use crate::escape::{Argument, Hint, hint};
use crate::hash::ObjectId;

/// The head of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch, by name. It may have no commit yet.
    Branch(String),
    /// A commit, without a branch.
    Commit(ObjectId),
}

impl Head {
    /// Returns the branch's name, if the head is a branch.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Head::Branch(name) => Some(name),
            Head::Commit(_) => None,
        }
    }

    /// Returns the command that makes the files those of the head.
    pub fn checkout_command(&self) -> Hint {
        let to = match self {
            Head::Branch(name) => Argument::value(name),
            Head::Commit(id) => Argument::value(id.short(12)),
        };
        hint!("dmv checkout {}", to)
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        match self {
            Head::Branch(name) => format!("branch/{name}").into_bytes(),
            Head::Commit(id) => id.to_string().into_bytes(),
        }
    }

    pub(crate) fn parse(value: &[u8]) -> Option<Head> {
        let text = std::str::from_utf8(value).ok()?;
        match text.strip_prefix("branch/") {
            Some(name) => Some(Head::Branch(name.to_owned())),
            None => ObjectId::from_hex(text).map(Head::Commit),
        }
    }
}

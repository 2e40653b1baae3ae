//! Names and paths that are safe to make on a file system.

use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH};
use bstr::ByteSlice;
use std::cmp::Ordering;
use std::fmt;

/// Why bytes are no name or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(&'static str);

/// Checks one path component.
pub fn check_name(name: &[u8]) -> Result<(), NameError> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(NameError("name is empty or too long"));
    }
    if name == b"." || name == b".." || name.iter().any(|b| *b == b'/' || *b == 0) {
        return Err(NameError("name is reserved"));
    }
    if name.eq_ignore_ascii_case(b".dmv") || name.eq_ignore_ascii_case(b".git") {
        return Err(NameError("name is a control directory"));
    }
    Ok(())
}

/// A checked path component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SafeName(Box<[u8]>);

impl SafeName {
    /// Checks `name`.
    pub fn new(name: &[u8]) -> Result<SafeName, NameError> {
        check_name(name)?;
        Ok(SafeName(name.into()))
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
}

impl fmt::Debug for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0.as_bstr(), f)
    }
}

/// A path from the root of a tree.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// The root itself.
    pub fn root() -> RepoPath {
        RepoPath(Vec::new())
    }

    /// Checks every component of a `/`-joined path.
    pub fn parse(path: &[u8]) -> Result<RepoPath, NameError> {
        if path.is_empty() {
            return Ok(RepoPath::root());
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(NameError("path is too long"));
        }
        for (depth, name) in path.split(|b| *b == b'/').enumerate() {
            if depth == MAX_PATH_DEPTH {
                return Err(NameError("path is too deep"));
            }
            check_name(name)?;
        }
        Ok(RepoPath(path.to_vec()))
    }

    /// Adds a component at the end.
    pub fn push(&mut self, name: &SafeName) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name.as_bytes());
    }

    /// Takes the last component off.
    pub fn pop(&mut self) {
        let keep = self.0.rfind_byte(b'/').unwrap_or(0);
        self.0.truncate(keep);
    }

    /// This path with one more component.
    pub fn join(&self, name: &SafeName) -> RepoPath {
        let mut path = self.clone();
        path.push(name);
        path
    }

    /// The components in order.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|name| !name.is_empty())
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialOrd for RepoPath {
    fn partial_cmp(&self, other: &RepoPath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RepoPath {
    fn cmp(&self, other: &RepoPath) -> Ordering {
        self.components().cmp(other.components())
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0.as_bstr(), f)
    }
}

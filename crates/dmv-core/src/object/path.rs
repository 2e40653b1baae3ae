//! Paths inside a tree: names joined by `/`, relative to the root. Every component has passed the
//! checks of [`name`](super::name).

use super::name::{NameError, SafeName, check_name, escape};
use crate::limits::{MAX_PATH_BYTES, MAX_PATH_DEPTH};
use crate::path::DiskPath;
use std::cmp::Ordering;
use std::fmt;

/// A path from the root of a tree. The path without components is the root itself.
///
/// Paths are ordered as a walk visits them: component by component, each directory right before its
/// content.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// Returns the root.
    pub const fn root() -> RepoPath {
        RepoPath(Vec::new())
    }

    /// Checks and copies a path. No bytes give the root. A slash may stand only between names.
    pub fn parse(path: &[u8]) -> Result<RepoPath, NameError> {
        if path.len() > MAX_PATH_BYTES {
            return Err(NameError::PathTooLong);
        }
        if !path.is_empty() {
            let mut depth = 0;
            for name in path.split(|b| *b == b'/') {
                check_name(name)?;
                depth += 1;
            }
            if depth > MAX_PATH_DEPTH {
                return Err(NameError::PathTooDeep);
            }
        }
        Ok(RepoPath(path.to_vec()))
    }

    /// Takes the bytes of a path that has been checked before: those of another [`RepoPath`], or of
    /// names that a scan has accepted.
    pub(crate) fn from_checked(path: Vec<u8>) -> RepoPath {
        debug_assert!(RepoPath::parse(&path).is_ok(), "{}", escape(&path));
        RepoPath(path)
    }

    /// Takes several such paths.
    pub(crate) fn all_checked(paths: impl IntoIterator<Item = Vec<u8>>) -> Vec<RepoPath> {
        paths.into_iter().map(RepoPath::from_checked).collect()
    }

    /// Returns the bytes of the path, as [`as_bytes`](RepoPath::as_bytes) does.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends a component. Fails only if a limit is exceeded, and then leaves the path unchanged.
    pub fn push(&mut self, name: &SafeName) -> Result<(), NameError> {
        let slash = usize::from(!self.is_root());
        if self.0.len() + slash + name.as_bytes().len() > MAX_PATH_BYTES {
            return Err(NameError::PathTooLong);
        }
        // A path of `n` bytes has at most n / 2 + 1 components, so most paths need no count.
        if self.0.len() / 2 + 1 >= MAX_PATH_DEPTH && self.depth() >= MAX_PATH_DEPTH {
            return Err(NameError::PathTooDeep);
        }
        if slash == 1 {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name.as_bytes());
        Ok(())
    }

    /// Removes the last component. Returns `false` at the root.
    pub fn pop(&mut self) -> bool {
        let at_root = self.is_root();
        self.0.truncate(self.parent_len());
        !at_root
    }

    /// Returns a copy with one more component.
    pub fn join(&self, name: &SafeName) -> Result<RepoPath, NameError> {
        let mut path = RepoPath(Vec::with_capacity(self.0.len() + 1 + name.as_bytes().len()));
        path.0.extend_from_slice(&self.0);
        path.push(name)?;
        Ok(path)
    }

    /// Returns the path without its last component; `None` for the root.
    pub fn parent(&self) -> Option<RepoPath> {
        (!self.is_root()).then(|| RepoPath(self.0[..self.parent_len()].to_vec()))
    }

    /// Returns the last component; `None` for the root.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// Returns the components, starting at the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let parts = (!self.is_root()).then(|| self.0.split(|b| *b == b'/'));
        parts.into_iter().flatten()
    }

    /// Returns the number of components.
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// Returns whether this path is `prefix` or lies below it.
    pub fn starts_with(&self, prefix: &RepoPath) -> bool {
        match self.0.strip_prefix(&prefix.0[..]) {
            Some([] | [b'/', ..]) => true,
            Some(_) => prefix.is_root(),
            None => false,
        }
    }

    /// Returns the path's bytes, without a slash at either end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    fn parent_len(&self) -> usize {
        self.0.iter().rposition(|b| *b == b'/').unwrap_or(0)
    }
}

impl From<&SafeName> for RepoPath {
    fn from(name: &SafeName) -> RepoPath {
        RepoPath(name.as_bytes().to_vec())
    }
}

impl From<RepoPath> for DiskPath {
    fn from(path: RepoPath) -> DiskPath {
        DiskPath::from(path.0)
    }
}

impl From<&RepoPath> for DiskPath {
    fn from(path: &RepoPath) -> DiskPath {
        DiskPath::from(path.as_bytes())
    }
}

impl AsRef<[u8]> for RepoPath {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Ord for RepoPath {
    fn cmp(&self, other: &RepoPath) -> Ordering {
        // To compare by components, compare bytes with the slash below every byte of a name. Names
        // contain no NUL, so the slash gets its rank.
        let rank = |b: &u8| if *b == b'/' { 0 } else { *b };
        self.0.iter().map(rank).cmp(other.0.iter().map(rank))
    }
}

impl PartialOrd for RepoPath {
    fn partial_cmp(&self, other: &RepoPath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0).fmt(f)
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect("a valid path")
    }

    fn name(text: &str) -> SafeName {
        SafeName::new(text.as_bytes()).expect("a valid name")
    }

    #[test]
    fn paths_grow_and_shrink_by_components() -> Result<(), NameError> {
        let mut p = RepoPath::root();
        assert_eq!((p.parent(), p.file_name(), p.depth()), (None, None, 0));
        assert!(!p.pop());
        p.push(&name("a"))?;
        p.push(&name("b.c"))?;
        assert_eq!(p, path("a/b.c"));
        assert_eq!(p.file_name(), Some(&b"b.c"[..]));
        assert_eq!(p.parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(RepoPath::root()));
        assert_eq!(path("a").join(&name("b.c"))?, p);
        assert_eq!(p.components().collect::<Vec<_>>(), [&b"a"[..], b"b.c"]);
        assert!(p.pop() && p == path("a") && p.pop() && p.is_root());
        Ok(())
    }

    #[test]
    fn slashes_stand_between_names_only() {
        for bad in ["/", "/a", "a/", "a//b", "./a", "a/../b", "a/.git/b"] {
            assert!(RepoPath::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(RepoPath::parse(b""), Ok(RepoPath::root()));
    }

    #[test]
    fn a_prefix_ends_with_a_component() {
        assert!(path("a/b").starts_with(&path("a")));
        assert!(path("a").starts_with(&path("a")));
        assert!(path("a").starts_with(&RepoPath::root()));
        assert!(RepoPath::root().starts_with(&RepoPath::root()));
        assert!(!path("ab").starts_with(&path("a")));
        assert!(!path("a").starts_with(&path("a/b")));
    }

    #[test]
    fn limits_hold_for_both_ways_to_make_a_path() {
        let deep = vec!["a"; MAX_PATH_DEPTH].join("/");
        let mut p = path(&deep);
        assert_eq!(p.push(&name("b")), Err(NameError::PathTooDeep));
        assert_eq!(p, path(&deep));
        let deeper = deep + "/a";
        assert_eq!(
            RepoPath::parse(deeper.as_bytes()),
            Err(NameError::PathTooDeep)
        );

        let wide = vec!["a".repeat(255); MAX_PATH_BYTES / 256].join("/");
        assert_eq!(path(&wide).push(&name("b")), Err(NameError::PathTooLong));
        let wider = wide + "/b";
        assert_eq!(
            RepoPath::parse(wider.as_bytes()),
            Err(NameError::PathTooLong)
        );
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_the_components(
            a in "([a\\-0]{1,2}/){0,2}[a\\-0]{1,2}", b in "([a\\-0]{1,2}/){0,2}[a\\-0]{1,2}"
        ) {
            let (a, b) = (path(&a), path(&b));
            prop_assert_eq!(a.cmp(&b), a.components().cmp(b.components()));
        }
    }
}

//! The part of a worktree that a command works on.

use super::scan::Select;
use std::collections::BTreeSet;

/// Some paths, each with everything below it. Without any path it is the complete worktree.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    paths: BTreeSet<Vec<u8>>,
}

impl Paths {
    /// Returns the selection of the complete worktree.
    pub const fn all() -> Paths {
        Paths {
            paths: BTreeSet::new(),
        }
    }

    /// Selects `paths`, which are relative to the worktree's root. The root's own path is empty.
    pub fn new<P: AsRef<[u8]>>(paths: impl IntoIterator<Item = P>) -> Paths {
        let paths = paths.into_iter().map(|path| path.as_ref().to_vec());
        let paths: BTreeSet<Vec<u8>> = paths.collect();
        if paths.contains(&[][..]) {
            return Paths::all();
        }
        Paths { paths }
    }

    /// Returns whether the entry at `path` is one of the paths or below one.
    pub fn includes(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        self.paths.is_empty()
            || self.paths.contains(path)
            || ends
                .into_iter()
                .any(|(end, _)| self.paths.contains(&path[..end]))
    }

    /// Returns whether one of the paths is below `dir`.
    fn has_below(&self, dir: &[u8]) -> bool {
        let below = super::join(dir, b"");
        let next = self.paths.range(below.clone()..).next();
        next.is_some_and(|path| path.starts_with(&below))
    }
}

/// Returns whether `path` is `dir` or below it.
pub fn is_under(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty()
        || path
            .strip_prefix(dir)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl Select for Paths {
    fn enters(&self, dir: &[u8]) -> bool {
        self.includes(dir) || self.has_below(dir)
    }

    fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
        self.paths.is_empty() || self.enters(&super::join(dir, name))
    }

    fn takes_all(&self, dir: &[u8]) -> bool {
        self.includes(dir)
    }
}

/// What lies directly in one directory. The root's own path is empty.
pub struct ChildrenOf<'a>(pub &'a [u8]);

impl Select for ChildrenOf<'_> {
    fn enters(&self, dir: &[u8]) -> bool {
        is_under(self.0, dir)
    }

    fn takes(&self, dir: &[u8], _: &[u8]) -> bool {
        dir == self.0
    }

    fn takes_all(&self, _: &[u8]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_selects_itself_what_is_under_it_and_the_way_there() {
        let paths = Paths::new(vec![b"a/b".to_vec()]);
        assert!(paths.enters(b"") && paths.enters(b"a") && paths.enters(b"a/b/c"));
        assert!(!paths.enters(b"b") && !paths.enters(b"a/bc"));
        assert!(paths.takes(b"", b"a") && paths.takes(b"a", b"b") && paths.takes(b"a/b", b"x"));
        assert!(!paths.takes(b"", b"b") && !paths.takes(b"a", b"c"));
        assert!(paths.includes(b"a/b/c") && !paths.includes(b"a"));
        assert!(paths.takes_all(b"a/b/c") && !paths.takes_all(b"a"));
    }

    #[test]
    fn children_are_taken_without_what_lies_below_them() {
        let children = ChildrenOf(b"a/b");
        assert!(children.enters(b"") && children.enters(b"a") && children.enters(b"a/b"));
        assert!(!children.enters(b"a/b/c") && !children.enters(b"a/bc") && !children.enters(b"b"));
        assert!(children.takes(b"a/b", b"x") && !children.takes(b"a", b"b"));
        assert!(ChildrenOf(b"").takes(b"", b"x") && !ChildrenOf(b"").enters(b"x"));
    }

    #[test]
    fn many_paths_select_what_one_after_the_other_does() {
        let mut rng = dmv_random::Rng::new(3);
        let mut name = |depth: u64| {
            let parts =
                (0..=rng.below(depth)).map(|_| ["a", "a!", "ab", "b"][rng.below(4) as usize]);
            parts.collect::<Vec<_>>().join("/").into_bytes()
        };
        for _ in 0..300 {
            let listed: Vec<Vec<u8>> = (0..5).map(|_| name(3)).collect();
            let paths = Paths::new(&listed);
            for _ in 0..20 {
                let path = name(4);
                let includes = listed.iter().any(|one| is_under(&path, one));
                let enters = includes || listed.iter().any(|one| is_under(one, &path));
                assert_eq!(paths.includes(&path), includes, "{listed:?} {path:?}");
                assert_eq!(paths.enters(&path), enters, "{listed:?} {path:?}");
            }
        }
    }

    #[test]
    fn no_paths_and_the_root_select_everything() {
        for paths in [
            Paths::default(),
            Paths::new(vec![b"a".to_vec(), Vec::new()]),
        ] {
            assert!(paths.includes(b"x/y") && paths.enters(b"x") && paths.takes(b"x", b"y"));
        }
    }
}

//! The paths of several subsets together.
//!
//! The order of the patterns matters in a subset, so the paths of two subsets are in general not
//! those of one list of patterns. The subsets stay separate, and each is asked.

use super::{Extent, PathSet, Subset};

/// The paths that are in at least one of several subsets. The default is all paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union(Vec<Subset>);

impl Union {
    /// Returns the union of `subsets`. Without any subset it has no path.
    pub fn of(subsets: impl IntoIterator<Item = Subset>) -> Union {
        let mut parts: Vec<Subset> = Vec::new();
        for subset in subsets {
            if subset.is_everything() {
                return Union::default();
            }
            if !parts.contains(&subset) {
                parts.push(subset);
            }
        }
        if parts.is_empty() {
            Union(vec![Subset::nothing()])
        } else {
            Union(parts)
        }
    }

    /// Returns whether every path is included.
    pub fn is_everything(&self) -> bool {
        self.0.iter().any(Subset::is_everything)
    }

    /// Returns the subsets, each once; at least one.
    pub fn parts(&self) -> &[Subset] {
        &self.0
    }

    /// Returns whether the entry at `path` is included. `is_dir` says that it is a directory; then
    /// the answer is about the directory itself.
    pub fn includes(&self, path: &[u8], is_dir: bool) -> bool {
        self.0.iter().any(|subset| subset.includes(path, is_dir))
    }

    /// Returns how much of the directory `dir` is included.
    ///
    /// If several subsets each include a part, the result is a part, even if together they include
    /// all of it.
    pub fn extent(&self, dir: &[u8]) -> Extent {
        let mut extent = Extent::None;
        for subset in &self.0 {
            match subset.extent(dir) {
                Extent::All => return Extent::All,
                Extent::Part => extent = Extent::Part,
                Extent::None => {}
            }
        }
        extent
    }
}

impl PathSet for Union {
    fn is_everything(&self) -> bool {
        self.is_everything()
    }

    fn includes(&self, path: &[u8], is_dir: bool) -> bool {
        self.includes(path, is_dir)
    }

    fn extent(&self, dir: &[u8]) -> Extent {
        self.extent(dir)
    }

    fn names_in(&self, dir: &[u8]) -> Option<Vec<Vec<u8>>> {
        let names = self.0.iter().map(|subset| subset.names_in(dir));
        let mut names = names.collect::<Option<Vec<_>>>()?.concat();
        names.sort();
        names.dedup();
        Some(names)
    }
}

impl Default for Union {
    fn default() -> Union {
        Union(vec![Subset::everything()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_union_has_what_any_of_its_subsets_has() {
        let subset = |patterns: &[&str]| {
            Subset::new(patterns.iter().map(|p| p.as_bytes())).expect("sound patterns")
        };
        let (a, b) = (subset(&["a", "!a/x"]), subset(&["a/x/y", "b"]));
        let both = Union::of([a.clone(), b.clone(), a.clone()]);
        assert_eq!(both.parts(), [a.clone(), b]);
        assert!(!both.is_everything());
        for (dir, extent) in [
            ("", Extent::Part),
            ("a", Extent::Part),
            ("a/x", Extent::Part),
            ("a/x/y", Extent::All),
            ("a/z", Extent::All),
            ("b", Extent::All),
            ("c", Extent::None),
        ] {
            assert_eq!(both.extent(dir.as_bytes()), extent, "{dir}");
        }
        assert!(both.includes(b"a/x/y/z", false) && !both.includes(b"a/x/z", false));
        for (dir, names) in [("", Some(vec!["a", "b"])), ("a", None), ("c", Some(vec![]))] {
            let names = names.map(|names| names.into_iter().map(Vec::from).collect());
            assert_eq!(both.names_in(dir.as_bytes()), names, "{dir}");
        }
        assert!(Union::of([a, Subset::everything()]).is_everything());
        assert!(Union::default().is_everything());
        assert_eq!(Union::of([]).extent(b""), Extent::None);
        assert!(!Union::of([Subset::nothing()]).includes(b"a", false));
    }
}

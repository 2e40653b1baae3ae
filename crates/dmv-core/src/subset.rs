//! The paths that a worktree, an export or a repository is limited to.
//!
//! A [`Subset`] is a pure predicate on paths, made from pattern lines (grammar:
//! docs/format/subset.md). A walk over a tree asks it for each directory whether to look further
//! ([`Extent`]), so the work depends on the subset and not on the repository. The module reads
//! neither a store nor a disk and uses only `escape` and `limits`. `diff`, `reach`, `worktree` and
//! `repo` use it.

mod pattern;
#[cfg(test)]
mod tests;
mod union;

use crate::limits::{MAX_PATH_BYTES, MAX_SUBSET_BYTES, MAX_SUBSET_GLOBS};
use pattern::Pattern;
use std::collections::BTreeMap;
use std::fmt;
pub use union::Union;

/// How much of a directory a subset includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The directory and everything below it, whatever that is.
    All,
    /// Nothing below it, and not the directory itself.
    None,
    /// Perhaps some of the paths below it, so a walk must look at its entries.
    Part,
}

/// The paths to which a walk over a tree is limited: those of one subset, or of several together.
pub trait PathSet: Sync {
    /// Returns whether every path is included.
    fn is_everything(&self) -> bool;

    /// Returns whether the entry at `path` is included. `is_dir` says that it is a directory; then
    /// the answer is about the directory itself.
    fn includes(&self, path: &[u8], is_dir: bool) -> bool;

    /// Returns how much of the directory `dir` is included. The root's path is empty.
    fn extent(&self, dir: &[u8]) -> Extent;

    /// Returns the only names in the directory `dir` below which a path can be included, sorted;
    /// `None` if that is unknown.
    fn names_in(&self, dir: &[u8]) -> Option<Vec<Vec<u8>>>;
}

impl PathSet for Subset {
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
        self.names_in(dir)
    }
}

/// Some of the paths of a tree.
///
/// Among the patterns that name a path or a directory above it, the last one decides.
#[derive(Clone, Default)]
pub struct Subset {
    patterns: Vec<Pattern>,
    /// The patterns that name one path, by that path.
    literal: BTreeMap<Vec<u8>, Slot>,
    /// The numbers of the other patterns.
    globs: Vec<usize>,
}

/// The numbers of the last patterns that name one path.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    any: Option<usize>,
    dir_only: Option<usize>,
}

impl Slot {
    fn last(self, is_dir: bool) -> Option<usize> {
        self.any.max(self.dir_only.filter(|_| is_dir))
    }
}

/// Why patterns were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubsetError {
    /// A pattern is not valid.
    #[error("pattern '{pattern}': {why}")]
    Pattern {
        /// The pattern, in printable form.
        pattern: String,
        /// What is wrong with it, as a clause.
        why: String,
    },
    /// All patterns together are longer than [`MAX_SUBSET_BYTES`].
    #[error("a subset's patterns take at most {MAX_SUBSET_BYTES} bytes; these take {0}")]
    TooLong(usize),
    /// There are more than `MAX_SUBSET_GLOBS` patterns with wildcards.
    #[error("a subset has at most {MAX_SUBSET_GLOBS} patterns with wildcards")]
    TooManyGlobs,
}

impl Subset {
    /// Returns the subset of all paths.
    pub fn everything() -> Subset {
        Subset::default()
    }

    /// Returns the subset without any path.
    pub fn nothing() -> Subset {
        Subset::new([&b"!**"[..]]).expect("a constant pattern is sound")
    }

    /// Returns the subset that `patterns` name, each as a user writes it. No pattern means every
    /// path.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p [u8]>) -> Result<Subset, SubsetError> {
        let patterns = patterns.into_iter().map(Pattern::parse);
        Subset::build(patterns.collect::<Result<_, _>>()?)
    }

    /// Returns the subset that the lines of `text` name.
    ///
    /// Blank lines and lines that begin with `#` are ignored, and so are spaces at the end of a
    /// line.
    pub fn parse(text: &[u8]) -> Result<Subset, SubsetError> {
        // The canonical form is never longer than the text, except for backslashes.
        if text.len() > 2 * MAX_SUBSET_BYTES {
            return Err(SubsetError::TooLong(text.len()));
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = text.split(|b| *b == b'\n').map(pattern::trim_line);
        Subset::new(lines.filter(|line| !line.is_empty() && line[0] != b'#'))
    }

    /// Returns whether every path is included.
    pub fn is_everything(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the patterns in order, in their canonical form.
    pub fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        self.patterns.iter().map(Pattern::text)
    }

    /// Returns the canonical form, from which [`parse`](Self::parse) makes this subset again. Empty
    /// if the subset is everything.
    pub fn text(&self) -> Vec<u8> {
        let lines: Vec<&[u8]> = self.patterns().collect();
        lines.join(&b'\n')
    }

    /// Returns for each pattern a subset of the paths that it names, whether the pattern includes
    /// or excludes them.
    pub fn each(&self) -> Vec<Subset> {
        let alone = |pattern: &Pattern| {
            let mut pattern = pattern.clone();
            pattern.excludes = false;
            Subset::build(vec![pattern]).expect("one of several patterns fits")
        };
        self.patterns.iter().map(alone).collect()
    }

    /// Returns whether the entry at `path` is included. `is_dir` says that it is a directory; then
    /// the answer is about the directory itself.
    pub fn includes(&self, path: &[u8], is_dir: bool) -> bool {
        self.decides(self.last(path, is_dir))
    }

    /// Returns how much of the directory `dir` is included. The root's path is empty.
    pub fn extent(&self, dir: &[u8]) -> Extent {
        let last = self.last(dir, true);
        let inside = self.decides(last);
        let turns = |number: usize| Some(number) > last && self.decides(Some(number)) != inside;
        let mut below = self.literal_below(dir);
        let part = below
            .any(|(_, slot)| [slot.any, slot.dir_only].into_iter().flatten().any(turns))
            || self
                .globs
                .iter()
                .any(|number| turns(*number) && self.patterns[*number].reaches_below(dir));
        match (part, inside) {
            (true, _) => Extent::Part,
            (false, true) => Extent::All,
            (false, false) => Extent::None,
        }
    }

    /// Returns the only names in the directory `dir` below which a path can be included, sorted;
    /// `None` if the patterns do not determine them.
    pub fn names_in(&self, dir: &[u8]) -> Option<Vec<Vec<u8>>> {
        let last = self.last(dir, true);
        if self.decides(last) {
            return None;
        }
        let turns = |number: usize| Some(number) > last && self.decides(Some(number));
        let skip = if dir.is_empty() { 0 } else { dir.len() + 1 };
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (path, slot) in self.literal_below(dir) {
            if ![slot.any, slot.dir_only].into_iter().flatten().any(turns) {
                continue;
            }
            let name = path[skip..].split(|b| *b == b'/').next()?;
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_vec());
            }
        }
        for number in self.globs.iter().filter(|number| turns(**number)) {
            for name in self.patterns[*number].next_names(dir) {
                names.push(name?.to_vec());
            }
        }
        names.sort();
        names.dedup();
        Some(names)
    }

    /// Returns this subset with the paths that `pattern` names.
    pub fn with(&self, pattern: &[u8]) -> Result<Subset, SubsetError> {
        self.changed(Pattern::parse(pattern)?)
    }

    /// Returns this subset without the paths that `pattern` names.
    pub fn without(&self, pattern: &[u8]) -> Result<Subset, SubsetError> {
        let mut pattern = Pattern::parse(pattern)?;
        pattern.excludes = !pattern.excludes;
        self.changed(pattern)
    }

    /// Returns this subset with one more pattern, and without the patterns that it makes redundant.
    fn changed(&self, last: Pattern) -> Result<Subset, SubsetError> {
        let mut patterns = self.patterns.clone();
        patterns.retain(|p| !p.names_same(&last) && !last.covers(p));
        let begins_full = self.decides(None);
        if let Some(path) = last.path().filter(|_| !last.dir_only) {
            let rest = Subset::begun(patterns.clone(), begins_full)?;
            let needless = if last.excludes {
                rest.extent(&path) == Extent::None && !rest.includes(&path, false)
            } else {
                rest.extent(&path) == Extent::All && rest.includes(&path, false)
            };
            if needless {
                return Ok(rest);
            }
        }
        patterns.push(last);
        Subset::begun(patterns, begins_full)
    }

    /// Returns the subset that starts with all paths (`full`) or none and then applies `patterns`.
    fn begun(mut patterns: Vec<Pattern>, full: bool) -> Result<Subset, SubsetError> {
        let idle = patterns.iter().take_while(|p| p.excludes != full).count();
        patterns.drain(..idle);
        match (patterns.is_empty(), full) {
            (true, false) => Ok(Subset::nothing()),
            _ => Subset::build(patterns),
        }
    }

    /// Returns the subset of these patterns. It starts with all paths if the first pattern
    /// excludes.
    fn build(mut patterns: Vec<Pattern>) -> Result<Subset, SubsetError> {
        if let Some(at) = patterns.iter().rposition(Pattern::is_all) {
            // The patterns before it have no effect.
            let rest = patterns.split_off(at + 1);
            let all = patterns.remove(at);
            let idle = rest.iter().take_while(|p| p.excludes == all.excludes);
            let idle = idle.count();
            patterns = match (all.excludes, idle == rest.len()) {
                (true, true) => vec![all],
                _ => rest.into_iter().skip(idle).collect(),
            };
        }
        let mut subset = Subset {
            patterns,
            ..Subset::default()
        };
        let len: usize = subset.patterns().map(|text| text.len() + 1).sum();
        if len > MAX_SUBSET_BYTES {
            return Err(SubsetError::TooLong(len));
        }
        for (number, pattern) in subset.patterns.iter().enumerate() {
            let Some(path) = pattern.path() else {
                subset.globs.push(number);
                continue;
            };
            let slot = subset.literal.entry(path).or_default();
            if pattern.dir_only {
                slot.dir_only = Some(number)
            } else {
                slot.any = Some(number)
            }
        }
        if subset.globs.len() > MAX_SUBSET_GLOBS {
            Err(SubsetError::TooManyGlobs)
        } else {
            Ok(subset)
        }
    }

    /// Returns whether the pattern with this number includes the paths that it decides. `None`
    /// stands for a path that no pattern names.
    fn decides(&self, number: Option<usize>) -> bool {
        match number {
            Some(number) => !self.patterns[number].excludes,
            // A list whose first pattern excludes starts with all paths.
            None => (self.patterns.first()).is_none_or(|first| first.excludes && !first.is_all()),
        }
    }

    /// Returns the number of the last pattern that names `path` or a directory above it.
    fn last(&self, path: &[u8], is_dir: bool) -> Option<usize> {
        let mut last = None;
        if path.is_empty() || self.patterns.is_empty() || path.len() > MAX_PATH_BYTES {
            return last;
        }
        for end in ends(path).filter(|_| !self.literal.is_empty()) {
            let slot = self.literal.get(&path[..end]);
            last = last.max(slot.and_then(|slot| slot.last(is_dir || end < path.len())));
        }
        let later = |number: &&usize| Some(**number) > last;
        let matching = self.globs.iter().rev().take_while(later);
        let found = matching
            .copied()
            .find(|n| self.patterns[*n].names(path, is_dir));
        last.max(found)
    }

    /// Returns the literal patterns below the directory `dir`.
    fn literal_below<'s>(&'s self, dir: &[u8]) -> impl Iterator<Item = (&'s Vec<u8>, &'s Slot)> {
        let prefix = match dir {
            b"" => Vec::new(),
            dir => [dir, b"/"].concat(),
        };
        let from = self.literal.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
    }
}

/// Returns the end of each component of `path`.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let inner = path.iter().enumerate().filter(|(_, b)| **b == b'/');
    inner.map(|(at, _)| at).chain([path.len()])
}

impl PartialEq for Subset {
    fn eq(&self, other: &Subset) -> bool {
        self.patterns().eq(other.patterns())
    }
}

impl Eq for Subset {}

impl fmt::Debug for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.patterns().map(String::from_utf8_lossy);
        f.debug_list().entries(texts).finish()
    }
}

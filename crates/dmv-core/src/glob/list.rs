//! The patterns of an ignore file, and which of them names a path.
//!
//! The last pattern that names a path decides. So that thousands of patterns cost little, a path is
//! compared only with those that end or begin as it does.

use super::{Glob, GlobFault};
use std::collections::HashMap;

/// A pattern of an ignore file.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// Whether it begins with `!`.
    pub is_negated: bool,
    /// Whether it names directories only.
    dir_only: bool,
    /// Whether it is about the complete path. Otherwise it is about the last name alone.
    is_path: bool,
    glob: Glob,
}

impl Pattern {
    /// Parses a pattern. Fails if it can match nothing.
    pub(crate) fn parse(source: &[u8]) -> Result<Pattern, GlobFault> {
        let (is_negated, rest) = match source.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, source),
        };
        let (dir_only, rest) = match rest.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let is_path = rest.contains(&b'/');
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let is_wild = |b: &u8| matches!(b, b'*' | b'?' | b'[' | b'\\');
        let open = rest.iter().position(is_wild).unwrap_or(rest.len());
        let glob = if is_path {
            Glob::parse_after(rest, open)?
        } else {
            Glob::parse(rest)?
        };
        Ok(Pattern {
            is_negated,
            dir_only,
            is_path,
            glob,
        })
    }

    /// Returns whether no name is so short that it can match.
    pub(crate) fn is_empty(&self) -> bool {
        self.glob.literal() == Some(b"")
    }

    fn names(&self, text: &[u8], is_dir: bool) -> bool {
        (is_dir || !self.dir_only) && self.glob.matches(text)
    }
}

/// Returns the lines of an ignore file that have a pattern, with their numbers, from 1.
///
/// Leaves out a byte order mark, comments, a carriage return before the end of a line, and spaces
/// at the end that no backslash escapes.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|b| *b == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.starts_with(b"#"));
    let trimmed = lines.map(|(at, line)| (at + 1, trimmed(line)));
    trimmed.filter(|(_, line)| !line.is_empty())
}

fn trimmed(line: &[u8]) -> &[u8] {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    while let [rest @ .., b' '] = line {
        let slashes = rest.iter().rev().take_while(|b| **b == b'\\').count();
        if slashes % 2 == 1 {
            break;
        }
        line = rest;
    }
    line
}

/// Patterns in the order of their lines.
#[derive(Debug, Default)]
pub(crate) struct PatternList {
    patterns: Vec<Pattern>,
    /// The patterns about the last name of a path.
    names: Index,
    /// The patterns about the complete path.
    paths: Index,
}

impl PatternList {
    pub(crate) fn new(patterns: Vec<Pattern>) -> PatternList {
        let mut list = PatternList::default();
        for (number, pattern) in patterns.iter().enumerate() {
            let index = if pattern.is_path {
                &mut list.paths
            } else {
                &mut list.names
            };
            index.add(number, &pattern.glob);
        }
        list.patterns = patterns;
        list
    }

    pub(crate) fn get(&self, number: usize) -> &Pattern {
        &self.patterns[number]
    }

    /// Returns the number of the last pattern that names the entry at `path` itself. The path is
    /// relative to the directory of the patterns.
    pub(crate) fn last(&self, path: &[u8], is_dir: bool) -> Option<usize> {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        let mut last = None;
        for (index, text) in [(&self.names, name), (&self.paths, path)] {
            for numbers in index.candidates(text) {
                let later = numbers.iter().rev().take_while(|n| Some(**n) > last);
                let found = later
                    .copied()
                    .find(|n| self.patterns[*n].names(text, is_dir));
                last = found.or(last);
            }
        }
        last
    }
}

/// Most bytes of a pattern's end by which it is found.
const KEY_BYTES: usize = 16;

/// The numbers of patterns, by what a text needs to match them. The numbers of each list ascend.
#[derive(Debug, Default)]
struct Index {
    /// Those without wildcards.
    literal: HashMap<Box<[u8]>, Vec<usize>>,
    /// By the bytes at their start.
    starts: Ends,
    /// By the bytes at their end, if they have none at their start.
    ends: Ends,
    rest: Vec<usize>,
}

/// Numbers of patterns by the literal bytes at one end.
#[derive(Debug, Default)]
struct Ends {
    numbers: HashMap<Box<[u8]>, Vec<usize>>,
    /// Which lengths of keys there are.
    lens: [bool; KEY_BYTES + 1],
}

impl Ends {
    fn add(&mut self, key: &[u8], number: usize) {
        self.lens[key.len()] = true;
        self.numbers.entry(key.into()).or_default().push(number);
    }

    fn lens(&self, most: usize) -> impl Iterator<Item = usize> {
        (1..=most.min(KEY_BYTES)).filter(|len| self.lens[*len])
    }
}

impl Index {
    fn add(&mut self, number: usize, glob: &Glob) {
        let (start, end) = (&glob.prefix, &glob.suffix);
        if let Some(text) = glob.literal() {
            self.literal.entry(text.into()).or_default().push(number);
        } else if !start.is_empty() {
            self.starts
                .add(&start[..start.len().min(KEY_BYTES)], number);
        } else if !end.is_empty() {
            self.ends
                .add(&end[end.len().saturating_sub(KEY_BYTES)..], number);
        } else {
            self.rest.push(number);
        }
    }

    /// Returns all lists of patterns that may match the text.
    fn candidates<'i>(&'i self, text: &'i [u8]) -> impl Iterator<Item = &'i Vec<usize>> {
        let (starts, ends) = (&self.starts, &self.ends);
        let from_start = starts.lens(text.len());
        let from_start = from_start.filter_map(|len| starts.numbers.get(&text[..len]));
        let to_end = ends.lens(text.len());
        let to_end = to_end.filter_map(|len| ends.numbers.get(&text[text.len() - len..]));
        let literal = self.literal.get(text).into_iter();
        literal.chain(from_start).chain(to_end).chain([&self.rest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &[u8]) -> PatternList {
        let patterns = lines(text).map(|(_, line)| Pattern::parse(line).expect("sound"));
        PatternList::new(patterns.collect())
    }

    #[test]
    fn lines_are_trimmed_as_git_does() {
        let text = b"\xef\xbb\xbfa \r\n# no\n\n   \nb\\ \n c\t\nd\\\\  \n\\#e\r\nf\r";
        let found: Vec<_> = lines(text).collect();
        let want: [(usize, &[u8]); 6] = [
            (1, b"a"),
            (5, b"b\\ "),
            (6, b" c\t"),
            (7, b"d\\\\"),
            (8, b"\\#e"),
            (9, b"f"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn the_last_pattern_that_names_a_path_decides() {
        let list =
            list(b"*.exr\n/renders\nkeep/\na/b\n*.exr\nc d\n**/deep/x*\nx[0-9]*z\n?q\nfo*\nfo\n");
        for (path, is_dir, want) in [
            ("x.exr", false, Some(4)),
            ("a/x.exr", false, Some(4)),
            ("renders", false, Some(1)),
            ("a/renders", false, None),
            ("keep", false, None),
            ("q/keep", true, Some(2)),
            ("a/b", false, Some(3)),
            ("q/a/b", false, None),
            ("q/c d", false, Some(5)),
            ("q/deep/xy", false, Some(6)),
            ("deep/x", false, Some(6)),
            ("q/x1z", false, Some(7)),
            ("aq", false, Some(8)),
            ("foo", false, Some(9)),
            ("fo", false, Some(10)),
        ] {
            assert_eq!(list.last(path.as_bytes(), is_dir), want, "{path}");
        }
    }

    #[test]
    fn a_pattern_without_a_name_names_nothing() {
        for source in [&b"/"[..], b"//", b"!", b"!/"] {
            let pattern = Pattern::parse(source).expect("sound");
            assert!(pattern.is_empty(), "{source:?}");
            let list = PatternList::new(vec![pattern]);
            assert_eq!(list.last(b"a", true), None);
        }
    }
}

//! One pattern of a subset, and whether it names a path (docs/format/subset.md).
//!
//! A pattern without wildcards is compared by its path. Others are matched component by component,
//! with the set of parts that may come next as a bit mask.

use super::SubsetError;
use crate::escape::escape;
use crate::glob::Glob;
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_SUBSET_GLOB_PARTS};

/// The pattern that names every path.
const ALL: &[u8] = b"**";

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// Whether it excludes the paths that it names.
    pub excludes: bool,
    /// Whether it names directories only.
    pub dir_only: bool,
    parts: Vec<Part>,
    /// `!` and the canonical form of the pattern without its own `!`.
    line: Vec<u8>,
}

/// One component of a pattern.
#[derive(Clone, Debug)]
enum Part {
    /// Exactly this name.
    Name(Box<[u8]>),
    /// Any name that matches.
    Glob(Glob),
    /// `**`: any number of names, or none.
    AnyDepth,
}

/// The parts of a pattern that may come next on a path. Bit `n` stands for part `n`, and the bit
/// after the last part for the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Positions(u64);

impl Pattern {
    /// Parses a pattern. Nothing is trimmed, and `#` does not begin a comment.
    pub(super) fn parse(given: &[u8]) -> Result<Pattern, SubsetError> {
        let fail = |why: &str| SubsetError::Pattern {
            pattern: escape(given).to_string(),
            why: why.to_owned(),
        };
        if given.len() > MAX_PATH_BYTES {
            return Err(fail("it is longer than any path"));
        }
        if given.iter().any(|b| matches!(b, 0 | b'\n')) {
            return Err(fail("no line can hold it; `?` stands for any character"));
        }
        let (excludes, rest) = match given.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, given),
        };
        if rest.is_empty() {
            return Err(fail("it names nothing"));
        }
        let mut sources = Vec::new();
        for source in rest.split(|b| *b == b'/') {
            match source {
                b"" | b"." => {}
                b".." => return Err(fail("`..` leads out of the repository")),
                b"**" if sources.last() == Some(&ALL) => {}
                source => sources.push(source),
            }
        }
        if sources.is_empty() {
            sources.push(ALL);
        }
        let parts = sources.iter().map(|source| Part::parse(source));
        let parts = parts.collect::<Result<Vec<_>, _>>();
        let mut parts = parts.map_err(|why| fail(&why))?;
        let names: Vec<Vec<u8>> = parts.iter().filter_map(Part::name).map(escaped).collect();
        let is_literal = names.len() == parts.len();
        let is_anchored = rest.starts_with(b"/") || sources.len() > 1;
        let dir_only = rest.ends_with(b"/") && sources != [ALL];
        let mut body = if is_literal {
            names.join(&b'/')
        } else {
            sources.join(&b'/')
        };
        if !is_literal {
            if sources.len() == 1 && sources != [ALL] {
                if is_anchored {
                    body.insert(0, b'/')
                } else {
                    parts.insert(0, Part::AnyDepth)
                }
            }
            // `a/**` names the content of `a`, not `a` itself.
            if matches!(parts.last(), Some(Part::AnyDepth)) {
                parts.push(Part::parse(b"*").map_err(|why| fail(&why))?);
            }
            if parts.len() > MAX_SUBSET_GLOB_PARTS {
                return Err(fail("it has wildcards and too many components"));
            }
        }
        if dir_only {
            body.push(b'/');
        }
        let line = [&b"!"[..], &as_line(body)].concat();
        Ok(Pattern {
            excludes,
            dir_only,
            parts,
            line,
        })
    }

    /// Returns the canonical form.
    pub(super) fn text(&self) -> &[u8] {
        if self.excludes {
            &self.line
        } else {
            &self.line[1..]
        }
    }

    /// Returns whether it names every path.
    pub(super) fn is_all(&self) -> bool {
        self.line[1..] == *ALL
    }

    /// Returns whether both patterns have the same text apart from `!`, so that they name the same
    /// paths.
    pub(super) fn names_same(&self, other: &Pattern) -> bool {
        self.line == other.line
    }

    /// Returns whether both patterns name one path each, and the other path lies below this one.
    pub(super) fn covers(&self, other: &Pattern) -> bool {
        match (self.path(), other.path()) {
            (Some(own), Some(other)) => other
                .strip_prefix(&own[..])
                .is_some_and(|rest| rest.starts_with(b"/")),
            _ => false,
        }
    }

    /// Returns the single path that the pattern names; `None` if it has wildcards.
    pub(super) fn path(&self) -> Option<Vec<u8>> {
        let names: Vec<&[u8]> = self.parts.iter().filter_map(Part::name).collect();
        (names.len() == self.parts.len()).then(|| names.join(&b'/'))
    }

    /// Returns whether it names `path` or a directory above it.
    pub(super) fn names(&self, path: &[u8], is_dir: bool) -> bool {
        let mut at = self.start();
        let mut names = path.split(|b| *b == b'/').peekable();
        while let Some(name) = names.next() {
            at = self.step(at, name);
            if at.has(self.parts.len()) && (is_dir || !self.dir_only || names.peek().is_some()) {
                return true;
            }
        }
        false
    }

    /// Returns whether it may name a path below the directory `dir`.
    pub(super) fn reaches_below(&self, dir: &[u8]) -> bool {
        self.next_parts(dir).next().is_some()
    }

    /// Returns the names in `dir` that lead to paths which the pattern may name. `None` among them
    /// stands for any name.
    pub(super) fn next_names<'s>(&'s self, dir: &[u8]) -> impl Iterator<Item = Option<&'s [u8]>> {
        self.next_parts(dir).map(Part::name)
    }

    fn next_parts<'s>(&'s self, dir: &[u8]) -> impl Iterator<Item = &'s Part> {
        let names = dir.split(|b| *b == b'/').filter(|name| !name.is_empty());
        let at = names.fold(self.start(), |at, name| self.step(at, name));
        let parts = self.parts.iter().enumerate();
        parts
            .filter(move |(number, _)| at.has(*number))
            .map(|(_, part)| part)
    }

    fn start(&self) -> Positions {
        let mut start = Positions(0);
        self.reach(&mut start, 0);
        start
    }

    fn step(&self, at: Positions, name: &[u8]) -> Positions {
        let mut next = Positions(0);
        for (number, part) in self.parts.iter().enumerate() {
            if !at.has(number) {
                continue;
            }
            match part {
                Part::AnyDepth => self.reach(&mut next, number),
                part if part.fits(name) => self.reach(&mut next, number + 1),
                _ => {}
            }
        }
        next
    }

    /// Adds a part, and the parts after it that are reached without a name.
    fn reach(&self, at: &mut Positions, number: usize) {
        let rest = &self.parts[number..];
        let skipped = rest
            .iter()
            .take_while(|part| matches!(part, Part::AnyDepth));
        for number in number..=number + skipped.count() {
            at.0 |= 1 << number;
        }
    }
}

impl Positions {
    fn has(self, number: usize) -> bool {
        self.0 >> number & 1 == 1
    }
}

impl Part {
    fn parse(source: &[u8]) -> Result<Part, String> {
        if source == ALL {
            return Ok(Part::AnyDepth);
        }
        let mut name = Vec::with_capacity(source.len());
        let mut bytes = source.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'*' | b'?' | b'[' => return Part::parse_glob(source),
                b'\\' => match bytes.next() {
                    Some(byte) => name.push(*byte),
                    None => return Err("a backslash at the end escapes nothing".to_owned()),
                },
                byte => name.push(*byte),
            }
        }
        if name.len() > MAX_NAME_BYTES {
            Err("no name is that long".to_owned())
        } else {
            Ok(Part::Name(name.into()))
        }
    }

    fn parse_glob(source: &[u8]) -> Result<Part, String> {
        // Each byte of a name may be written as an escape or as a short class.
        if source.len() > 4 * MAX_NAME_BYTES {
            return Err("no name is that long".to_owned());
        }
        let glob = Glob::parse(source).map_err(|e| e.to_string())?;
        Ok(Part::Glob(glob))
    }

    fn name(&self) -> Option<&[u8]> {
        match self {
            Part::Name(name) => Some(name),
            Part::Glob(_) | Part::AnyDepth => None,
        }
    }

    fn fits(&self, name: &[u8]) -> bool {
        match self {
            Part::Name(own) => **own == *name,
            Part::Glob(glob) => glob.matches(name),
            Part::AnyDepth => true,
        }
    }
}

/// Returns a name in which no byte is a wildcard.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name {
        if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

/// Returns a pattern in a form that a line of a file can hold.
fn as_line(mut pattern: Vec<u8>) -> Vec<u8> {
    let last = pattern.last().copied();
    if matches!(last, Some(b' ' | b'\r')) && trim_line(&pattern).len() < pattern.len() {
        pattern.insert(pattern.len() - 1, b'\\');
    }
    if matches!(pattern.first(), Some(b'#' | b'!' | b' ')) {
        pattern.insert(0, b'\\');
    }
    pattern
}

/// Returns a line without its end: a carriage return, and spaces that no backslash escapes.
pub(super) fn trim_line(line: &[u8]) -> &[u8] {
    let mut line = line;
    while let [rest @ .., b' ' | b'\r'] = line {
        let slashes = rest.iter().rev().take_while(|b| **b == b'\\').count();
        if slashes % 2 == 1 {
            break;
        }
        line = rest;
    }
    line
}

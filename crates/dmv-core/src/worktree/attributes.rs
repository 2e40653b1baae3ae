//! Attribute files: lines of a pattern and what it says about the files that match.
//!
//! A pattern has the syntax of ignore files and is relative to the directory of its file. One that
//! names a directory names everything below it, too. The module does not know what the attributes
//! mean, and it reads no files: the text comes from a commit.

use crate::glob::list::{Pattern, PatternList};
use crate::limits::{MAX_ATTRIBUTE_LINES, MAX_KEEP_LINE_BYTES};

/// The file name of DMV's attribute files.
pub(crate) const DMVATTRIBUTES: &[u8] = b".dmvattributes";

/// A line of an attribute file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeLine {
    /// The number of the line, from 1.
    pub number: usize,
    /// The pattern.
    pub pattern: String,
    /// What stands behind it, separated by blanks.
    pub words: Vec<String>,
}

/// A line that cannot be used: its number, from 1, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The number of the line; 0 for the whole file.
    pub number: usize,
    /// What is wrong with it, as a clause.
    pub why: String,
}

/// Returns the lines of an attribute file. Leaves out blank lines and comments.
pub fn attribute_lines(text: &[u8]) -> (Vec<AttributeLine>, Vec<BadLine>) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    for (at, line) in text.split(|b| *b == b'\n').enumerate() {
        let number = at + 1;
        if lines.len() + bad.len() >= MAX_ATTRIBUTE_LINES {
            let why = format!("there are more than {MAX_ATTRIBUTE_LINES} lines with patterns");
            bad.push(BadLine { number, why });
            break;
        }
        match attribute_line(number, line) {
            Ok(line) => lines.extend(line),
            Err(why) => bad.push(BadLine { number, why }),
        }
    }
    (lines, bad)
}

fn attribute_line(number: usize, line: &[u8]) -> Result<Option<AttributeLine>, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let line = line.trim_matches([' ', '\t', '\r']);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (pattern, rest) = split_pattern(line)?;
    check_pattern(&pattern)?;
    Ok(Some(AttributeLine {
        number,
        pattern,
        words: rest.split_ascii_whitespace().map(str::to_owned).collect(),
    }))
}

/// Splits a line behind its pattern: at the first blank that no backslash escapes. A pattern in
/// double quotes may have blanks.
fn split_pattern(line: &str) -> Result<(String, &str), String> {
    let mut pattern = String::new();
    let quoted = line.strip_prefix('"');
    let text = quoted.unwrap_or(line);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if quoted.is_some() => {
                let rest = &text[at + 1..];
                return if rest.is_empty() || rest.starts_with([' ', '\t']) {
                    Ok((pattern, rest))
                } else {
                    Err("a blank must follow the closing quote".to_owned())
                };
            }
            ' ' | '\t' if quoted.is_none() => return Ok((pattern, &text[at..])),
            '\\' => {
                let next = chars.next().map(|(_, next)| next);
                match next {
                    Some(next @ '"') if quoted.is_some() => pattern.push(next),
                    next => pattern.extend([c].into_iter().chain(next)),
                }
            }
            c => pattern.push(c),
        }
    }
    match quoted {
        Some(_) => Err("the closing quote is missing".to_owned()),
        None => Ok((pattern, "")),
    }
}

/// Fails with the reason if a text is no pattern.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.trim_matches(['/', ' ']).is_empty() {
        return Err("the pattern names nothing".to_owned());
    }
    if pattern.len() > MAX_KEEP_LINE_BYTES / 2 {
        return Err("the pattern is too long".to_owned());
    }
    if pattern.starts_with('!') {
        return Err(
            "a pattern cannot begin with '!' here; for a file of this name: \\!".to_owned(),
        );
    }
    if pattern.starts_with('#') {
        return Err("a pattern cannot begin with '#'; for a file of this name: \\#".to_owned());
    }
    if pattern.contains(['\n', '\0']) {
        return Err("no line can hold it".to_owned());
    }
    match Pattern::parse(pattern.as_bytes()) {
        Ok(parsed) if parsed.is_empty() => Err("the pattern names nothing".to_owned()),
        Ok(_) => Ok(()),
        Err(e) => Err(format!("the pattern names nothing: {e}")),
    }
}

/// The patterns of one file.
#[derive(Debug)]
pub struct Patterns(PatternList);

impl Patterns {
    /// Prepares patterns that `check_pattern` accepts, in the order of their lines.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Patterns, String> {
        let parsed = patterns.into_iter().map(|p| Pattern::parse(p.as_bytes()));
        let parsed = parsed.collect::<Result<Vec<_>, _>>();
        Ok(Patterns(PatternList::new(
            parsed.map_err(|e| e.to_string())?,
        )))
    }

    /// Returns the place of the last pattern that names the file at `path` or a directory above it.
    /// The path is relative to the directory of the file that has the patterns.
    pub fn last(&self, path: &[u8]) -> Option<usize> {
        let inner = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let dirs = inner.map(|(end, _)| (&path[..end], true));
        let all = dirs.chain([(path, false)]);
        all.filter_map(|(path, is_dir)| self.0.last(path, is_dir))
            .max()
    }

    /// Returns the place of the last pattern that names the file at `path` itself, as Git's attribute files do.
    pub fn last_of_file(&self, path: &[u8]) -> Option<usize> {
        self.0.last(path, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (Vec<(usize, String, String)>, Vec<usize>) {
        let (lines, bad) = attribute_lines(text.as_bytes());
        let lines = lines
            .into_iter()
            .map(|line| (line.number, line.pattern, line.words.join("|")));
        (lines.collect(), bad.iter().map(|bad| bad.number).collect())
    }

    #[test]
    fn a_line_is_a_pattern_and_words() {
        let text = "# comment\n\n/renders/** keep=last:5\r\n  *.mov\tkeep=days:90  text \n\
                    a\\ b keep=all\n\"c d\" keep=none\n\"e\\\"f\" x\nalone";
        let (found, bad) = lines(text);
        let want = [
            (3, "/renders/**", "keep=last:5"),
            (4, "*.mov", "keep=days:90|text"),
            (5, "a\\ b", "keep=all"),
            (6, "c d", "keep=none"),
            (7, "e\"f", "x"),
            (8, "alone", ""),
        ];
        let want = want.map(|(number, p, w)| (number, p.to_owned(), w.to_owned()));
        assert_eq!((found, bad), (want.to_vec(), Vec::new()));
    }

    #[test]
    fn lines_that_cannot_be_used_are_named() {
        let text = "!a keep=all\n\"b keep=all\n\"c\"d keep=all\n[x keep=all\nok keep=all\n";
        let (found, bad) = lines(text);
        assert_eq!(bad, [1, 2, 3, 4]);
        assert_eq!(found.len(), 1);
        assert_eq!(attribute_lines(b"\xff keep=all").1.len(), 1);
        assert!(check_pattern("").is_err() && check_pattern("#a").is_err());
        assert!(check_pattern("a\nb").is_err() && check_pattern("/").is_err());
        assert!(check_pattern(&"a".repeat(MAX_KEEP_LINE_BYTES)).is_err());
        assert!(check_pattern("\\#a").is_ok());
    }

    #[test]
    fn a_hostile_number_of_lines_ends_somewhere() {
        let text = "* keep=none\n".repeat(MAX_ATTRIBUTE_LINES + 9);
        let (lines, bad) = attribute_lines(text.as_bytes());
        assert_eq!((lines.len(), bad.len()), (MAX_ATTRIBUTE_LINES, 1));
    }

    #[test]
    fn the_last_pattern_decides_also_if_it_names_a_directory() -> Result<(), String> {
        let patterns = [
            "*.exr",
            "/renders",
            "keep/",
            "/renders/a.exr",
            "*.exr",
            "c d",
        ];
        let patterns = Patterns::new(patterns)?;
        for (path, want) in [
            ("x.exr", Some(4)),
            ("renders/x", Some(1)),
            ("renders/a.exr", Some(4)),
            ("renders", Some(1)),
            ("a/renders/x", None),
            ("a/keep/x", Some(2)),
            ("keep", None),
            ("a/c d/e", Some(5)),
        ] {
            assert_eq!(patterns.last(path.as_bytes()), want, "{path}");
        }
        Ok(())
    }
}

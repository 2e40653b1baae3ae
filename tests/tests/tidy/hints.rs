//! A command line that people can paste is made by `hint!`, whose values are quoted as arguments. A
//! format string with `dmv restore {path}` in it would print a path as it is.

use crate::code::{line_at, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Where the words of the command line begin: `dmv` behind one of these, or at the begin of the text.
const BEFORE: [&str; 4] = [" ", "(", ": ", "\n"];

/// Returns the line of each string with a command line and a place for a value in it, unless `hint!`
/// fills the place.
pub fn open_command_lines(source: &str, commands: &BTreeSet<String>) -> Vec<usize> {
    let source = without_tests(source);
    let mut out = Vec::new();
    for (at, text) in strings(&source) {
        let is_hint = source[..at].trim_end().ends_with("hint!(");
        if !is_hint && has_open_command(text, commands) {
            out.push(line_at(&source, at));
        }
    }
    out
}

/// Whether a value would be part of a command line. The line ends where the sentence goes on.
fn has_open_command(text: &str, commands: &BTreeSet<String>) -> bool {
    let starts = text.match_indices("dmv ").filter(|(at, _)| {
        let before = &text[..*at];
        before.is_empty() || BEFORE.iter().any(|end| before.ends_with(end))
    });
    starts.into_iter().any(|(at, _)| {
        let rest = &text[at + 4..];
        let end = rest.find([';', ',', '\'', '(', ')']).unwrap_or(rest.len());
        let first = rest.split(' ').next().unwrap_or_default();
        let is_command = commands.contains(first) || first == "-C" || first.starts_with('{');
        is_command && rest[..end].contains('{')
    })
}

/// Returns the names of the commands by the files that implement them.
pub fn commands(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let names = files
        .keys()
        .filter_map(|file| file.strip_prefix("crates/dmv-cli/src/commands/"));
    let names = names.filter_map(|file| file.strip_suffix(".rs"));
    names.map(|name| name.replace('_', "-")).collect()
}

/// Returns the strings of a source, with the place of each. Comments have none.
fn strings(source: &str) -> Vec<(usize, &str)> {
    let bytes = source.as_bytes();
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("'\"'") || rest.starts_with("b'\"'") {
            at += 3;
        } else if bytes[at] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            out.push((at, &source[at + 1..end.min(bytes.len())]));
            at = end + 1;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    out
}

#[test]
fn a_command_line_with_a_raw_value_is_found() {
    let commands = ["keep", "log", "push", "restore", "rm", "undo"]
        .map(str::to_owned)
        .into();
    let open = |source: &str| open_command_lines(source, &commands);
    assert_eq!(open("format!(\"dmv restore {path}\")"), [1]);
    assert_eq!(
        open("\nnote(format_args!(\n  \"note: {n}; to see: dmv log -- {}\",\n  x))"),
        [3]
    );
    assert_eq!(open("format!(\"(dmv undo {id})\")"), [1]);
    assert_eq!(open("hint!(\"dmv restore {}\", path)"), [0; 0]);
    assert_eq!(open("hint!(\n    \"dmv restore {}\",\n    path)"), [0; 0]);
    assert_eq!(open("format!(\"{n} commits: dmv push\")"), [0; 0]);
    assert_eq!(open("format!(\"dmv keeps {n} files\")"), [0; 0]);
    assert_eq!(open("// format!(\"dmv restore {path}\")"), [0; 0]);
    assert_eq!(
        open("#[cfg(test)]\nmod tests { const A: &str = \"dmv rm {path}\"; }"),
        [0; 0]
    );
}

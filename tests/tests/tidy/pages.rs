//! The files, links and headings of Markdown pages.

use super::code::line_at;
use std::collections::BTreeSet;

/// Returns the paths of the source tree that a text names. They begin with one of `tops` and end at
/// the first character that no path has.
pub fn named_files(text: &str, tops: &[&str]) -> Vec<(usize, String)> {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let mut out = Vec::new();
    for top in tops {
        for (at, _) in text.match_indices(top) {
            let before = text[..at].chars().next_back();
            let relative = text[..at].ends_with("../");
            if before.is_some_and(goes_on) && !relative {
                continue;
            }
            let rest = &text[at..];
            let end = rest.find(|c| !goes_on(c)).unwrap_or(rest.len());
            // A pattern or a placeholder is not the name of a file.
            if rest[end..].starts_with(['*', '<', '{', '[']) {
                continue;
            }
            let path = rest[..end].trim_end_matches(['.', '/', '-']);
            out.push((line_at(text, at), path.to_owned()));
        }
    }
    out
}

/// Returns the words in code spans of a page that look like the name of a test: four words or more,
/// with underscores between them. A path before the name (`sync::tests::name`) does not belong to it.
pub fn named_tests(page: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for (n, line) in page.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let name = span.rsplit([':', ' ']).next().unwrap_or_default();
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if name.matches('_').count() >= 3 && name.chars().all(is_word) {
                out.push((n + 1, name.to_owned()));
            }
        }
    }
    out
}

/// Returns the targets of a page's Markdown links outside of code, with their lines.
pub fn links(page: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut fenced = false;
    for (n, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("");
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            out.extend(rest.find(')').map(|end| (n + 1, rest[..end].to_owned())));
        }
    }
    out
}

/// Returns the lines of a page's text that are longer than `most` characters, with their lengths. The
/// text leaves out tables and code.
pub fn long_lines(page: &str, most: usize) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut fenced = false;
    for (n, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let is_text = !fenced && !line.trim_start().starts_with('|');
        let len = line.chars().count();
        if is_text && len > most {
            out.push((n + 1, len));
        }
    }
    out
}

/// Returns the anchors of a page's headings, as web sites make them.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let letter = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        };
        out.insert(heading.trim().chars().filter_map(letter).collect());
    }
    out
}

/// Resolves `target` relative to the directory of `file`. Returns a path from the root.
pub fn resolve(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn files_are_found_where_a_text_names_them() {
    let text =
        "see docs/format/pack.md, \"Record\"; (docs/x-y.md).\n../../docs/a docs/b/*.md xdocs/c";
    let found = named_files(text, &["docs/"]);
    let found: Vec<&str> = found.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(found, ["docs/format/pack.md", "docs/x-y.md", "docs/a"]);
}

#[test]
fn names_of_tests_are_found_in_code_spans() {
    let page = "`a_b_c_d` and `x::one_two_three_four`, not x_x_x_x\n`run -- it_is_run_here` `a_b` `A_B_C_D`";
    let found = named_tests(page);
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["a_b_c_d", "one_two_three_four", "it_is_run_here"]);
    assert_eq!(found[2].0, 2);
}

//! Edits of a text as a unified diff, which `patch` takes.

use dmv_core::diff::lines::{Edit, Lines};
use std::io::{self, Write};
use std::ops::Range;

/// Equal lines that are shown around an edit.
const CONTEXT: usize = 3;

/// Writes the edits that make `texts[1]` of `texts[0]`, with the names of both.
pub fn write(
    (old, new): &(String, String),
    texts: &[Lines<'_>; 2],
    edits: &[Edit],
    out: &mut impl Write,
) -> io::Result<()> {
    if !edits.is_empty() {
        write!(out, "--- {old}\n+++ {new}\n")?;
    }
    for hunk in edits.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT) {
        write_hunk(texts, hunk, out)?;
    }
    Ok(())
}

fn write_hunk(texts: &[Lines<'_>; 2], hunk: &[Edit], out: &mut impl Write) -> io::Result<()> {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
        return Ok(());
    };
    let ahead = first.old.start.min(CONTEXT);
    let behind = (texts[0].len() - last.old.end).min(CONTEXT);
    let old = first.old.start - ahead..last.old.end + behind;
    let new = first.new.start - ahead..last.new.end + behind;
    writeln!(out, "@@ -{} +{} @@", place(&old), place(&new))?;
    let mut at = old.start;
    for edit in hunk {
        write_lines(b' ', &texts[0], at..edit.old.start, out)?;
        write_lines(b'-', &texts[0], edit.old.clone(), out)?;
        write_lines(b'+', &texts[1], edit.new.clone(), out)?;
        at = edit.old.end;
    }
    write_lines(b' ', &texts[0], at..old.end, out)
}

/// Lines in a hunk's head: the first and how many; the one before where there are none.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        len => format!("{},{len}", lines.start + 1),
    }
}

fn write_lines(
    mark: u8,
    text: &Lines<'_>,
    lines: Range<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    for n in lines {
        let line = text.get(n);
        out.write_all(&[mark])?;
        out.write_all(line)?;
        if line.last() != Some(&b'\n') {
            out.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::diff::lines::{Numbers, edits};
    use std::sync::atomic::AtomicBool;

    fn unified(old: &str, new: &str) -> String {
        let never = AtomicBool::new(false);
        let texts = Lines::of([old.as_bytes(), new.as_bytes()]);
        let mut numbers = Numbers::with_room(texts[0].len() + texts[1].len());
        let mut of = |lines| numbers.of(lines, &never).expect("nobody cancels");
        let (a, b) = (of(&texts[0]), of(&texts[1]));
        let edits = edits([&a, &b], numbers.count(), &never).expect("nobody cancels");
        let mut out = Vec::new();
        let names = ("a/x".to_owned(), "b/x".to_owned());
        write(&names, &texts, &edits.list, &mut out).expect("a vector takes all");
        String::from_utf8(out).expect("text stays text")
    }

    #[test]
    fn edits_near_each_other_are_one_hunk() {
        let text = |own: &[usize]| -> String {
            let line = |n: usize| {
                if own.contains(&n) {
                    format!("new {n}\n")
                } else {
                    format!("{n}\n")
                }
            };
            (1..=20).map(line).collect()
        };
        assert_eq!(unified(&text(&[]), &text(&[])), "");
        let near = unified(&text(&[]), &text(&[5, 12]));
        assert_eq!(near.matches("@@ -").count(), 1);
        assert!(near.starts_with("--- a/x\n+++ b/x\n@@ -2,14 +2,14 @@\n 2\n 3\n 4\n-5\n+new 5\n"));
        let apart = unified(&text(&[]), &text(&[5, 13]));
        assert_eq!(apart.matches("@@ -").count(), 2);
        assert!(apart.contains("\n@@ -10,7 +10,7 @@\n 10\n"));
    }

    #[test]
    fn a_hunk_without_lines_names_the_line_before() {
        assert_eq!(
            unified("", "a\nb\n"),
            "--- a/x\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n"
        );
        assert_eq!(
            unified("a\n", "b"),
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
        );
    }
}

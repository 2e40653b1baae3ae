//! `--stat`: one line for each file, in two columns that fit a terminal, and the sums.

use super::{Body, FileDiff, Privacy};
use crate::context::Context;
use crate::failure::Failure;
use crate::format::text::{bytes, count};
use crate::ui::color;
use anstyle::AnsiColor;
use dmv_core::object::name::escape;
use std::io::Write;

/// The columns of a usual terminal.
const COLUMNS: usize = 80;
/// The least columns for names, if there are longer ones.
const NAME_AT_LEAST: usize = 40;
/// The lines that are kept to make their columns equal.
const LINES_AT_ONCE: usize = 10_000;

/// The lines and sums of `--stat`.
#[derive(Default)]
pub struct StatTable {
    lines: Vec<StatLine>,
    files: u64,
    insertions: u64,
    deletions: u64,
    new_bytes: u64,
}

struct StatLine {
    name: String,
    fact: String,
}

impl StatTable {
    /// Adds the line of a file.
    pub fn add(&mut self, context: &Context, diff: &FileDiff) -> Result<(), Failure> {
        // An empty directory is no file.
        let kinds = [diff.old_kind, diff.new_kind];
        let has_file = kinds.into_iter().flatten().any(|kind| kind != "directory");
        self.files += u64::from(has_file);
        match &diff.body {
            Body::None | Body::Absent(_) => {}
            Body::Text {
                insertions,
                deletions,
                ..
            } => {
                self.insertions += insertions;
                self.deletions += deletions;
            }
            Body::Bytes { new_bytes, .. } => self.new_bytes += new_bytes,
        }
        let path = escape(&diff.path).to_string();
        let name = match &diff.renamed {
            Some(rename) => renamed(&escape(&rename.from).to_string(), &path),
            None => path,
        };
        let mut fact = fact(diff);
        if let Some(rename) = diff.renamed.as_ref().filter(|rename| rename.percent < 100) {
            fact += &format!(", {} % the same", rename.percent);
        }
        self.lines.push(StatLine { name, fact });
        if self.lines.len() >= LINES_AT_ONCE {
            self.print_lines(context)?;
        }
        Ok(())
    }

    /// Prints the lines and the sums; nothing without a file.
    pub fn print(mut self, context: &Context) -> Result<(), Failure> {
        let is_empty = self.files == 0 && self.lines.is_empty();
        self.print_lines(context)?;
        if is_empty {
            return Ok(());
        }
        let mut sums = vec![format!("{} changed", count(self.files, "file", "files"))];
        if self.insertions + self.deletions > 0 {
            sums.push(format!("+{} -{} lines", self.insertions, self.deletions));
        }
        if self.new_bytes > 0 {
            sums.push(format!("{} new in other files", bytes(self.new_bytes)));
        }
        writeln!(context.ui.out(), " {}", sums.join(", "))?;
        Ok(())
    }

    fn print_lines(&mut self, context: &Context) -> Result<(), Failure> {
        let ui = &context.ui;
        let lines = std::mem::take(&mut self.lines);
        let width = name_width(&lines);
        for StatLine { name, fact } in lines {
            let name = shortened(&name, width);
            let fact = match fact.split_once(" -") {
                Some((plus, rest)) if plus.starts_with('+') => {
                    let (minus, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
                    let plus = ui.paint(color(AnsiColor::Green), plus);
                    let minus = ui.paint(color(AnsiColor::Red), format_args!("-{minus}"));
                    format!("{plus} {minus}{rest}")
                }
                _ => fact,
            };
            writeln!(ui.out(), " {name:<width$} | {fact}")?;
        }
        Ok(())
    }
}

/// What changed in a file, in a few words.
fn fact(diff: &FileDiff) -> String {
    if let Some(conflict) = &diff.conflict {
        return format!("conflict ({})", conflict.kind());
    }
    match &diff.body {
        Body::None => match (diff.old_kind, diff.new_kind) {
            (Some(old), Some(new)) if old != new => format!("{old} became {new}"),
            _ => match diff.privacy {
                Some(Privacy::Private) => "private".to_owned(),
                Some(Privacy::Public) => "no longer private".to_owned(),
                None if !diff.xattrs.is_empty() => "extended attributes".to_owned(),
                None => diff.change.to_owned(),
            },
        },
        Body::Text {
            insertions,
            deletions,
            is_coarse,
            ..
        } => {
            let at_most = if *is_coarse { " at most" } else { "" };
            format!("+{insertions} -{deletions}{at_most}")
        }
        Body::Absent(absent) => absent.words(),
        Body::Bytes { new_bytes, .. } => match (diff.old_size, diff.new_size) {
            (None, Some(size)) => format!("{}, new", bytes(size)),
            (Some(size), None) => format!("{}, deleted", bytes(size)),
            (_, size) => format!("{}, {} new", bytes(size.unwrap_or(0)), bytes(*new_bytes)),
        },
    }
}

/// How wide the column of names is, so that most lines fit.
fn name_width(lines: &[StatLine]) -> usize {
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let name = widest(&mut lines.iter().map(|line| line.name.chars().count()));
    let fact = widest(&mut lines.iter().map(|line| line.fact.chars().count()));
    // The space before the name, and the line between the columns.
    let left = COLUMNS.saturating_sub(fact + 4);
    name.min(left.max(NAME_AT_LEAST))
}

/// A name of at most `width` columns: of a longer one, the end says most.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length + 1 - width).collect();
    format!("…{end}")
}

/// Two names of a file, and once what both begin and end with: `media/{a -> b}/1.exr`.
fn renamed(from: &str, to: &str) -> String {
    let same = from
        .bytes()
        .zip(to.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let begin = from.as_bytes()[..same].iter().rposition(|b| *b == b'/');
    let begin = begin.map_or(0, |at| at + 1);
    let (old, new) = (&from[begin..], &to[begin..]);
    let same = old.bytes().rev().zip(new.bytes().rev());
    let same = same.take_while(|(a, b)| a == b).count();
    let end = old.as_bytes()[old.len() - same..]
        .iter()
        .position(|b| *b == b'/');
    let end = end.map_or(0, |at| same - at);
    if begin + end == 0 {
        return format!("{from} -> {to}");
    }
    let (begin, end) = (&from[..begin], &old[old.len() - end..]);
    let (old, new) = (&old[..old.len() - end.len()], &new[..new.len() - end.len()]);
    format!("{begin}{{{old} -> {new}}}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_names_share_is_shown_once() {
        for (from, to, shown) in [
            ("a", "b", "a -> b"),
            ("d/a", "d/b", "d/{a -> b}"),
            ("a/x", "b/x", "{a -> b}/x"),
            ("m/a/x/1", "m/b/x/1", "m/{a -> b}/x/1"),
            ("m/x", "m/n/x", "m/{x -> n/x}"),
            ("clip1", "clip2", "clip1 -> clip2"),
            ("ä/x", "ö/x", "{ä -> ö}/x"),
        ] {
            assert_eq!(renamed(from, to), shown);
        }
    }

    #[test]
    fn a_line_fits_the_columns_and_the_end_of_a_name_stays() {
        let line = |name: &str, fact: &str| StatLine {
            name: name.to_owned(),
            fact: fact.to_owned(),
        };
        let long = "x/".repeat(60) + "clip.mov";
        let lines = [line("a", "+1 -0"), line(&long, "8.2 MiB, 6.7 MiB new")];
        let width = name_width(&lines);
        assert_eq!(width, 80 - 4 - 20);
        let shown = shortened(&long, width);
        assert_eq!(shown.chars().count(), width);
        assert!(
            shown.starts_with('…') && shown.ends_with("x/clip.mov"),
            "{shown}"
        );
        assert_eq!(shortened("a", width), "a");
        // A fact of any length leaves room for names.
        let wide = [line(&long, &"y".repeat(200))];
        assert_eq!(name_width(&wide), NAME_AT_LEAST);
        assert_eq!(name_width(&[]), 0);
    }
}

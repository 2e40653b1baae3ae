//! Two texts as a diff of lines, with a few equal lines around each change.

use crate::pages::parts::turned;
use crate::words::{count, turns};
use dmv_core::diff::lines::{Edit, Edits, Lines, Numbers, edits};
use maud::{Markup, html};
use std::sync::atomic::AtomicBool;

/// Equal lines around a change.
const AROUND: usize = 3;
/// Lines that are shown.
const MAX_LINES: usize = 3_000;
/// Characters of a line that are shown.
const MAX_WIDTH: usize = 600;

/// A line of the diff.
struct Line {
    sign: char,
    /// Its number in the old text and in the new one.
    at: [Option<usize>; 2],
    text: String,
}

/// A diff of two texts.
pub struct UnifiedDiff {
    lines: Vec<Line>,
    added: usize,
    removed: usize,
    is_cut: bool,
    is_coarse: bool,
}

impl UnifiedDiff {
    /// Compares two texts.
    pub fn of(old: &[u8], new: &[u8]) -> UnifiedDiff {
        let never = AtomicBool::new(false);
        let [a, b] = Lines::of([old, new]);
        let mut numbers = Numbers::with_room(a.len() + b.len());
        let found = numbers
            .of(&a, &never)
            .and_then(|old| Ok((old, numbers.of(&b, &never)?)))
            .and_then(|(old, new)| edits([&old, &new], numbers.count(), &never));
        // Nothing stops it, so there is a result.
        let Edits { list, is_coarse } = found.unwrap_or_default();
        let mut out = UnifiedDiff {
            lines: Vec::new(),
            added: list.iter().map(|e| e.new.len()).sum(),
            removed: list.iter().map(|e| e.old.len()).sum(),
            is_cut: false,
            is_coarse: is_coarse || a.is_coarse() || b.is_coarse(),
        };
        out.write(&list, &a, &b);
        out
    }

    fn write(&mut self, list: &[Edit], a: &Lines<'_>, b: &Lines<'_>) {
        let mut at = 0;
        for (n, edit) in list.iter().enumerate() {
            let from = edit.old.start.saturating_sub(AROUND).max(at);
            if from > at || n == 0 && from > 0 {
                self.push('@', [Some(from + 1), None], b"");
            }
            // Lines before the edit are the same in both, at this distance.
            let shift = edit.new.start as isize - edit.old.start as isize;
            for line in from..edit.old.start {
                self.push(
                    ' ',
                    [
                        Some(line + 1),
                        line.checked_add_signed(shift).map(|n| n + 1),
                    ],
                    a.get(line),
                );
            }
            for line in edit.old.clone() {
                self.push('-', [Some(line + 1), None], a.get(line));
            }
            for line in edit.new.clone() {
                self.push('+', [None, Some(line + 1)], b.get(line));
            }
            let next = list.get(n + 1).map_or(a.len(), |next| next.old.start);
            let to = (edit.old.end + AROUND).min(next);
            let shift = edit.new.end as isize - edit.old.end as isize;
            for line in edit.old.end..to {
                self.push(
                    ' ',
                    [
                        Some(line + 1),
                        line.checked_add_signed(shift).map(|n| n + 1),
                    ],
                    a.get(line),
                );
            }
            at = to;
            if self.is_cut {
                return;
            }
        }
    }

    fn push(&mut self, sign: char, at: [Option<usize>; 2], line: &[u8]) {
        if self.lines.len() >= MAX_LINES {
            self.is_cut = true;
            return;
        }
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        let text: String = text.chars().take(MAX_WIDTH).collect();
        self.lines.push(Line { sign, at, text });
    }

    /// The lines with their signs, for programs.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.iter().filter(|line| line.sign != '@');
        lines
            .map(|line| format!("{}{}", line.sign, line.text))
            .collect()
    }

    /// The diff as a table.
    pub fn page(&self) -> Markup {
        let number = |n: Option<usize>| n.map(|n| n.to_string()).unwrap_or_default();
        let class = |sign| match sign {
            '+' => "add",
            '-' => "del",
            '@' => "gap",
            _ => "eq",
        };
        html! {
            p.quiet { (count(self.added as u64, "line", "lines")) " added, " (self.removed) " removed" }
            @if self.is_coarse { p.note { "These texts differ too much to find all lines that they share." } }
            @if let Some(line) = self.lines.iter().find(|line| line.text.contains(turns)) { (turned(&line.text)) }
            div.scroll tabindex="0" role="region" aria-label="Differences" {
                table.diff {
                    tbody {
                        @for line in &self.lines {
                            tr.(class(line.sign)) {
                                @if line.sign == '@' {
                                    td colspan="4" { "\u{22ef}" }
                                } @else {
                                    td.n { (number(line.at[0])) }
                                    td.n { (number(line.at[1])) }
                                    td.s { (line.sign) }
                                    td { code { (line.text) } }
                                }
                            }
                        }
                    }
                }
            }
            @if self.is_cut { p.note { "Only the first " (MAX_LINES) " lines are shown." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> Vec<u8> {
        lines
            .iter()
            .flat_map(|line| format!("{line}\n").into_bytes())
            .collect()
    }

    #[test]
    fn a_change_has_a_few_lines_around_it() {
        let all: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        let old: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut new = old.clone();
        new[9] = "ten";
        let diff = UnifiedDiff::of(&text(&old), &text(&new));
        let want = [" 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"];
        assert_eq!(diff.lines(), want);
        assert_eq!((diff.added, diff.removed), (1, 1));
        let after = diff
            .lines
            .iter()
            .find(|line| line.text == "11")
            .expect("a line");
        assert_eq!(after.at, [Some(11), Some(11)]);
    }

    #[test]
    fn near_changes_share_the_lines_between() {
        let old = text(&["a", "b", "c", "d", "e"]);
        let new = text(&["a", "B", "c", "d", "E", "f"]);
        let diff = UnifiedDiff::of(&old, &new);
        assert_eq!(
            diff.lines(),
            [" a", "-b", "+B", " c", " d", "-e", "+E", "+f"]
        );
        assert_eq!(UnifiedDiff::of(b"", &new).added, 6);
        assert_eq!(UnifiedDiff::of(&new, &new).lines(), [""; 0]);
    }
}

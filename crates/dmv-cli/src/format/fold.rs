//! Long lists: the first lines, and how many more there are.

use std::io::{self, Write};

/// How many lines of a long list are printed without --verbose.
const LINES_SHOWN: usize = 10;

/// Prints `lines`, each indented, or the first of them and the number of the others.
pub fn print_some(
    out: &mut impl Write,
    lines: impl ExactSizeIterator<Item = String>,
    all: bool,
) -> io::Result<()> {
    let lines = some_lines(lines, all);
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// `lines`, each indented, or the first of them and the number of the others.
pub fn some_lines(lines: impl ExactSizeIterator<Item = String>, all: bool) -> Vec<String> {
    let total = lines.len();
    let shown = if all { total } else { shown_of(total) };
    let mut some: Vec<String> = lines.take(shown).map(|line| format!("  {line}")).collect();
    if shown < total {
        let more = thousands((total - shown) as u64);
        some.push(format!("  … and {more} more (-v lists all)"));
    }
    some
}

/// How many lines of a list are printed. The place of the note that there is one more is as good for that
/// one.
fn shown_of(total: usize) -> usize {
    if total == LINES_SHOWN + 1 {
        total
    } else {
        total.min(LINES_SHOWN)
    }
}

/// `6,021`.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(total: usize, all: bool) -> String {
        let mut out = Vec::new();
        let lines: Vec<String> = (0..total).map(|n| n.to_string()).collect();
        print_some(&mut out, lines.into_iter(), all).expect("a vector takes it");
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn a_long_list_ends_with_the_number_of_the_others() {
        assert_eq!(printed(0, false), "");
        assert_eq!(printed(10, false).lines().count(), 10);
        // One more takes the same room as the note.
        assert_eq!(printed(11, false).lines().last(), Some("  10"));
        let twelve = printed(12, false);
        assert_eq!(twelve.lines().count(), 11);
        assert_eq!(twelve.lines().last(), Some("  … and 2 more (-v lists all)"));
        assert!(printed(6031, false).ends_with("  … and 6,021 more (-v lists all)\n"));
        assert_eq!(printed(6031, true).lines().count(), 6031);
    }

    #[test]
    fn digits_are_in_groups_of_three() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(n), text);
        }
    }
}

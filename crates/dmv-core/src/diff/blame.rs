//! Which lines of a text come from an earlier text: the step that `blame` repeats.
//!
//! The lines in question are [`Span`]s. [`split`] divides them by the differences of two texts: some
//! come from the old text, the others are new. [`differences`] finds these differences. It compares
//! only what lies between the common beginning and the common end, since two versions of a long
//! text mostly differ in a few lines. The module knows no files and no commits.

use super::lines::{Edit, Lines, Numbers, edits};
use crate::job::Cancelled;
use std::sync::atomic::AtomicBool;

/// Adjacent lines of the final text, and where they are in a version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first line in the final text, from 0.
    pub line: usize,
    /// The same line in the version.
    pub at: usize,
    /// The number of lines.
    pub len: usize,
}

/// Divides spans of a new text by its differences from an old one.
///
/// `spans` are in the order of the new text and keep the lines that are new. Returns the others,
/// with their places in the old text.
pub fn split(spans: &mut Vec<Span>, edits: &[Edit]) -> Vec<Span> {
    let (mut new, mut old) = (Vec::new(), Vec::new());
    let mut next = edits.iter().peekable();
    // How far the old text is ahead of the new one between two edits.
    let mut shift = 0isize;
    for span in spans.iter() {
        let mut rest = *span;
        while rest.len > 0 {
            while let Some(edit) = next.next_if(|edit| edit.new.end <= rest.at) {
                shift += edit.old.len() as isize - edit.new.len() as isize;
            }
            let (is_new, end) = match next.peek() {
                Some(edit) if edit.new.start <= rest.at => (true, edit.new.end),
                Some(edit) => (false, edit.new.start),
                None => (false, usize::MAX),
            };
            let len = rest.len.min(end - rest.at);
            let part = Span { len, ..rest };
            if is_new {
                push(&mut new, part);
            } else {
                let at = rest.at.saturating_add_signed(shift);
                push(&mut old, Span { at, ..part });
            }
            rest.line += len;
            rest.at += len;
            rest.len -= len;
        }
    }
    *spans = new;
    old
}

/// Adds a span; joins it with the last one if both continue each other.
fn push(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if (last.line + last.len, last.at + last.len) == (span.line, span.at) => {
            last.len += span.len;
        }
        _ => spans.push(span),
    }
}

/// Puts spans of one version in its order, and joins those that continue each other. The same line
/// of a version may be in several spans, if the final text has it several times.
pub fn sort(spans: &mut Vec<Span>) {
    spans.sort_unstable_by_key(|span| (span.at, span.line));
    let mut out = Vec::with_capacity(spans.len());
    for span in spans.drain(..) {
        push(&mut out, span);
    }
    *spans = out;
}

/// Returns the number of lines of a text. The last line need not have an end.
pub(crate) fn line_count(text: &[u8]) -> usize {
    let ends = text.iter().filter(|b| **b == b'\n').count();
    ends + usize::from(text.last().is_some_and(|b| *b != b'\n'))
}

/// Returns the edits that turn the lines of `old` into those of `new`, in order. Fails if `cancel`
/// is set.
pub fn differences(old: &[u8], new: &[u8], cancel: &AtomicBool) -> Result<Vec<Edit>, Cancelled> {
    let start = common_start(old, new);
    let end = common_end(&old[start..], &new[start..]);
    let (old_part, new_part) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let above = line_count(&old[..start]);
    let below = &new[new.len() - end..];
    let lines = Lines::of([old_part, new_part]);
    if lines.iter().any(Lines::is_coarse) {
        // Too many lines: all that lies between the common parts is one edit.
        let range = |part| above..above + line_count(part);
        let (old, new) = (range(old_part), range(new_part));
        return Ok(vec![Edit { old, new }]);
    }
    let [a, b] = &lines;
    let mut numbers = Numbers::with_room(a.len() + b.len());
    let (x, y) = (numbers.of(a, cancel)?, numbers.of(b, cancel)?);
    let mut list = edits([&x, &y], numbers.count(), cancel)?.list;
    slide_down(&mut list, [a, b], below);
    for edit in &mut list {
        for range in [&mut edit.old, &mut edit.new] {
            *range = range.start + above..range.end + above;
        }
    }
    Ok(list)
}

/// Moves the last edit as far down into the common end as `edits` would have moved it, had it seen
/// this end.
fn slide_down(list: &mut [Edit], texts: [&Lines<'_>; 2], below: &[u8]) {
    let Some(last) = list.last_mut() else {
        return;
    };
    let lens = texts.map(Lines::len);
    if [last.old.end, last.new.end] != lens {
        return;
    }
    let (text, own) = match (last.old.is_empty(), last.new.is_empty()) {
        (true, false) => (texts[1], last.new.clone()),
        (false, true) => (texts[0], last.old.clone()),
        _ => return,
    };
    // The first line of the run follows it at the end of each step.
    let mut run = std::collections::VecDeque::from_iter(own.map(|n| text.get(n)));
    let mut steps = 0;
    for line in below.split_inclusive(|b| *b == b'\n') {
        if run.front() != Some(&line) {
            break;
        }
        run.rotate_left(1);
        steps += 1;
    }
    for range in [&mut last.old, &mut last.new] {
        *range = range.start + steps..range.end + steps;
    }
}

/// Returns the length in bytes of the complete lines that both texts begin with.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    let equal = equal_bytes(a, b);
    if equal == a.len() && equal == b.len() {
        return equal;
    }
    a[..equal]
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1)
}

/// Returns the length in bytes of the complete lines that both texts end with. Both begin with a
/// line.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let equal = equal_bytes_at_end(a, b);
    // Only after a line end does a complete line begin. The beginning of a text counts, too.
    if equal == a.len() && starts_line(b, b.len() - equal)
        || equal == b.len() && starts_line(a, a.len() - equal)
    {
        return equal;
    }
    let tail = &a[a.len() - equal..];
    let cut = tail
        .iter()
        .position(|b| *b == b'\n')
        .map_or(equal, |at| at + 1);
    equal - cut
}

fn starts_line(text: &[u8], at: usize) -> bool {
    at == 0 || text[at - 1] == b'\n'
}

/// Bytes that are compared at once.
const BLOCK: usize = 4096;

fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let start = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let rest = a[start..].iter().zip(&b[start..]);
    start + rest.take_while(|(a, b)| a == b).count()
}

fn equal_bytes_at_end(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK));
    let end = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    let rest = a.iter().rev().zip(b.iter().rev());
    end + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn compare(old: &str, new: &str) -> Vec<Edit> {
        let never = AtomicBool::new(false);
        differences(old.as_bytes(), new.as_bytes(), &never).expect("nobody cancels")
    }

    /// The edits of the complete texts, without the common parts left out.
    fn in_full(old: &str, new: &str) -> Vec<Edit> {
        let never = AtomicBool::new(false);
        let [a, b] = Lines::of([old.as_bytes(), new.as_bytes()]);
        let mut numbers = Numbers::with_room(a.len() + b.len());
        let mut of = |lines| numbers.of(lines, &never).expect("nobody cancels");
        let (x, y) = (of(&a), of(&b));
        edits([&x, &y], numbers.count(), &never)
            .expect("nobody cancels")
            .list
    }

    fn text(words: &[u8], has_end: bool) -> String {
        let mut out: String = words.iter().map(|n| format!("{n}\n")).collect();
        if !has_end {
            out.pop();
        }
        out
    }

    fn whole(lines: usize) -> Vec<Span> {
        vec![Span {
            line: 0,
            at: 0,
            len: lines,
        }]
    }

    #[test]
    fn lines_are_divided_at_each_edit() {
        let mut spans = whole(6);
        let edits = compare("a\nb\nc\nd\n", "new\na\nb\nC\nmore\nd\n");
        let old = split(&mut spans, &edits);
        let of = |list: &[Span]| -> Vec<(usize, usize, usize)> {
            list.iter().map(|s| (s.line, s.at, s.len)).collect()
        };
        assert_eq!(of(&spans), [(0, 0, 1), (3, 3, 2)]);
        assert_eq!(of(&old), [(1, 0, 2), (5, 3, 1)]);
        // Only the lines in question are divided.
        let mut some = vec![Span {
            line: 9,
            at: 2,
            len: 2,
        }];
        assert_eq!(of(&split(&mut some, &edits)), [(9, 1, 1)]);
        assert_eq!(of(&some), [(10, 3, 1)]);
    }

    #[test]
    fn texts_without_a_last_line_end_and_empty_texts_are_compared() {
        assert_eq!(compare("", ""), []);
        assert_eq!(compare("a\n", "a\n"), []);
        let edit = |old, new| vec![Edit { old, new }];
        assert_eq!(compare("", "a\nb"), edit(0..0, 0..2));
        assert_eq!(compare("a\nb", "a\nb\n"), edit(1..2, 1..2));
        assert_eq!(compare("b\n", "a\nb\n"), edit(0..0, 0..1));
        assert_eq!(compare("xb\n", "b\n"), edit(0..1, 0..1));
        assert_eq!(
            (line_count(b""), line_count(b"a"), line_count(b"a\n")),
            (0, 1, 1)
        );
    }

    #[test]
    fn spans_that_continue_each_other_are_joined() {
        let span = |line, at, len| Span { line, at, len };
        let mut spans = vec![span(5, 5, 2), span(0, 0, 3), span(3, 3, 2), span(9, 8, 1)];
        sort(&mut spans);
        assert_eq!(spans, [span(0, 0, 7), span(9, 8, 1)]);
    }

    proptest! {
        #[test]
        fn leaving_out_the_common_parts_changes_nothing(
            above in vec(0u8..4, 0..6), old in vec(0u8..4, 0..8), new in vec(0u8..4, 0..8),
            below in vec(0u8..4, 0..6), ends in (any::<bool>(), any::<bool>()),
        ) {
            let join = |middle: &[u8]| [&above[..], middle, &below[..]].concat();
            let (old, new) = (text(&join(&old), ends.0), text(&join(&new), ends.1));
            let (found, all) = (compare(&old, &new), in_full(&old, &new));
            // With several equal lines, the search may find other shared lines, but not fewer.
            let size = |list: &[Edit]| -> usize {
                list.iter().map(|edit| edit.old.len() + edit.new.len()).sum()
            };
            prop_assert!(size(&found) <= size(&all), "{found:?} {all:?}");
            if found.len() == 1 && all.len() == 1 {
                prop_assert_eq!(found, all);
            }
        }

        #[test]
        fn every_line_is_new_or_equal_to_its_line_in_the_old_text(
            old in vec(0u8..6, 0..12), new in vec(0u8..6, 0..12),
        ) {
            let edits = compare(&text(&old, true), &text(&new, true));
            let mut spans = whole(new.len());
            let from = split(&mut spans, &edits);
            let mut known = vec![0; new.len()];
            for span in &from {
                for n in 0..span.len {
                    prop_assert_eq!(new[span.line + n], old[span.at + n]);
                    known[span.line + n] += 1;
                }
            }
            for span in &spans {
                prop_assert_eq!(span.line, span.at);
                known[span.line..span.line + span.len].iter_mut().for_each(|n| *n += 1);
            }
            prop_assert!(known.iter().all(|n| *n == 1), "{known:?}");
        }
    }
}

//! Merging a text by lines.
//!
//! Both diffs use the histogram algorithm, as Git does for merges. They are also combined as in
//! Git: changes that overlap or touch are one region, and a region that both sides changed to the
//! same lines is not a conflict.

use crate::diff::lines::{Edit, Lines, Numbers, edits};
use crate::job::Cancelled;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Characters in a marker line, unless a line of the text looks like a marker.
const MARKER_LEN: usize = 7;

/// The text that results from merging three versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MergedText {
    /// The text. Regions in conflict are between marker lines, in the style of diff3.
    pub text: Vec<u8>,
    /// Number of regions in conflict.
    pub regions: usize,
    /// Characters in a marker line.
    pub marker_len: usize,
    /// Whether the texts differ too much to separate all changes. Changes that were not separated
    /// are one change, which may cause a conflict.
    pub is_coarse: bool,
}

/// Returns the number of the first line of `text`, from 1, that begins or ends a region, where `len`
/// is the number of characters in a marker.
pub(crate) fn marker_line(text: &[u8], len: usize) -> Option<u64> {
    let is_marker = |line: &[u8]| {
        let ends = matches!(line.get(len), None | Some(b' ' | b'\n' | b'\r'));
        ends && (run_of(line, b'<') == len || run_of(line, b'>') == len)
    };
    let at = text.split_inclusive(|b| *b == b'\n').position(is_marker)?;
    Some(at as u64 + 1)
}

/// Returns the number of the first line of `text`, from 1, that begins or ends a region, with markers of any length.
pub(crate) fn any_marker_line(text: &[u8]) -> Option<u64> {
    let is_marker = |line: &[u8]| {
        let len = run_of(line, b'<').max(run_of(line, b'>'));
        len >= MARKER_LEN && marker_line(line, len).is_some()
    };
    let at = text.split_inclusive(|b| *b == b'\n').position(is_marker)?;
    Some(at as u64 + 1)
}

/// Returns how often `mark` is repeated at the beginning of a line.
fn run_of(line: &[u8], mark: u8) -> usize {
    line.iter().take_while(|b| **b == mark).count()
}

/// Merges three texts by lines.
pub(crate) fn marked_text(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    cancel: &AtomicBool,
) -> Result<MergedText, Cancelled> {
    let marker_len = marker_len([base, ours, theirs]);
    let texts = Lines::of([base, ours, theirs]);
    let [base, ours, theirs] = &texts;
    let mut out = MergedText {
        text: Vec::new(),
        regions: 0,
        marker_len,
        is_coarse: texts.iter().any(Lines::is_coarse),
    };
    let sides = edits_of_sides(&texts, &mut out.is_coarse, cancel)?;
    let mut next = [0, 0];
    // The positions up to which base, ours and theirs have been written. They correspond to each
    // other.
    let mut at = 0;
    let mut done = [0, 0];
    while let Some(region) = take_region(&sides, &mut next) {
        out.text.extend_from_slice(base.range(at..region.start));
        let ends = [0, 1].map(|s| side_position(&sides[s][..next[s]], region.end));
        let starts = [0, 1].map(|s| done[s] + (region.start - at));
        let made = [
            ours.range(starts[0]..ends[0]),
            theirs.range(starts[1]..ends[1]),
        ];
        let before = base.range(region.clone());
        match made {
            [ours, theirs] if ours == theirs || theirs == before => {
                out.text.extend_from_slice(ours);
            }
            [ours, theirs] if ours == before => out.text.extend_from_slice(theirs),
            made => {
                let ends = [(ours, starts[0]), (theirs, starts[1])]
                    .map(|(lines, start)| line_end(lines, start.saturating_sub(1)));
                let line_end = common_line_end([ends[0], ends[1], line_end(base, 0)]);
                out.put_conflict(before, made, line_end);
            }
        }
        at = region.end;
        done = ends;
    }
    out.text.extend_from_slice(base.range(at..base.len()));
    Ok(out)
}

/// Returns the edits of each side relative to the base.
fn edits_of_sides(
    texts: &[Lines<'_>; 3],
    is_coarse: &mut bool,
    cancel: &AtomicBool,
) -> Result<[Vec<Edit>; 2], Cancelled> {
    let mut numbers = Numbers::with_room(texts.iter().map(Lines::len).sum());
    let mut of = |lines| numbers.of(lines, cancel);
    let [base, ours, theirs] = [of(&texts[0])?, of(&texts[1])?, of(&texts[2])?];
    let count = numbers.count();
    drop(numbers);
    let mut edits = |side: &[u32]| {
        let edits = edits([&base, side], count, cancel)?;
        *is_coarse |= edits.is_coarse;
        Ok(edits.list)
    };
    Ok([edits(&ours)?, edits(&theirs)?])
}

impl MergedText {
    fn put_conflict(&mut self, base: &[u8], [ours, theirs]: [&[u8]; 2], line_end: &[u8]) {
        self.regions += 1;
        let parts = [
            (b'<', "ours", ours),
            (b'|', "base", base),
            (b'=', "", theirs),
        ];
        for (mark, label, lines) in parts {
            self.put_marker(mark, label, line_end);
            self.text.extend_from_slice(lines);
        }
        self.put_marker(b'>', "theirs", line_end);
    }

    fn put_marker(&mut self, mark: u8, label: &str, line_end: &[u8]) {
        // A last line without a line end would join with the marker.
        if self.text.last().is_some_and(|b| *b != b'\n') {
            self.text.extend_from_slice(line_end);
        }
        self.text.extend(std::iter::repeat_n(mark, self.marker_len));
        if !label.is_empty() {
            self.text.push(b' ');
            self.text.extend_from_slice(label.as_bytes());
        }
        self.text.extend_from_slice(line_end);
    }
}

/// Returns whether a line, or else the one before it, ends with a carriage return and a line feed.
/// `None` if neither has an end.
fn line_end(lines: &Lines<'_>, at: usize) -> Option<bool> {
    let line = |at: usize| lines.range(at..(at + 1).min(lines.len()));
    let found = [Some(at), at.checked_sub(1)].into_iter().flatten();
    let mut found = found.map(line).filter(|line| line.ends_with(b"\n"));
    found.next().map(|line| line.ends_with(b"\r\n"))
}

/// Returns the line end of markers among lines with these ends, as Git does: a carriage return only
/// if nothing speaks against it.
fn common_line_end(ends: [Option<bool>; 3]) -> &'static [u8] {
    let mut known = ends.into_iter().flatten().peekable();
    if known.peek().is_some() && known.all(|is_crlf| is_crlf) {
        b"\r\n"
    } else {
        b"\n"
    }
}

/// Returns a length greater than any run of marker characters at the beginning of a line.
fn marker_len(texts: [&[u8]; 3]) -> usize {
    let longest = texts
        .iter()
        .flat_map(|text| text.split_inclusive(|b| *b == b'\n'))
        .map(|line| match line.first() {
            Some(mark @ (b'<' | b'|' | b'=' | b'>')) => run_of(line, *mark),
            _ => 0,
        })
        .max();
    match longest {
        Some(longest) if longest >= MARKER_LEN => longest + 1,
        _ => MARKER_LEN,
    }
}

/// Returns the next range of the base that a side changed, with all edits that overlap or touch it.
fn take_region(sides: &[Vec<Edit>; 2], next: &mut [usize; 2]) -> Option<Range<usize>> {
    let head = |s: usize, next: &[usize; 2]| sides[s].get(next[s]).map(|edit| edit.old.clone());
    let mut region = match (head(0, next), head(1, next)) {
        (Some(a), Some(b)) if b.start < a.start => b.start..b.start,
        (Some(a), _) | (None, Some(a)) => a.start..a.start,
        (None, None) => return None,
    };
    loop {
        let mut grew = false;
        for s in [0, 1] {
            if let Some(edit) = head(s, next).filter(|edit| edit.start <= region.end) {
                region.end = region.end.max(edit.end);
                next[s] += 1;
                grew = true;
            }
        }
        if !grew {
            return Some(region);
        }
    }
}

/// Returns the position in a side that corresponds to `position` in the base, which is after all of
/// `edits`.
fn side_position(edits: &[Edit], position: usize) -> usize {
    match edits.last() {
        Some(last) => last.new.end + (position - last.old.end),
        None => position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_DIFF_LINES;
    use proptest::prelude::*;

    fn marked(base: &[u8], ours: &[u8], theirs: &[u8]) -> MergedText {
        let never = AtomicBool::new(false);
        marked_text(base, ours, theirs, &never).expect("nobody cancels")
    }

    fn is_marked(made: &MergedText, text: &[u8]) -> bool {
        marker_line(text, made.marker_len).is_some()
    }

    fn merge(base: &str, ours: &str, theirs: &str) -> (String, usize) {
        let made = marked(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        (
            String::from_utf8(made.text).expect("text stays text"),
            made.regions,
        )
    }

    #[test]
    fn changes_apart_from_each_other_are_both_taken() {
        assert_eq!(
            merge("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n"),
            ("A\nb\nc\nD\n".into(), 0)
        );
        assert_eq!(merge("a\nb\n", "a\nb\n", "b\n"), ("b\n".into(), 0));
        assert_eq!(merge("", "a\n", ""), ("a\n".into(), 0));
    }

    #[test]
    fn markers_end_as_the_lines_around_them() {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let want = "a\n<<<<<<< ours\nx\n||||||| base\nb\n=======\ny\n>>>>>>> theirs\nc\n";
        let [base, ours, theirs] = ["a\nb\nc\n", "a\nx\nc\n", "a\ny\nc\n"];
        let (made, _) = merge(&crlf(base), &crlf(ours), &crlf(theirs));
        assert_eq!(made, crlf(want));
        assert_eq!(any_marker_line(made.as_bytes()), Some(2));
        // A side with line feeds alone decides, and texts without a line end say nothing.
        let (made, _) = merge(&crlf(base), &crlf(ours), theirs);
        assert!(
            made.contains("<<<<<<< ours\nx") || made.contains("<<<<<<< ours\na"),
            "{made:?}"
        );
        let (made, _) = merge("b\r\n", "x", "y");
        assert_eq!(
            made,
            crlf("<<<<<<< ours\nx\n||||||| base\nb\n=======\ny\n>>>>>>> theirs\n")
        );
        assert!(merge("", "x", "y").0.starts_with("<<<<<<< ours\nx\n"));
    }

    #[test]
    fn the_same_change_is_no_conflict() {
        assert_eq!(merge("a\nb\n", "x\nb\n", "x\nb\n"), ("x\nb\n".into(), 0));
        assert_eq!(
            merge("a\nb\nc\n", "a\nx\nc\n", "a\nx\nc\ny\n"),
            ("a\nx\nc\ny\n".into(), 0)
        );
    }

    #[test]
    fn a_conflict_shows_both_sides_and_the_base() {
        assert_eq!(
            merge("a\nb\nc\n", "a\nx\nc\n", "a\ny\nc\n"),
            (
                "a\n<<<<<<< ours\nx\n||||||| base\nb\n=======\ny\n>>>>>>> theirs\nc\n".into(),
                1
            )
        );
    }

    #[test]
    fn changes_that_touch_are_one_conflict() {
        assert_eq!(merge("a\nb\n", "x\nb\n", "a\ny\n").1, 1);
        assert_eq!(merge("a\nb\n", "a\nx\nb\n", "a\ny\nb\n").1, 1);
    }

    /// Seeds 714 and 1084 of the comparison with Git.
    #[test]
    fn of_equal_lines_that_one_is_new_which_stands_beside_the_other_change() {
        // The changed line is the first x, so the line after the second x is a separate change.
        assert_eq!(
            merge("a\nb\nx\n", "a\nx\nx\n", "a\nb\nx\nc\n"),
            ("a\nx\nx\nc\n".into(), 0)
        );
        assert_eq!(
            merge(
                "x\n\n{\nx\n1\n2\n",
                "x\n\nx\nx\n1\n2\n",
                "x\n\n{\nx\n{\n2\n"
            ),
            ("x\n\nx\nx\n{\n2\n".into(), 0)
        );
    }

    #[test]
    fn a_new_line_among_equal_ones_is_the_last_of_them() {
        assert_eq!(
            merge("a\nx\nb\n", "a\nx\nx\nb\n", "A\nx\nb\n"),
            ("A\nx\nx\nb\n".into(), 0)
        );
        assert_eq!(merge("a\nx\nb\n", "a\nx\nx\nb\n", "a\nx\nB\n").1, 1);
    }

    #[test]
    fn a_last_line_without_end_does_not_swallow_a_marker() {
        assert_eq!(
            merge("a", "x", "y").0,
            "<<<<<<< ours\nx\n||||||| base\na\n=======\ny\n>>>>>>> theirs\n"
        );
    }

    #[test]
    fn markers_are_longer_than_what_looks_like_one() {
        let made = marked(b"a\n", b"<<<<<<<<\n", b">>>>>>> theirs\n");
        assert_eq!((made.marker_len, made.regions), (9, 1));
        assert!(is_marked(&made, &made.text));
        assert!(!is_marked(&made, b"<<<<<<<<\n>>>>>>> theirs\n"));
    }

    #[test]
    fn a_text_with_markers_begins_with_one() {
        let merge = |base: &str, ours: &str, theirs: &str| {
            let never = AtomicBool::new(false);
            let texts = [base, ours, theirs].map(str::as_bytes);
            marked_text(texts[0], texts[1], texts[2], &never).expect("nobody cancels it")
        };
        for made in [
            merge("a\n", "b\n", "c\n"),
            merge("<<<<<<< ours\n", "b\n", "<<<<<<<<< ours\n"),
        ] {
            assert_eq!(marker_line(&made.text, made.marker_len), Some(1));
            assert_eq!(any_marker_line(&made.text), Some(1));
        }
    }

    #[test]
    fn a_marker_is_a_line_of_its_own() {
        let made = marked(b"a\n", b"b\n", b"c\n");
        assert!(is_marked(&made, b"x\n<<<<<<< HEAD\n"));
        assert!(is_marked(&made, b">>>>>>>\r\n"));
        assert!(!is_marked(&made, b"<<<<<<<<\n x <<<<<<<\n=======\n"));
        assert_eq!(any_marker_line(b"x\n<<<<<<<<\n"), Some(2));
        assert_eq!(any_marker_line(b"<<<<<<\n x <<<<<<<\n<<<<<<<x\n"), None);
    }

    #[test]
    fn scattered_changes_of_a_long_text_are_merged() {
        let side = |mark: &str, at: usize| {
            let line = |n: usize| {
                if n % 20 == at {
                    format!("{mark} {n}\n")
                } else {
                    format!("{n}\n")
                }
            };
            (0..20_000).map(line).collect::<String>()
        };
        let (base, ours, theirs) = (side("", 20), side("ours", 3), side("theirs", 13));
        let (text, regions) = merge(&base, &ours, &theirs);
        assert_eq!((text.lines().count(), regions), (20_000, 0));
        assert_eq!(text.matches("ours").count(), 1000);
        assert_eq!(text.matches("theirs").count(), 1000);
    }

    #[test]
    fn texts_of_too_many_lines_are_a_conflict_where_both_changed_them() {
        let filler = "\n".repeat(MAX_DIFF_LINES);
        let side = |middle: &str| format!("head\n{middle}\n{filler}tail\n");
        let (base, ours, theirs) = (side("base"), side("ours"), side("theirs"));
        let made = marked(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        assert_eq!((made.regions, made.is_coarse), (1, true));
        let one_side = marked(base.as_bytes(), ours.as_bytes(), base.as_bytes());
        assert_eq!(one_side.regions, 0);
        assert_eq!(one_side.text, ours.as_bytes());
    }

    #[test]
    fn a_cancelled_merge_of_texts_ends() {
        let stop = AtomicBool::new(true);
        let text = |mark: &str| {
            (0..50_000)
                .map(|n| format!("{mark}{n}\n"))
                .collect::<String>()
        };
        let (base, ours, theirs) = (text(""), text("a"), text("b"));
        let made = marked_text(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), &stop);
        assert_eq!(made, Err(Cancelled));
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..4, 0..12).prop_map(|lines| {
            let lines = lines.into_iter().map(|n| [b'a' + n, b'\n']);
            lines.flatten().collect()
        })
    }

    proptest! {
        #[test]
        fn a_side_that_did_nothing_has_no_say(base in text(), side in text()) {
            for (ours, theirs) in [(&base, &side), (&side, &base), (&side, &side)] {
                let made = marked(&base, ours, theirs);
                prop_assert_eq!((&made.text, made.regions), (&side, 0));
            }
        }

        #[test]
        fn sides_can_change_places(base in text(), a in text(), b in text()) {
            let (one, other) = (marked(&base, &a, &b), marked(&base, &b, &a));
            prop_assert_eq!(one.regions, other.regions);
            if one.regions == 0 {
                prop_assert_eq!(one.text, other.text);
            }
        }
    }
}

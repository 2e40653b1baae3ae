//! Merging the lines of a text.
//!
//! The two diffs are those of `similar`'s histogram algorithm, the one that Git merges with. How
//! they are put together follows Git too: changes that overlap or touch are one region, and a
//! region that both sides changed to the same lines is no conflict.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// Characters in a marker line, unless a line of the text looks like one.
const MARKER_LEN: usize = 7;

/// A text that three versions made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The text; regions in conflict are between marker lines, in the style of diff3.
    pub text: Vec<u8>,
    /// How many regions are in conflict.
    pub regions: usize,
    /// Characters in a marker line.
    pub marker_len: usize,
}

impl Marked {
    /// Whether `text` still has a line that begins or ends a region.
    pub fn is_marked(&self, text: &[u8]) -> bool {
        let len = self.marker_len;
        lines(text).iter().any(|line| {
            let run = |mark: u8| line.iter().take_while(|b| **b == mark).count() == len;
            let ends = matches!(line.get(len), None | Some(b' ' | b'\n' | b'\r'));
            ends && (run(b'<') || run(b'>'))
        })
    }
}

/// Merges three texts by lines.
pub fn marked_text(base: &[u8], ours: &[u8], theirs: &[u8]) -> Marked {
    let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
    let marker_len = marker_len([&base, &ours, &theirs]);
    let mut out = Marked {
        text: Vec::new(),
        regions: 0,
        marker_len,
    };
    let sides = [edits(&base, &ours), edits(&base, &theirs)];
    let texts = [&ours[..], &theirs[..]];
    let mut next = [0, 0];
    // Where base, ours and theirs have been written up to. All three are at the same place.
    let mut at = 0;
    let mut done = [0, 0];
    while let Some(region) = take_region(&sides, &mut next) {
        for line in &base[at..region.start] {
            out.text.extend_from_slice(line);
        }
        let ends = [0, 1].map(|s| side_position(&sides[s][..next[s]], region.end));
        let starts = [0, 1].map(|s| done[s] + (region.start - at));
        let made = [0, 1].map(|s| &texts[s][starts[s]..ends[s]]);
        let before = &base[region.clone()];
        match made {
            [ours, theirs] if ours == theirs || theirs == before => put(&mut out.text, ours),
            [ours, theirs] if ours == before => put(&mut out.text, theirs),
            made => out.put_conflict(before, made),
        }
        at = region.end;
        done = ends;
    }
    put(&mut out.text, &base[at..]);
    out
}

impl Marked {
    fn put_conflict(&mut self, base: &[&[u8]], [ours, theirs]: [&[&[u8]]; 2]) {
        self.regions += 1;
        let parts = [
            (b'<', "ours", ours),
            (b'|', "base", base),
            (b'=', "", theirs),
        ];
        for (mark, label, lines) in parts {
            self.put_marker(mark, label);
            put(&mut self.text, lines);
        }
        self.put_marker(b'>', "theirs");
    }

    fn put_marker(&mut self, mark: u8, label: &str) {
        // A last line without an end would swallow the marker.
        if self.text.last().is_some_and(|b| *b != b'\n') {
            self.text.push(b'\n');
        }
        self.text.extend(std::iter::repeat_n(mark, self.marker_len));
        if !label.is_empty() {
            self.text.push(b' ');
            self.text.extend_from_slice(label.as_bytes());
        }
        self.text.push(b'\n');
    }
}

fn put(out: &mut Vec<u8>, lines: &[&[u8]]) {
    for line in lines {
        out.extend_from_slice(line);
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|b| *b == b'\n').collect()
}

/// Longer than any run of marker characters that a line begins with.
fn marker_len(texts: [&[&[u8]]; 3]) -> usize {
    let longest = texts
        .iter()
        .flat_map(|lines| lines.iter())
        .map(|line| match line.first() {
            Some(mark @ (b'<' | b'|' | b'=' | b'>')) => {
                line.iter().take_while(|b| *b == mark).count()
            }
            _ => 0,
        })
        .max();
    match longest {
        Some(longest) if longest >= MARKER_LEN => longest + 1,
        _ => MARKER_LEN,
    }
}

/// Lines of the base and the side's lines in their place.
struct Edit {
    base: Range<usize>,
    side: Range<usize>,
}

/// What a side changed, in order; no two edits touch.
fn edits(base: &[&[u8]], side: &[&[u8]]) -> Vec<Edit> {
    let mut gaps = Gaps::default();
    for op in capture_diff_slices(Algorithm::Histogram, base, side) {
        match op {
            DiffOp::Equal { len, .. } => gaps.match_lines(len),
            op => gaps.add([op.old_range().len(), op.new_range().len()]),
        }
    }
    gaps.slide([base, side]);
    gaps.edits()
}

/// How two texts differ: what each has of its own before, between and behind the lines that match.
#[derive(Default)]
struct Gaps {
    /// Lines of its own that each text has before a matching line.
    before: Vec<[usize; 2]>,
    /// Behind the last one.
    last: [usize; 2],
}

impl Gaps {
    fn match_lines(&mut self, len: usize) {
        self.before.push(std::mem::take(&mut self.last));
        self.before.extend(std::iter::repeat_n([0, 0], len - 1));
    }

    fn add(&mut self, own: [usize; 2]) {
        for s in [0, 1] {
            self.last[s] += own[s];
        }
    }

    /// Moves each run of lines that only one text has to where the other has lines of its own, too,
    /// or else as far down as it goes, where that makes no difference: in `x x`, either x can be the
    /// new one. Git does the same (`xdl_change_compact`), so that both sides of a merge tell such a
    /// change alike.
    fn slide(&mut self, texts: [&[&[u8]]; 2]) {
        self.before.push(self.last);
        for (s, text) in texts.into_iter().enumerate() {
            let (mut gap, mut start) = (0, 0);
            while gap < self.before.len() {
                if self.before[gap][s] > 0 {
                    (gap, start) = self.slide_run(s, text, gap, start);
                }
                start += self.before[gap][s] + 1;
                gap += 1;
            }
        }
        self.last = self.before.pop().unwrap_or_default();
    }

    /// Slides the run of text `s` in `gap`, which begins at line `start`. Returns where it is then.
    fn slide_run(
        &mut self,
        s: usize,
        text: &[&[u8]],
        mut gap: usize,
        mut start: usize,
    ) -> (usize, usize) {
        loop {
            let len = self.before[gap][s];
            while gap > 0 && text[start - 1] == text[start + self.before[gap][s] - 1] {
                (gap, start) = self.up(s, gap, start);
            }
            let top = gap;
            let mut beside = (self.before[gap][1 - s] > 0).then_some(gap);
            while gap + 1 < self.before.len() && text[start] == text[start + self.before[gap][s]] {
                let own = self.before[gap][s];
                self.before[gap][s] = 0;
                gap += 1;
                start += 1;
                self.before[gap][s] += own;
                if self.before[gap][1 - s] > 0 {
                    beside = Some(gap);
                }
            }
            if self.before[gap][s] != len {
                // It has met another run, and may go further now.
                continue;
            }
            while gap > beside.unwrap_or(gap).max(top) {
                (gap, start) = self.up(s, gap, start);
            }
            return (gap, start);
        }
    }

    fn up(&mut self, s: usize, gap: usize, start: usize) -> (usize, usize) {
        let own = std::mem::take(&mut self.before[gap][s]);
        let above = self.before[gap - 1][s];
        self.before[gap - 1][s] += own;
        (gap - 1, start - 1 - above)
    }

    fn edits(&self) -> Vec<Edit> {
        let mut out = Vec::new();
        let mut at = [0, 0];
        for own in self.before.iter().chain([&self.last]) {
            let end = [at[0] + own[0], at[1] + own[1]];
            if end != at {
                out.push(Edit {
                    base: at[0]..end[0],
                    side: at[1]..end[1],
                });
            }
            at = [end[0] + 1, end[1] + 1];
        }
        out
    }
}

/// The next stretch of the base that a side changed, with all edits that overlap or touch it.
fn take_region(sides: &[Vec<Edit>; 2], next: &mut [usize; 2]) -> Option<Range<usize>> {
    let head = |s: usize, next: &[usize; 2]| sides[s].get(next[s]).map(|edit| edit.base.clone());
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

/// Where a side is when the base is at `position`, which lies behind all of `edits`.
fn side_position(edits: &[Edit], position: usize) -> usize {
    match edits.last() {
        Some(last) => last.side.end + (position - last.base.end),
        None => position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn merge(base: &str, ours: &str, theirs: &str) -> (String, usize) {
        let made = marked_text(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
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
        // The changed line is the first x, so that the line behind the second is apart from it.
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
        let made = marked_text(b"a\n", b"<<<<<<<<\n", b">>>>>>> theirs\n");
        assert_eq!((made.marker_len, made.regions), (9, 1));
        assert!(made.is_marked(&made.text));
        assert!(!made.is_marked(b"<<<<<<<<\n>>>>>>> theirs\n"));
    }

    #[test]
    fn a_marker_is_a_line_of_its_own() {
        let made = marked_text(b"a\n", b"b\n", b"c\n");
        assert!(made.is_marked(b"x\n<<<<<<< HEAD\n"));
        assert!(made.is_marked(b">>>>>>>\r\n"));
        assert!(!made.is_marked(b"<<<<<<<<\n x <<<<<<<\n=======\n"));
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
                let made = marked_text(&base, ours, theirs);
                prop_assert_eq!((&made.text, made.regions), (&side, 0));
            }
        }

        #[test]
        fn edits_make_the_side_and_do_not_touch(base in text(), side in text()) {
            let (base, side) = (lines(&base), lines(&side));
            let (mut made, mut at) = (Vec::new(), 0);
            for (n, edit) in edits(&base, &side).into_iter().enumerate() {
                prop_assert!(n == 0 || edit.base.start > at);
                made.extend_from_slice(&base[at..edit.base.start]);
                prop_assert_eq!(made.len(), edit.side.start);
                made.extend_from_slice(&side[edit.side.clone()]);
                at = edit.base.end;
            }
            made.extend_from_slice(&base[at..]);
            prop_assert_eq!(made, side);
        }

        #[test]
        fn sides_can_change_places(base in text(), a in text(), b in text()) {
            let (one, other) = (marked_text(&base, &a, &b), marked_text(&base, &b, &a));
            prop_assert_eq!(one.regions, other.regions);
            if one.regions == 0 {
                prop_assert_eq!(one.text, other.text);
            }
        }
    }
}

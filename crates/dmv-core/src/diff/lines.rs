//! The differences between two texts, line by line.
//!
//! Equal lines first get equal numbers, and everything after that compares numbers. `histogram`
//! finds the shared lines. This module turns them into edits and moves each edit to where Git shows
//! it. A count of steps limits the work, never a clock, so the same texts give the same edits on
//! every machine. When the steps are used up, the rest becomes one edit, and [`Edits::is_coarse`]
//! is set.

use super::histogram::{self, Run};
use crate::job::Cancelled;
use crate::limits::{DIFF_STEPS, DIFF_STEPS_PER_LINE, MAX_DIFF_LINES};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps between two looks at the cancel flag.
const STEPS_UNWATCHED: u64 = 1 << 14;

/// Why a comparison ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Cancelled,
    /// The steps are used up.
    TooMuch,
}

/// The steps that a comparison may still make.
pub(super) struct Work<'a> {
    left: u64,
    unwatched: u64,
    cancel: &'a AtomicBool,
}

impl<'a> Work<'a> {
    pub(super) fn new(steps: u64, cancel: &'a AtomicBool) -> Work<'a> {
        Work {
            left: steps,
            unwatched: 0,
            cancel,
        }
    }

    /// Returns the steps for two texts with `lines` lines together.
    fn for_lines(lines: usize, cancel: &'a AtomicBool) -> Work<'a> {
        let more = DIFF_STEPS_PER_LINE.saturating_mul(lines as u64);
        Work::new(DIFF_STEPS.saturating_add(more), cancel)
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        self.watch(steps).map_err(|Cancelled| Stop::Cancelled)?;
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Stop::TooMuch)
    }

    /// Counts steps that are unavoidable. Fails if the caller asked to stop.
    pub(super) fn watch(&mut self, steps: usize) -> Result<(), Cancelled> {
        self.unwatched += steps as u64;
        if self.unwatched >= STEPS_UNWATCHED {
            self.unwatched = 0;
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Cancelled);
            }
        }
        Ok(())
    }
}

/// A text cut into lines, each with its line end.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a [u8],
    /// The end of each line, in bytes.
    ends: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Cuts `texts` into lines.
    ///
    /// If one of them has more than `MAX_DIFF_LINES`, each text is cut into at most three parts:
    /// the common beginning of all, the common end of all, and the part between them.
    pub fn of<const N: usize>(texts: [&'a [u8]; N]) -> [Lines<'a>; N] {
        let ends = texts.map(line_ends);
        if ends.iter().all(Option::is_some) {
            let mut ends = ends.into_iter().flatten();
            return texts.map(|text| Lines {
                text,
                ends: ends.next().unwrap_or_default(),
            });
        }
        let (start, end) = common_ends(&texts);
        texts.map(|text| {
            let mut ends = vec![start, text.len() - end, text.len()];
            ends.dedup();
            ends.retain(|at| *at > 0);
            Lines { text, ends }
        })
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns whether a text had too many lines, so that its parts are not lines.
    pub fn is_coarse(&self) -> bool {
        self.ends.len() <= 3 && line_count(self.text, 4) > self.ends.len()
    }

    /// Returns line `n` with its line end.
    pub fn get(&self, n: usize) -> &'a [u8] {
        self.range(n..n + 1)
    }

    /// Returns the bytes of some lines.
    pub fn range(&self, lines: Range<usize>) -> &'a [u8] {
        &self.text[self.start(lines.start)..self.start(lines.end)]
    }

    fn start(&self, line: usize) -> usize {
        match line {
            0 => 0,
            line => self.ends[line - 1],
        }
    }
}

/// Returns the number of lines, counted up to `most`.
fn line_count(text: &[u8], most: usize) -> usize {
    text.split_inclusive(|b| *b == b'\n').take(most).count()
}

fn line_ends(text: &[u8]) -> Option<Vec<usize>> {
    let mut ends = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive(|b| *b == b'\n') {
        if ends.len() >= MAX_DIFF_LINES {
            return None;
        }
        at += line.len();
        ends.push(at);
    }
    Some(ends)
}

/// Returns the lengths in bytes of the complete lines that all texts begin with and end with. The
/// two do not overlap in any text.
fn common_ends(texts: &[&[u8]]) -> (usize, usize) {
    let Some((first, others)) = texts.split_first() else {
        return (0, 0);
    };
    let equal_start = |text: &&[u8]| first.iter().zip(*text).take_while(|(a, b)| a == b).count();
    let start = others.iter().map(equal_start).min().unwrap_or(first.len());
    let line_start = |at: usize| {
        first[..at]
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |n| n + 1)
    };
    let start = line_start(start);
    let equal_end = |text: &&[u8]| {
        let pairs = first[start..].iter().rev().zip(text[start..].iter().rev());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let end = others.iter().map(equal_end).min().unwrap_or(0);
    // Only bytes after a line end begin a complete line.
    let tail = &first[first.len() - end..];
    let cut = tail.iter().position(|b| *b == b'\n').map_or(end, |n| n + 1);
    (start, end - cut)
}

/// Gives equal lines of several texts the same number, starting with 0.
pub struct Numbers<'a> {
    hasher: RandomState,
    /// A hash table of numbers plus one; 0 is free. It is never more than half full.
    slots: Vec<u32>,
    known: Vec<&'a [u8]>,
}

impl<'a> Numbers<'a> {
    /// Returns a table for at most `lines` lines.
    pub fn with_room(lines: usize) -> Numbers<'a> {
        Numbers {
            hasher: RandomState::new(),
            slots: vec![0; (lines * 2).next_power_of_two()],
            known: Vec::new(),
        }
    }

    /// Returns how many different lines there are so far.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Returns the numbers of a text's lines. Fails if `cancel` is set.
    pub fn of(&mut self, lines: &Lines<'a>, cancel: &AtomicBool) -> Result<Vec<u32>, Cancelled> {
        let mut work = Work::new(0, cancel);
        let mut out = Vec::with_capacity(lines.len());
        for n in 0..lines.len() {
            let line = lines.get(n);
            work.watch(1 + line.len() / 64)?;
            out.push(self.number(line));
        }
        Ok(out)
    }

    fn number(&mut self, line: &'a [u8]) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = self.hasher.hash_one(line) as usize & mask;
        loop {
            match self.slots[at] {
                0 => {
                    let number = self.known.len() as u32;
                    self.known.push(line);
                    self.slots[at] = number + 1;
                    return number;
                }
                found if self.known[found as usize - 1] == line => return found - 1,
                _ => at = (at + 1) & mask,
            }
        }
    }
}

/// Lines of the old text, and the lines of the new text that replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Lines of the old text.
    pub old: Range<usize>,
    /// Lines of the new text.
    pub new: Range<usize>,
}

/// The edits that turn one text into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// The edits in order. No two of them touch.
    pub list: Vec<Edit>,
    /// Whether the texts differ too much to find all lines that they share.
    pub is_coarse: bool,
}

/// Compares two texts by the numbers of their lines, all below `count`. Fails if `cancel` is set.
pub fn edits(texts: [&[u32]; 2], count: usize, cancel: &AtomicBool) -> Result<Edits, Cancelled> {
    let [old, new] = texts;
    let mut work = Work::for_lines(old.len() + new.len(), cancel);
    let (runs, is_coarse) = histogram::runs(old, new, count, &mut work)?;
    let mut gaps = Gaps::between(&runs, [old.len(), new.len()]);
    drop(runs);
    match gaps.slide(texts, &mut work) {
        // An unfinished move only affects how the edits look.
        Ok(()) | Err(Stop::TooMuch) => {}
        Err(Stop::Cancelled) => return Err(Cancelled),
    }
    let list = gaps.edits();
    Ok(Edits { list, is_coarse })
}

/// The differences of two texts: the lines of its own that each has around the matching lines.
struct Gaps {
    /// How many lines of its own each text has before a matching line. The last element is for the
    /// end.
    before: Vec<[u32; 2]>,
}

impl Gaps {
    fn between(runs: &[Run], lens: [usize; 2]) -> Gaps {
        let mut before = Vec::new();
        let mut at = [0, 0];
        for run in runs {
            before.push([run.old - at[0], run.new - at[1]]);
            before.extend(std::iter::repeat_n([0, 0], run.len as usize - 1));
            at = [run.old + run.len, run.new + run.len];
        }
        before.push([lens[0] as u32 - at[0], lens[1] as u32 - at[1]]);
        Gaps { before }
    }

    /// Moves each run of lines that only one text has, if the move does not change the result: in
    /// `x x`, either x can be the new one.
    ///
    /// A run moves to a place where the other text has lines of its own, too, or else as far down
    /// as possible. Git does the same (`xdl_change_compact`), so both sides of a merge describe
    /// such a change alike.
    fn slide(&mut self, texts: [&[u32]; 2], work: &mut Work<'_>) -> Result<(), Stop> {
        for (s, text) in texts.into_iter().enumerate() {
            let (mut gap, mut start) = (0, 0);
            while gap < self.before.len() {
                if self.before[gap][s] > 0 {
                    (gap, start) = self.slide_run(s, text, gap, start, work)?;
                }
                work.watch(1).map_err(|Cancelled| Stop::Cancelled)?;
                start += self.before[gap][s] as usize + 1;
                gap += 1;
            }
        }
        Ok(())
    }

    /// Moves the run of text `s` in `gap`, which begins at line `start`. Returns its new gap and
    /// start.
    fn slide_run(
        &mut self,
        s: usize,
        text: &[u32],
        mut gap: usize,
        mut start: usize,
        work: &mut Work<'_>,
    ) -> Result<(usize, usize), Stop> {
        loop {
            let len = self.before[gap][s];
            while gap > 0 && text[start - 1] == text[start + self.before[gap][s] as usize - 1] {
                work.spend(1)?;
                (gap, start) = self.up(s, gap, start);
            }
            let top = gap;
            let mut beside = (self.before[gap][1 - s] > 0).then_some(gap);
            while gap + 1 < self.before.len()
                && text[start] == text[start + self.before[gap][s] as usize]
            {
                work.spend(1)?;
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
                // The run has joined another one, and may move further now.
                continue;
            }
            while gap > beside.unwrap_or(gap).max(top) {
                work.spend(1)?;
                (gap, start) = self.up(s, gap, start);
            }
            return Ok((gap, start));
        }
    }

    fn up(&mut self, s: usize, gap: usize, start: usize) -> (usize, usize) {
        let own = std::mem::take(&mut self.before[gap][s]);
        let above = self.before[gap - 1][s];
        self.before[gap - 1][s] += own;
        (gap - 1, start - 1 - above as usize)
    }

    fn edits(&self) -> Vec<Edit> {
        let mut out = Vec::new();
        let mut at = [0, 0];
        for own in &self.before {
            let end = [at[0] + own[0] as usize, at[1] + own[1] as usize];
            if end != at {
                out.push(Edit {
                    old: at[0]..end[0],
                    new: at[1]..end[1],
                });
            }
            at = [end[0] + 1, end[1] + 1];
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_random::Rng;
    use proptest::prelude::*;

    fn edits_of(old: &[u8], new: &[u8]) -> Edits {
        let never = AtomicBool::new(false);
        let [a, b] = Lines::of([old, new]);
        let mut numbers = Numbers::with_room(a.len() + b.len());
        let mut ids = |lines| numbers.of(lines, &never).expect("nobody cancels");
        let (x, y) = (ids(&a), ids(&b));
        edits([&x, &y], numbers.count(), &never).expect("nobody cancels")
    }

    /// Returns `count` lines. Those for which `own` is true carry the name `side`.
    fn text(count: usize, side: &str, own: impl Fn(usize) -> bool) -> Vec<u8> {
        let line = |n: usize| {
            if own(n) {
                format!("{side} {n}\n")
            } else {
                format!("line {n}\n")
            }
        };
        (0..count).map(line).collect::<String>().into_bytes()
    }

    fn steps_of(old: &[u32], new: &[u32], count: usize) -> u64 {
        let never = AtomicBool::new(false);
        let most = 1 << 40;
        let mut work = Work::new(most, &never);
        let (runs, coarse) = histogram::runs(old, new, count, &mut work).expect("not cancelled");
        assert!(!coarse && !runs.is_empty());
        most - work.left
    }

    #[test]
    fn steps_grow_with_the_text_and_not_with_its_square() {
        let steps = |n: usize, one_in: usize| {
            let old: Vec<u32> = (0..n as u32).collect();
            let own = |line: u32| match line as usize % one_in {
                0 => n as u32 + line,
                _ => line,
            };
            let new: Vec<u32> = old.iter().map(|line| own(*line)).collect();
            steps_of(&old, &new, 2 * n)
        };
        // Every shared run has the same length, so the histogram alone would remove one at a time.
        for one_in in [2, 10, 100] {
            let (few, many) = (steps(10_000, one_in), steps(80_000, one_in));
            assert!(many < 12 * few, "1 in {one_in}: {few}, then {many} steps");
        }
    }

    #[test]
    fn a_text_without_anchors_takes_no_more_steps_than_it_may() {
        let never = AtomicBool::new(false);
        let mut rng = Rng::new(1);
        let mut lines = |n: usize| -> Vec<u32> { (0..n).map(|_| rng.below(16) as u32).collect() };
        let (old, new) = (lines(20_000), lines(20_000));
        let mut work = Work::new(500_000, &never);
        let (runs, coarse) = histogram::runs(&old, &new, 16, &mut work).expect("not cancelled");
        assert!(coarse);
        let mut at = [0, 0];
        for run in runs {
            assert!(run.old >= at[0] && run.new >= at[1]);
            let (a, b) = (run.old as usize, run.new as usize);
            assert_eq!(old[a..][..run.len as usize], new[b..][..run.len as usize]);
            at = [run.old + run.len, run.new + run.len];
        }
    }

    #[test]
    fn a_cancelled_comparison_ends() {
        let stop = AtomicBool::new(true);
        let old: Vec<u32> = (0..100_000).collect();
        let new: Vec<u32> = old.iter().map(|n| n + 50_000 * (n % 2)).collect();
        assert_eq!(edits([&old, &new], 200_000, &stop), Err(Cancelled));
    }

    #[test]
    fn many_scattered_changes_are_found_one_by_one() {
        let (old, new) = (text(5000, "a", |_| false), text(5000, "b", |n| n % 10 == 4));
        let found = edits_of(&old, &new);
        assert!(!found.is_coarse);
        assert_eq!(found.list.len(), 500);
        assert!(found.list.iter().all(|edit| edit.old == edit.new));
    }

    #[test]
    fn a_text_of_too_many_lines_is_cut_in_three() {
        let filler = "\n".repeat(MAX_DIFF_LINES);
        let text = |middle: &str| format!("head\n{middle}\n{filler}tail\n").into_bytes();
        let (old, new) = (text("old"), text("new"));
        let [a, b] = Lines::of([&old, &new]);
        assert!(a.is_coarse() && b.is_coarse());
        assert_eq!([a.len(), b.len()], [3, 3]);
        assert_eq!((a.get(0), a.get(1)), (&b"head\n"[..], &b"old\n"[..]));
        assert_eq!(b.get(1), b"new\n");
        assert_eq!(a.get(2), b.get(2));
        let [only] = Lines::of([&old[..]]);
        assert_eq!(only.len(), 1);
        let [one, _] = Lines::of([b"a\n", b"b\nc\n"]);
        assert!(!one.is_coarse());
    }

    fn lines() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![(0u32..4), (0u32..60)];
        prop::collection::vec(line, 0..90).prop_map(|lines| {
            let lines = lines.into_iter().map(|n| format!("{n}\n"));
            lines.collect::<String>().into_bytes()
        })
    }

    proptest! {
        #[test]
        fn edits_make_the_new_text_and_do_not_touch(old in lines(), new in lines()) {
            let [a, b] = Lines::of([&old, &new]);
            let (mut made, mut at, mut line) = (Vec::new(), 0, 0);
            for (n, edit) in edits_of(&old, &new).list.into_iter().enumerate() {
                prop_assert!(n == 0 || edit.old.start > at);
                made.extend_from_slice(a.range(at..edit.old.start));
                line += edit.old.start - at;
                prop_assert_eq!(line, edit.new.start);
                made.extend_from_slice(b.range(edit.new.clone()));
                line += edit.new.len();
                at = edit.old.end;
            }
            made.extend_from_slice(a.range(at..a.len()));
            prop_assert_eq!(made, new);
        }
    }
}

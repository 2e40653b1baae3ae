//! The lines that two texts share, in the same order.
//!
//! This is the histogram algorithm, which Git uses for merges. The longest shared run that contains
//! a rare line divides the texts, and the parts are divided in the same way. The algorithm removes
//! one run at a time, which takes quadratic time if all runs are equally long. So large parts are
//! first divided at all lines that occur once in both (patience). If every shared line is frequent,
//! Myers' algorithm follows, with Git's bound on it. Pending parts are on the heap, so nothing
//! recurses.

use super::lines::{Stop, Work};
use crate::job::Cancelled;
use std::cmp::Reverse;
use std::ops::Range;

/// A line that occurs more often than this in the old text divides nothing.
const MAX_OCCURRENCES: u32 = 64;
/// Parts with more lines than this are divided at the lines that occur once in both.
const LARGE_PART: usize = 2000;
/// Least number of edits after which Myers' search settles for the best place reached.
const MIN_MYERS_COST: usize = 256;

const NONE: u32 = u32::MAX;

/// A run of equal lines in both texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub old: u32,
    pub new: u32,
    pub len: u32,
}

/// Returns the shared runs in order, and whether the steps were used up before all were found. The
/// line numbers in both texts are below `count`.
pub(super) fn runs(
    old: &[u32],
    new: &[u32],
    count: usize,
    work: &mut Work<'_>,
) -> Result<(Vec<Run>, bool), Cancelled> {
    let mut out = Vec::new();
    let mut is_coarse = false;
    let whole = Part {
        old: 0..old.len(),
        new: 0..new.len(),
        is_plain: false,
    };
    let mut search = Search::new(old, new, count);
    let mut tasks = vec![Task::Compare(whole)];
    while let Some(task) = tasks.pop() {
        let part = match task {
            Task::Compare(part) => part,
            Task::Shared(run) => {
                put(&mut out, run);
                continue;
            }
        };
        let Some(part) = search.trim(part, &mut out, &mut tasks, work)? else {
            continue;
        };
        if is_coarse {
            continue;
        }
        match search.divide(&part, work) {
            Ok(runs) => push_divided(&part, &runs, &mut tasks),
            Err(Stop::TooMuch) => is_coarse = true,
            Err(Stop::Cancelled) => return Err(Cancelled),
        }
    }
    Ok((out, is_coarse))
}

/// Lines of both texts that remain to be compared.
#[derive(Clone, Debug)]
struct Part {
    old: Range<usize>,
    new: Range<usize>,
    /// Whether all shared lines are frequent.
    is_plain: bool,
}

enum Task {
    Compare(Part),
    /// A shared run. It is output after everything that is pushed later.
    Shared(Run),
}

/// How a part is divided.
enum Division {
    Nowhere,
    By(Vec<Run>),
    /// At this place, without a shared line.
    At(usize, usize),
}

fn put(out: &mut Vec<Run>, run: Run) {
    match out.last_mut() {
        Some(last) if (last.old + last.len, last.new + last.len) == (run.old, run.new) => {
            last.len += run.len;
        }
        _ if run.len > 0 => out.push(run),
        _ => {}
    }
}

fn push_divided(part: &Part, divided: &Division, tasks: &mut Vec<Task>) {
    let is_plain = part.is_plain || matches!(divided, Division::At(..));
    let compare = |old: Range<usize>, new: Range<usize>| Task::Compare(Part { old, new, is_plain });
    let mut end = (part.old.end, part.new.end);
    match divided {
        Division::Nowhere => return,
        Division::At(old, new) => {
            tasks.push(compare(*old..end.0, *new..end.1));
            end = (*old, *new);
        }
        Division::By(runs) => {
            for run in runs.iter().rev() {
                let (old, new, len) = (run.old as usize, run.new as usize, run.len as usize);
                tasks.push(compare(old + len..end.0, new + len..end.1));
                tasks.push(Task::Shared(*run));
                end = (old, new);
            }
        }
    }
    tasks.push(compare(part.old.start..end.0, part.new.start..end.1));
}

/// The texts, and tables by line number that are clear between two searches.
struct Search<'a> {
    old: &'a [u32],
    new: &'a [u32],
    /// The first place of each line in the old part; `next` gives the following ones.
    head: Vec<u32>,
    next: Vec<u32>,
    old_count: Vec<u32>,
    new_count: Vec<u32>,
    /// For each diagonal: the end in the new text, plus one, of the run that was examined there.
    covered: Vec<u32>,
    touched: Vec<u32>,
    /// The two frontiers of Myers' algorithm, by diagonal.
    frontiers: [Vec<i64>; 2],
}

impl<'a> Search<'a> {
    fn new(old: &'a [u32], new: &'a [u32], count: usize) -> Search<'a> {
        Search {
            old,
            new,
            head: vec![NONE; count],
            next: vec![NONE; old.len()],
            old_count: vec![0; count],
            new_count: vec![0; count],
            covered: Vec::new(),
            touched: Vec::new(),
            frontiers: [Vec::new(), Vec::new()],
        }
    }

    /// Removes the lines that both begin and end with. Returns `None` if nothing remains to
    /// compare.
    fn trim(
        &self,
        mut part: Part,
        out: &mut Vec<Run>,
        tasks: &mut Vec<Task>,
        work: &mut Work<'_>,
    ) -> Result<Option<Part>, Cancelled> {
        let (a, b) = (&self.old[part.old.clone()], &self.new[part.new.clone()]);
        let ahead = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let (a, b) = (&a[ahead..], &b[ahead..]);
        let both = a.iter().rev().zip(b.iter().rev());
        let behind = both.take_while(|(a, b)| a == b).count();
        work.watch(1 + ahead + behind)?;
        let run = |old: usize, new: usize, len: usize| Run {
            old: old as u32,
            new: new as u32,
            len: len as u32,
        };
        put(out, run(part.old.start, part.new.start, ahead));
        part.old = part.old.start + ahead..part.old.end - behind;
        part.new = part.new.start + ahead..part.new.end - behind;
        if behind > 0 {
            tasks.push(Task::Shared(run(part.old.end, part.new.end, behind)));
        }
        Ok((!part.old.is_empty() && !part.new.is_empty()).then_some(part))
    }

    fn divide(&mut self, part: &Part, work: &mut Work<'_>) -> Result<Division, Stop> {
        if part.is_plain {
            return self.middle(part, work);
        }
        work.spend(2 * (part.old.len() + part.new.len()))?;
        if part.old.len().max(part.new.len()) > LARGE_PART {
            let runs = self.unique(part, work)?;
            if !runs.is_empty() {
                return Ok(Division::By(runs));
            }
        }
        self.index(part);
        let found = self.longest(part, work);
        self.clear(part);
        match found? {
            RunSearch::Run(run) => Ok(Division::By(vec![run])),
            RunSearch::Nothing => Ok(Division::Nowhere),
            RunSearch::OnlyFrequent => self.middle(part, work),
        }
    }

    fn index(&mut self, part: &Part) {
        for at in part.old.clone().rev() {
            let line = self.old[at] as usize;
            self.next[at] = self.head[line];
            self.head[line] = at as u32;
            self.old_count[line] += 1;
        }
    }

    fn clear(&mut self, part: &Part) {
        for at in part.old.clone() {
            let line = self.old[at] as usize;
            self.head[line] = NONE;
            self.old_count[line] = 0;
        }
        for diagonal in self.touched.drain(..) {
            self.covered[diagonal as usize] = 0;
        }
    }

    /// Returns the lines that occur once in both: the largest set that has the same order in both.
    fn unique(&mut self, part: &Part, work: &mut Work<'_>) -> Result<Vec<Run>, Stop> {
        self.index(part);
        for line in &self.new[part.new.clone()] {
            self.new_count[*line as usize] += 1;
        }
        let mut both = Vec::new();
        for at in part.new.clone() {
            let line = self.new[at] as usize;
            if self.old_count[line] == 1 && self.new_count[line] == 1 {
                both.push((self.head[line], at as u32));
            }
        }
        for line in &self.new[part.new.clone()] {
            self.new_count[*line as usize] = 0;
        }
        self.clear(part);
        work.spend(both.len() * both.len().max(2).ilog2() as usize)?;
        let mut runs = Vec::new();
        for at in longest_rising(&both) {
            let (old, new) = both[at];
            put(&mut runs, Run { old, new, len: 1 });
        }
        Ok(runs)
    }

    /// Finds the longest shared run that contains a line which is not frequent. Among equally long
    /// runs it takes the one with the rarest line, then the first.
    fn longest(&mut self, part: &Part, work: &mut Work<'_>) -> Result<RunSearch, Stop> {
        let diagonals = part.old.len() + part.new.len() + 1;
        if self.covered.len() < diagonals {
            self.covered.resize(diagonals, 0);
        }
        let mut any = false;
        let mut best: Option<(Run, u32)> = None;
        for new_at in part.new.clone() {
            let line = self.new[new_at] as usize;
            let count = self.old_count[line];
            any = any || count > 0;
            if count == 0 || count > MAX_OCCURRENCES {
                continue;
            }
            work.spend(count as usize)?;
            let mut next = self.head[line];
            while next != NONE {
                let old_at = next as usize;
                next = self.next[old_at];
                let diagonal = (old_at - part.old.start) + (part.new.end - new_at);
                if self.covered[diagonal] as usize > new_at {
                    continue;
                }
                let (run, rarest) = self.extend(part, old_at, new_at, count);
                work.spend(run.len as usize)?;
                if self.covered[diagonal] == 0 {
                    self.touched.push(diagonal as u32);
                }
                self.covered[diagonal] = run.new + run.len;
                let key = |(run, rarest): &(Run, u32)| {
                    (
                        run.len,
                        Reverse(*rarest),
                        Reverse(run.old),
                        Reverse(run.new),
                    )
                };
                if best
                    .as_ref()
                    .is_none_or(|best| key(&(run, rarest)) > key(best))
                {
                    best = Some((run, rarest));
                }
            }
        }
        Ok(match best {
            Some((run, _)) => RunSearch::Run(run),
            None if any => RunSearch::OnlyFrequent,
            None => RunSearch::Nothing,
        })
    }

    /// Returns the run through a shared line, and how often its rarest line occurs.
    fn extend(&self, part: &Part, old: usize, new: usize, count: u32) -> (Run, u32) {
        let (a, b) = (
            &self.old[part.old.start..old],
            &self.new[part.new.start..new],
        );
        let both = a.iter().rev().zip(b.iter().rev());
        let before = both.take_while(|(a, b)| a == b).count();
        let (a, b) = (&self.old[old..part.old.end], &self.new[new..part.new.end]);
        let behind = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let lines = &self.old[old - before..old + behind];
        let counts = lines.iter().map(|line| self.old_count[*line as usize]);
        let rarest = counts.min().unwrap_or(count);
        let run = Run {
            old: (old - before) as u32,
            new: (new - before) as u32,
            len: (before + behind) as u32,
        };
        (run, rarest)
    }

    /// Returns a place in the middle of the shortest path through the part, as Git finds it
    /// (`xdl_split`): from both ends at once, and after many edits the best place so far.
    fn middle(&mut self, part: &Part, work: &mut Work<'_>) -> Result<Division, Stop> {
        let (a, b) = (&self.old[part.old.clone()], &self.new[part.new.clone()]);
        let place = myers_middle(a, b, &mut self.frontiers, work)?;
        let (x, y) = (place.0.min(a.len()), place.1.min(b.len()));
        // A corner would divide nothing.
        if (x, y) == (0, 0) || (x, y) == (a.len(), b.len()) {
            return Ok(Division::Nowhere);
        }
        Ok(Division::At(part.old.start + x, part.new.start + y))
    }
}

enum RunSearch {
    Run(Run),
    Nothing,
    /// There are shared lines, and each is frequent.
    OnlyFrequent,
}

/// Returns the positions of the longest list of pairs in which the first numbers rise. The pairs
/// are in the order of their second number.
fn longest_rising(pairs: &[(u32, u32)]) -> Vec<usize> {
    // For each length, the last pair of the best list so far; and the predecessor of each pair.
    let mut lasts: Vec<u32> = Vec::new();
    let mut before = vec![NONE; pairs.len()];
    for (n, (old, _)) in pairs.iter().enumerate() {
        let len = lasts.partition_point(|last| pairs[*last as usize].0 < *old);
        if len > 0 {
            before[n] = lasts[len - 1];
        }
        match lasts.get_mut(len) {
            Some(last) => *last = n as u32,
            None => lasts.push(n as u32),
        }
    }
    let mut out = Vec::with_capacity(lasts.len());
    let mut at = lasts.last().copied().unwrap_or(NONE);
    while at != NONE {
        out.push(at as usize);
        at = before[at as usize];
    }
    out.reverse();
    out
}

/// Returns a place `(x, y)` on a short path through two non-empty texts. `ways` are tables that
/// grow as needed.
fn myers_middle(
    a: &[u32],
    b: &[u32],
    ways: &mut [Vec<i64>; 2],
    work: &mut Work<'_>,
) -> Result<(usize, usize), Stop> {
    let (n, m) = (a.len() as i64, b.len() as i64);
    let most = (a.len() + b.len()).isqrt().max(MIN_MYERS_COST);
    // Diagonals are x - y, from -m to n, with one more at each end.
    let (low, high) = (-m, n);
    let at = |diagonal: i64| (diagonal + m + 1) as usize;
    for way in ways.iter_mut() {
        way.resize(way.len().max(a.len() + b.len() + 3), 0);
    }
    let [forth, back] = ways;
    let last = n - m;
    let is_odd = last % 2 != 0;
    forth[at(0)] = 0;
    back[at(last)] = n;
    let (mut fmin, mut fmax, mut bmin, mut bmax) = (0, 0, last, last);
    let equal = |x: i64, y: i64| a[x as usize] == b[y as usize];
    for cost in 1.. {
        work.spend((fmax - fmin + bmax - bmin).max(0) as usize + 2)?;
        (fmin, fmax) = widen((fmin, fmax), (low, high), forth, &at, -1);
        for d in (fmin..=fmax).rev().step_by(2) {
            let mut x = (forth[at(d - 1)] + 1).max(forth[at(d + 1)]);
            let from = x;
            while x < n && x - d < m && x - d >= 0 && equal(x, x - d) {
                x += 1;
            }
            work.spend((x - from) as usize)?;
            forth[at(d)] = x;
            if is_odd && bmin <= d && d <= bmax && back[at(d)] <= x {
                return Ok(clamped(x, x - d));
            }
        }
        (bmin, bmax) = widen((bmin, bmax), (low, high), back, &at, i64::MAX);
        for d in (bmin..=bmax).rev().step_by(2) {
            let mut x = back[at(d - 1)].min(back[at(d + 1)].saturating_sub(1));
            let from = x;
            while x > 0 && x - d > 0 && x <= n && x - d <= m && equal(x - 1, x - d - 1) {
                x -= 1;
            }
            work.spend((from - x) as usize)?;
            back[at(d)] = x;
            if !is_odd && fmin <= d && d <= fmax && x <= forth[at(d)] {
                return Ok(clamped(x, x - d));
            }
        }
        if cost >= most {
            break;
        }
    }
    let forward = (fmin..=fmax).rev().step_by(2).map(|d| {
        let x = forth[at(d)].min(n).min(m + d);
        (x + x - d, x, x - d)
    });
    let backward = (bmin..=bmax).rev().step_by(2).map(|d| {
        let x = back[at(d)].max(0).max(d);
        (x + x - d, x, x - d)
    });
    let ahead = forward.max_by_key(|(sum, ..)| *sum).unwrap_or_default();
    let behind = backward.min_by_key(|(sum, ..)| *sum).unwrap_or_default();
    Ok(if n + m - behind.0 < ahead.0 {
        clamped(ahead.1, ahead.2)
    } else {
        clamped(behind.1, behind.2)
    })
}

/// Widens the range of diagonals by one at each end; at an end without a further diagonal it
/// shrinks by one. The diagonals beyond cannot be reached.
fn widen(
    (min, max): (i64, i64),
    (low, high): (i64, i64),
    way: &mut [i64],
    at: &impl Fn(i64) -> usize,
    beyond: i64,
) -> (i64, i64) {
    let min = if min > low {
        way[at(min - 2)] = beyond;
        min - 1
    } else {
        min + 1
    };
    let max = if max < high {
        way[at(max + 2)] = beyond;
        max + 1
    } else {
        max - 1
    };
    (min, max)
}

fn clamped(x: i64, y: i64) -> (usize, usize) {
    (x.max(0) as usize, y.max(0) as usize)
}

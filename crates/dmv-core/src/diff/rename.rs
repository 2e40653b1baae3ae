//! Rename detection: pairs of a removed file and a new one, possibly with changed content.
//!
//! A file is found by the id of its content, and then by the share of its content that is left: at
//! least half of the longer content, as in Git. Each content is read once and kept as a sketch.
//! Memory and time are about linear in the number of files: with many files, only those are
//! compared that share pieces which few others have (`likely`).

mod likely;
mod sketch;

pub(crate) use sketch::sketch_of;
pub use sketch::{Sketch, Sketcher};

use crate::hash::ObjectId;
use crate::limits::{
    MAX_MERGE_TEXT_BYTES, MAX_RENAME_BYTES, MAX_RENAME_PAIRS, MAX_RENAME_PATHS, MAX_RENAME_PIECES,
};
use crate::object::tree::TreeEntry;
use likely::{FilePosition, Likely};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Least share of the longer content that both must have, in millionths.
const MIN_SHARE: u64 = 500_000;
/// Share of content, in millionths, above which names decide between candidates; as in Git.
const NEAR_SHARE: u64 = 750_000;
/// How many last names of two paths are compared to choose between files that are alike.
const MAX_NAMES: usize = 8;
/// Least capacity of a sketch in pieces, however many files there are.
const MIN_PIECES: usize = 16;
/// Bytes of content for each byte that is read for it, if the chunks of a file are known: only
/// their list is read.
const CONTENT_PER_LIST: u64 = 1024;

/// A removed or a new file.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Its size in bytes. Empty files are never paired.
    pub size: u64,
    /// The id of its content, if known.
    pub id: Option<ObjectId>,
    /// Whether it is a file. Other kinds are only paired when they are equal.
    pub is_blob: bool,
    /// Whether it is only paired with a candidate of equal content.
    pub equal_only: bool,
    /// Bytes to read to make its sketch.
    pub read_bytes: u64,
}

impl<'a> Candidate<'a> {
    /// Returns a candidate for a file of a tree.
    pub fn of_entry(path: &'a [u8], entry: &TreeEntry) -> Candidate<'a> {
        Candidate {
            path,
            size: entry.size,
            id: Some(entry.id),
            is_blob: entry.kind.is_blob(),
            equal_only: false,
            read_bytes: if entry.size <= MAX_MERGE_TEXT_BYTES {
                entry.size
            } else {
                entry.size / CONTENT_PER_LIST
            },
        }
    }

    fn name(&self) -> &'a [u8] {
        self.path.rsplit(|b| *b == b'/').next().unwrap_or_default()
    }

    fn is_open(&self) -> bool {
        self.is_blob && self.size > 0 && !self.equal_only
    }

    fn content(&self) -> Option<(ObjectId, bool)> {
        let id = self.id.filter(|_| self.size > 0)?;
        Some((id, self.is_blob))
    }

    /// Returns the last `names` names of its path; `None` if it has fewer.
    fn last_names(&self, names: usize) -> Option<&'a [u8]> {
        let Some(last) = names.checked_sub(1) else {
            return Some(b"");
        };
        let slashes = self
            .path
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, b)| **b == b'/');
        match slashes.map(|(at, _)| at + 1).nth(last) {
            Some(at) => Some(&self.path[at..]),
            None => {
                let depth = self.path.split(|b| *b == b'/').count();
                (depth == names).then_some(self.path)
            }
        }
    }

    /// Returns how many last names both paths have in common, up to [`MAX_NAMES`].
    fn names_shared(&self, other: &Candidate<'_>) -> u8 {
        let names = |path: &'a [u8]| path.rsplit(|b| *b == b'/').take(MAX_NAMES);
        let others = other.path.rsplit(|b| *b == b'/');
        let shared = names(self.path).zip(others).take_while(|(a, b)| a == b);
        shared.count() as u8
    }
}

/// A removed and a new file that belong together, as positions in the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Position among the removed files.
    pub from: usize,
    /// Position among the new files.
    pub to: usize,
    /// Share of the longer content that is in both, in percent; 100 only for equal content.
    pub percent: u8,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// The pairs. Each file is in one pair at most.
    pub list: Vec<Pair>,
    /// Whether a limit kept some files from being compared.
    pub is_limited: bool,
}

/// The list that a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The removed files.
    Gone,
    /// The new files.
    New,
}

/// Gives access to the content of files.
pub trait Contents {
    /// The errors of reading.
    type Error;

    /// Returns the sketch of one file. `None` keeps it out of pairs with different content.
    fn sketch(
        &mut self,
        side: Side,
        n: usize,
        sketcher: Sketcher,
    ) -> Result<Option<Sketch>, Self::Error>;

    /// Returns a rank for each of some files. They are read in the order of their ranks.
    fn reading_ranks(&mut self, side: Side, files: &[usize]) -> Result<Vec<u32>, Self::Error> {
        let _ = side;
        Ok(vec![0; files.len()])
    }

    /// Returns whether the file `gone` may have become the file `new`.
    fn is_free(&mut self, gone: usize, new: usize) -> Result<bool, Self::Error> {
        let _ = (gone, new);
        Ok(true)
    }

    /// Called from time to time. An error ends the search.
    fn go_on(&mut self) -> Result<(), Self::Error>;
}

/// Pairs files of equal content, then those that are most alike.
///
/// It reads at most `MAX_RENAME_BYTES`, the shortest files first. In each list it examines at
/// most `MAX_RENAME_PATHS` files for shared content.
pub fn pair<C: Contents>(
    gone: &[Candidate<'_>],
    new: &[Candidate<'_>],
    contents: &mut C,
) -> Result<Pairs, C::Error> {
    let equal = pair_equal(gone, new, &mut |from, to| {
        contents.go_on()?;
        contents.is_free(from, to)
    })?;
    let pair_of = |(from, to)| Pair {
        from,
        to,
        percent: 100,
    };
    let mut out = Pairs {
        list: equal.into_iter().map(pair_of).collect(),
        is_limited: false,
    };
    let used: BTreeSet<usize> = out.list.iter().map(|pair| pair.from).collect();
    let taken: BTreeSet<usize> = out.list.iter().map(|pair| pair.to).collect();
    let open = |list: &[Candidate<'_>], done: &BTreeSet<usize>| -> Vec<usize> {
        (0..list.len())
            .filter(|n| !done.contains(n) && list[*n].is_open())
            .collect()
    };
    let mut open = [open(gone, &used), open(new, &taken)];
    for list in &mut open {
        out.is_limited |= list.len() > MAX_RENAME_PATHS;
        list.truncate(MAX_RENAME_PATHS);
    }
    let lists = [gone, new];
    let open = worth_reading(lists, open, &mut out.is_limited);
    let [from, to] = sketches(lists, open, contents)?;
    let mut scored = scored(lists, &from, &to, contents)?;
    scored.sort_unstable();
    let (mut used, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (_, Reverse(share), _, from, to) in scored {
        let (from, to) = (from as usize, to as usize);
        if !used.contains(&from) && !taken.contains(&to) && contents.is_free(from, to)? {
            used.insert(from);
            taken.insert(to);
            let percent = (share / 10_000).min(99) as u8;
            out.list.push(Pair { from, to, percent });
        }
    }
    Ok(out)
}

/// Pairs candidates of equal content. Among several, those whose paths have the most last names in
/// common come first. `may_pair` decides about each pair.
pub(crate) fn pair_equal<E>(
    gone: &[Candidate<'_>],
    new: &[Candidate<'_>],
    may_pair: &mut dyn FnMut(usize, usize) -> Result<bool, E>,
) -> Result<Vec<(usize, usize)>, E> {
    let mut out = Vec::new();
    let [mut from, mut to] = in_both(gone, new);
    for names in (0..=MAX_NAMES).rev() {
        let mut fits: HashMap<_, VecDeque<usize>> = HashMap::new();
        for n in &to {
            if let Some(end) = new[*n].last_names(names) {
                let same = fits.entry((new[*n].content(), end)).or_default();
                same.push_back(*n);
            }
        }
        let (mut left, mut taken) = (Vec::new(), HashSet::new());
        for n in from {
            let end = gone[n].last_names(names);
            let mut same = end.and_then(|end| fits.get_mut(&(gone[n].content(), end)));
            let mut found = None;
            while let Some(other) = same.as_mut().and_then(|same| same.pop_front()) {
                if may_pair(n, other)? {
                    found = Some(other);
                    break;
                }
            }
            match found {
                Some(other) => {
                    taken.insert(other);
                    out.push((n, other));
                }
                None => left.push(n),
            }
        }
        from = left;
        to.retain(|n| !taken.contains(n));
        if from.is_empty() || to.is_empty() {
            break;
        }
    }
    Ok(out)
}

/// Returns the candidates of each list whose content is also in the other list.
fn in_both(gone: &[Candidate<'_>], new: &[Candidate<'_>]) -> [Vec<usize>; 2] {
    let shared = |list: &[Candidate<'_>], other: &[Candidate<'_>]| -> Vec<usize> {
        let known: HashSet<_> = other.iter().filter_map(Candidate::content).collect();
        let is_known = |n: &usize| list[*n].content().is_some_and(|c| known.contains(&c));
        (0..list.len()).filter(is_known).collect()
    };
    [shared(gone, new), shared(new, gone)]
}

/// Returns the least and the greatest size of a file that can share half with a file of this size.
fn near(size: u64) -> (u64, u64) {
    (size.div_ceil(2), size.saturating_mul(2))
}

/// Returns the files of both lists that are close in size to a file of the other list: the shortest
/// first, as far as the limit on reading allows.
fn worth_reading(
    lists: [&[Candidate<'_>]; 2],
    open: [Vec<usize>; 2],
    is_limited: &mut bool,
) -> [Vec<usize>; 2] {
    let sizes = [0, 1].map(|s: usize| {
        let mut sizes: Vec<u64> = open[s].iter().map(|n| lists[s][*n].size).collect();
        sizes.sort_unstable();
        sizes
    });
    let mut wanted: Vec<(u64, usize, usize)> = Vec::new();
    for (s, list) in open.iter().enumerate() {
        for n in list {
            let size = lists[s][*n].size;
            let (least, most) = near(size);
            let others = &sizes[1 - s];
            let first = others.partition_point(|other| *other < least);
            if others.get(first).is_some_and(|other| *other <= most) {
                wanted.push((size, s, *n));
            }
        }
    }
    wanted.sort_unstable();
    let mut left = MAX_RENAME_BYTES;
    let mut out = [Vec::new(), Vec::new()];
    for (_, s, n) in wanted {
        match left.checked_sub(lists[s][n].read_bytes) {
            Some(rest) => {
                left = rest;
                out[s].push(n);
            }
            None => *is_limited = true,
        }
    }
    out
}

/// A file with the sketch of its content.
struct SketchedFile {
    n: usize,
    size: u64,
    sketch: Sketch,
}

/// Reads each file once, in the order in which it is read fastest. The sketches of each list are in the order of size, then name.
fn sketches<C: Contents>(
    lists: [&[Candidate<'_>]; 2],
    open: [Vec<usize>; 2],
    contents: &mut C,
) -> Result<[Vec<SketchedFile>; 2], C::Error> {
    let files = open[0].len() + open[1].len();
    let most = (MAX_RENAME_PIECES / files.max(1)).max(MIN_PIECES);
    let mut out = [Vec::new(), Vec::new()];
    for (s, mut list) in open.into_iter().enumerate() {
        let side = [Side::Gone, Side::New][s];
        let by_size = |n: usize| (lists[s][n].size, lists[s][n].name(), n);
        list.sort_by_key(|n| by_size(*n));
        let ranks = contents.reading_ranks(side, &list)?;
        let mut by_rank: Vec<(u32, usize)> = ranks.into_iter().zip(list).collect();
        by_rank.sort_by_key(|(rank, _)| *rank);
        for (_, n) in by_rank {
            contents.go_on()?;
            if let Some(sketch) = contents.sketch(side, n, Sketcher::new(most))? {
                let size = lists[s][n].size;
                out[s].push(SketchedFile { n, size, sketch });
            }
        }
        out[s].sort_by_key(|file| by_size(file.n));
    }
    Ok(out)
}

/// A pair with its scores, in an order that puts the best pair first: the number of last names that
/// both paths have in common, if the contents are close; the share; that number in any case.
type ScoredPair = (Reverse<u8>, Reverse<u32>, Reverse<u8>, u32, u32);

fn scored<C: Contents>(
    [gone, new]: [&[Candidate<'_>]; 2],
    from: &[SketchedFile],
    to: &[SketchedFile],
    contents: &mut C,
) -> Result<Vec<ScoredPair>, C::Error> {
    let range = |size: u64| {
        let (least, most) = near(size);
        let first = to.partition_point(|file| file.size < least);
        first..to.partition_point(|file| file.size <= most)
    };
    let pairs: usize = from.iter().map(|file| range(file.size).len()).sum();
    let likely =
        (pairs > MAX_RENAME_PAIRS).then(|| Likely::new(to.iter().map(|file| &file.sketch)));
    let mut out = Vec::new();
    for file in from {
        contents.go_on()?;
        let range = range(file.size);
        let others: Vec<usize> = match &likely {
            None => range.collect(),
            Some(likely) => {
                let name = gone[file.n].name();
                let at = range.start
                    + to[range.clone()].partition_point(|other| {
                        (other.size, new[other.n].name()) < (file.size, name)
                    });
                likely.of(&file.sketch, &FilePosition { range, at })
            }
        };
        for other in others {
            let other = &to[other];
            let sizes = [file.size, other.size];
            let share = file.sketch.share(&other.sketch, sizes);
            if share >= MIN_SHARE {
                let names = gone[file.n].names_shared(&new[other.n]);
                let near = if share >= NEAR_SHARE { names } else { 0 };
                let (share, pair) = (share as u32, (file.n as u32, other.n as u32));
                let rank = (Reverse(near), Reverse(share), Reverse(names));
                out.push((rank.0, rank.1, rank.2, pair.0, pair.1));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;

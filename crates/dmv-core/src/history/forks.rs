//! Where several lines of history parted from one.
//!
//! One walk serves all tips, so a repository with a hundred branches costs what one merge base costs.

use super::Walk;
use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead};
use std::collections::HashMap;

/// What a tip has to do with one's own commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    /// The own commit has everything of the tip.
    Contained,
    /// Another tip has everything of this one.
    Covered,
    /// The best common ancestors of the tip and the own commit, in id order. There are none if the
    /// histories do not meet, also if another tip has everything of this one.
    From(Vec<ObjectId>),
    /// The walk ended before it was known: history is absent there, or there was too much of it.
    Unknown,
}

/// Returns what each of `tips` has to do with `own`. All must be stored here, and the tips differ.
///
/// Reads at most `max` commits, newest first.
pub(crate) fn forks(
    reader: &dyn ObjectRead,
    own: &ObjectId,
    tips: &[ObjectId],
    max: usize,
) -> Result<Vec<Fork>, ObjectError> {
    let mut walk = Walk::new(reader);
    let mut marks = Marks::new(tips.len());
    walk.require(own)?;
    marks.add(own, &Mark::own(tips.len()));
    for (n, tip) in tips.iter().enumerate() {
        walk.require(tip)?;
        marks.add(tip, &Mark::of_tip(n, tips.len()));
    }
    let number: HashMap<ObjectId, usize> = tips.iter().copied().zip(0..).collect();
    let mut forks = vec![Fork::From(Vec::new()); tips.len()];
    let mut cut = TipSet::new(tips.len());
    let mut is_own_cut = false;
    let mut read = 0;
    while marks.is_undecided() {
        if read == max {
            marks.each_undecided(&mut |n| cut.add(n));
            break;
        }
        read += 1;
        let Some(next) = walk.next()? else {
            break;
        };
        // The walk has seen all its descendants, so its marks are complete.
        let mut mark = marks.remove(&next.id);
        if let Some(n) = number.get(&next.id) {
            if mark.is_own {
                forks[*n] = Fork::Contained;
            } else if mark.from.len() > 1 {
                forks[*n] = Fork::Covered;
            }
        }
        if mark.is_own {
            for n in mark.from.without(&mark.below) {
                if let Fork::From(bases) = &mut forks[n] {
                    bases.push(next.id);
                }
            }
            mark.below = mark.from.clone();
        }
        for parent in &next.commit.parents {
            if walk.is_here(parent) {
                marks.add(parent, &mark);
            } else {
                mark.from.without(&mark.below).for_each(|n| cut.add(n));
                is_own_cut |= mark.is_own;
            }
        }
    }
    for (n, fork) in forks.iter_mut().enumerate() {
        match fork {
            Fork::From(bases) if bases.is_empty() && (is_own_cut || cut.has(n)) => {
                *fork = Fork::Unknown
            }
            Fork::From(bases) => bases.sort_unstable(),
            _ => {}
        }
    }
    Ok(forks)
}

/// Tips, by their numbers.
#[derive(Clone)]
struct TipSet {
    words: Vec<u64>,
}

impl TipSet {
    /// An empty set of numbers below `limit`.
    fn new(limit: usize) -> TipSet {
        TipSet {
            words: vec![0; limit.div_ceil(64)],
        }
    }

    fn add(&mut self, n: usize) {
        self.words[n / 64] |= 1 << (n % 64);
    }

    fn has(&self, n: usize) -> bool {
        self.words[n / 64] & (1 << (n % 64)) != 0
    }

    fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    fn extend(&mut self, other: &TipSet) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Returns the numbers that `other` lacks.
    fn without(&self, other: &TipSet) -> impl Iterator<Item = usize> {
        let words = self.words.iter().zip(&other.words);
        let words: Vec<u64> = words.map(|(word, other)| word & !other).collect();
        (0..64 * words.len()).filter(move |n| words[n / 64] & (1 << (n % 64)) != 0)
    }
}

/// What is known of a commit in the queue.
#[derive(Clone)]
struct Mark {
    /// The own commit descends from it.
    is_own: bool,
    /// The tips that descend from it.
    from: TipSet,
    /// The tips for which it is an ancestor of a base.
    below: TipSet,
}

impl Mark {
    fn own(tips: usize) -> Mark {
        Mark {
            is_own: true,
            from: TipSet::new(tips),
            below: TipSet::new(tips),
        }
    }

    fn of_tip(n: usize, tips: usize) -> Mark {
        let mut mark = Mark {
            is_own: false,
            ..Mark::own(tips)
        };
        mark.from.add(n);
        mark
    }

    /// Returns for how many tips it may still lead to a base.
    fn undecided(&self) -> usize {
        self.from.without(&self.below).count()
    }
}

/// The marks of the commits that the walk has not reached yet.
struct Marks {
    marks: HashMap<ObjectId, Mark>,
    tips: usize,
    /// The sum of [`Mark::undecided`].
    undecided: usize,
    /// How many of the commits are ancestors of the own one.
    own: usize,
}

impl Marks {
    fn new(tips: usize) -> Marks {
        Marks {
            marks: HashMap::new(),
            tips,
            undecided: 0,
            own: 0,
        }
    }

    /// Returns whether the walk may still meet a base.
    fn is_undecided(&self) -> bool {
        self.undecided > 0 && self.own > 0
    }

    fn each_undecided(&self, visit: &mut dyn FnMut(usize)) {
        for mark in self.marks.values() {
            mark.from.without(&mark.below).for_each(&mut *visit);
        }
    }

    fn add(&mut self, id: &ObjectId, more: &Mark) {
        let mut mark = self.remove(id);
        mark.is_own |= more.is_own;
        mark.from.extend(&more.from);
        mark.below.extend(&more.below);
        self.undecided += mark.undecided();
        self.own += usize::from(mark.is_own);
        self.marks.insert(*id, mark);
    }

    /// Takes the mark of a commit out; one that was never added has an empty one.
    fn remove(&mut self, id: &ObjectId) -> Mark {
        let Some(mark) = self.marks.remove(id) else {
            return Mark {
                is_own: false,
                ..Mark::own(self.tips)
            };
        };
        self.undecided -= mark.undecided();
        self.own -= usize::from(mark.is_own);
        mark
    }
}

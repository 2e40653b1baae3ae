//! A set of small numbers, one bit each.

use std::ops::Range;

/// A set of the numbers below a limit.
pub(super) struct Bits {
    words: Vec<u64>,
    limit: usize,
}

impl Bits {
    /// Returns an empty set of numbers below `limit`.
    pub fn new(limit: usize) -> Bits {
        Bits {
            words: vec![0; limit.div_ceil(64)],
            limit,
        }
    }

    /// Adds a number. Returns whether it is new.
    pub fn set(&mut self, n: usize) -> bool {
        let (word, bit) = (&mut self.words[n / 64], 1 << (n % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes a number.
    pub fn clear(&mut self, n: usize) {
        self.words[n / 64] &= !(1 << (n % 64));
    }

    /// Returns whether the set has a number.
    pub fn has(&self, n: usize) -> bool {
        self.words[n / 64] & 1 << (n % 64) != 0
    }

    /// Returns how many numbers of `range` the set has.
    pub fn count_in(&self, range: Range<usize>) -> usize {
        let mut count = 0;
        self.each_word(range, |word| {
            count += word.count_ones() as usize;
            true
        });
        count
    }

    /// Returns whether the set has any number of `range`.
    pub fn any_in(&self, range: Range<usize>) -> bool {
        !self.each_word(range, |word| word == 0)
    }

    /// Returns the greatest number of the set below `end`.
    pub fn last_below(&self, end: usize) -> Option<usize> {
        let end = end.min(self.limit);
        let (full, rest) = (end / 64, end % 64);
        let partly = match rest {
            0 => 0,
            rest => self.words[full] & ((1 << rest) - 1),
        };
        if partly != 0 {
            return Some(full * 64 + partly.ilog2() as usize);
        }
        let at = self.words[..full].iter().rposition(|word| *word != 0)?;
        Some(at * 64 + self.words[at].ilog2() as usize)
    }

    /// Calls `visit` with each word of `range`, with zeros outside it, while it returns `true`.
    /// Returns whether it always did.
    fn each_word(&self, range: Range<usize>, mut visit: impl FnMut(u64) -> bool) -> bool {
        let Range { start, end } = range;
        if start >= end {
            return true;
        }
        let (first, last) = (start / 64, (end - 1) / 64);
        (first..=last).all(|at| {
            let mut word = self.words[at];
            if at == first {
                word &= u64::MAX << (start % 64);
            }
            if at == last {
                word &= u64::MAX >> (63 - (end - 1) % 64);
            }
            visit(word)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn bits_are_a_set_of_numbers() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        for limit in [1, 2, 63, 64, 65, 128, 300] {
            let (mut bits, mut set) = (Bits::new(limit), BTreeSet::new());
            for _ in 0..limit {
                let n = random(limit);
                assert_eq!(bits.set(n), set.insert(n));
                let gone = random(limit);
                bits.clear(gone);
                set.remove(&gone);
            }
            for from in 0..=limit {
                assert_eq!(
                    bits.last_below(from),
                    set.range(..from).next_back().copied()
                );
                assert!(from == limit || bits.has(from) == set.contains(&from));
                for to in from..=limit {
                    assert_eq!(bits.count_in(from..to), set.range(from..to).count());
                    assert_eq!(bits.any_in(from..to), set.range(from..to).count() > 0);
                }
            }
        }
    }
}

//! The range planner: from wanted places to reads of byte ranges, and which of them are under way.
//!
//! A store answers one range per request, and each request costs money and a round trip. So places
//! that lie close together share a read, and long ones are read in pieces side by side.

use crate::format::Name;
use std::collections::VecDeque;

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The file.
    pub file: Name,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
}

impl Range {
    /// Returns where they end.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// How places become reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The longest gap that is read along, because another request would cost more.
    pub gap: u64,
    /// The most bytes of one read; at least 1.
    pub most: u64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            gap: 64 << 10,
            most: 8 << 20,
        }
    }
}

/// Returns the reads that together cover the wanted ranges, sorted and without overlaps.
pub fn plan(mut wanted: Vec<Range>, terms: Terms) -> Vec<Range> {
    wanted.retain(|range| range.len > 0);
    wanted.sort_unstable();
    let mut joined: Vec<Range> = Vec::new();
    for range in wanted {
        match joined.last_mut() {
            Some(last) if last.file == range.file && range.offset <= last.end() => {
                last.len = last.end().max(range.end()) - last.offset;
            }
            _ => joined.push(range),
        }
    }
    let most = terms.most.max(1);
    let mut reads: Vec<Range> = Vec::new();
    for range in joined {
        if let Some(last) = reads.last_mut()
            && last.file == range.file
            && range.offset - last.end() <= terms.gap
            && range.end() - last.offset <= most
        {
            last.len = range.end() - last.offset;
            continue;
        }
        let mut rest = range;
        while rest.len > 0 {
            let len = rest.len.min(most);
            reads.push(Range { len, ..rest });
            (rest.offset, rest.len) = (rest.offset + len, rest.len - len);
        }
    }
    reads
}

/// Reads that are under way: several at once, within a number of bytes. A read that fails or ends
/// early is repeated for what is left of it.
#[derive(Clone, Debug)]
pub struct Reads {
    waiting: VecDeque<(Range, u32)>,
    open: Vec<(Range, u32)>,
    at_once: usize,
    bytes_at_once: u64,
    tries: u32,
}

/// A read that has failed too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} bytes at {} of {} cannot be read", .0.len, .0.offset, .0.file)]
pub struct Unreadable(pub Range);

impl Reads {
    /// Starts with these reads. At most `at_once` of them are under way, with `bytes_at_once` bytes
    /// unless a single one is longer. Each gets `tries` attempts without progress.
    pub fn new(reads: Vec<Range>, at_once: usize, bytes_at_once: u64, tries: u32) -> Reads {
        Reads {
            waiting: reads.into_iter().map(|range| (range, 0)).collect(),
            open: Vec::new(),
            at_once: at_once.max(1),
            bytes_at_once,
            tries,
        }
    }

    /// Returns the next read to start; `None` if there is none, or no room for it yet.
    pub fn next_read(&mut self) -> Option<Range> {
        let bytes: u64 = self.open.iter().map(|(range, _)| range.len).sum();
        let (range, _) = self.waiting.front()?;
        let fits = bytes.saturating_add(range.len) <= self.bytes_at_once;
        if !self.open.is_empty() && (self.open.len() >= self.at_once || !fits) {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.open.push(next);
        Some(next.0)
    }

    /// Notes that the first `len` bytes of a read have come, and that it has ended. Reads that are
    /// not under way do not count. Fails if it has now failed too often.
    pub fn ended(&mut self, read: Range, len: u64) -> Result<(), Unreadable> {
        let Some(at) = self.open.iter().position(|(range, _)| *range == read) else {
            return Ok(());
        };
        let (range, failed) = self.open.swap_remove(at);
        let failed = if len == 0 { failed + 1 } else { 0 };
        if len >= range.len {
            return Ok(());
        }
        if failed >= self.tries {
            return Err(Unreadable(range));
        }
        let rest = Range {
            offset: range.offset + len,
            len: range.len - len,
            ..range
        };
        self.waiting.push_front((rest, failed));
        Ok(())
    }

    /// Returns whether everything has come.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(file: u8, offset: u64, len: u64) -> Range {
        let file = Name([file; 16]);
        Range { file, offset, len }
    }

    #[test]
    fn near_places_share_a_read_and_long_ones_are_cut() {
        let terms = Terms { gap: 10, most: 100 };
        let wanted = vec![
            range(1, 50, 10),
            range(1, 70, 5),
            range(1, 0, 20),
            range(2, 0, 250),
        ];
        let reads = [
            range(1, 0, 20),
            range(1, 50, 25),
            range(2, 0, 100),
            range(2, 100, 100),
            range(2, 200, 50),
        ];
        assert_eq!(plan(wanted, terms), reads);
    }

    #[test]
    fn a_read_that_never_comes_ends_the_reads() {
        let read = range(1, 0, 10);
        let mut reads = Reads::new(vec![read], 4, 100, 3);
        for _ in 0..2 {
            assert_eq!(reads.next_read(), Some(read));
            assert_eq!(reads.ended(read, 0), Ok(()));
        }
        assert_eq!(reads.next_read(), Some(read));
        assert_eq!(reads.ended(read, 0), Err(Unreadable(read)));
    }

    /// Returns the bytes of two short files, each with whether it is in a range.
    fn bytes_of(ranges: &[Range]) -> Vec<u8> {
        let mut bytes = vec![0; 2 * 512];
        for range in ranges {
            let start = usize::from(range.file.0[0]) * 512 + range.offset as usize;
            bytes[start..start + range.len as usize]
                .iter_mut()
                .for_each(|byte| *byte += 1);
        }
        bytes
    }

    proptest! {
        #[test]
        fn reads_cover_what_is_wanted_once_and_little_else(
            wanted in prop::collection::vec((0u8..2, 0u64..450, 0u64..60), 0..30),
            gap in 0u64..40,
            most in 1u64..90,
        ) {
            let wanted: Vec<Range> = wanted.iter().map(|w| range(w.0, w.1, w.2)).collect();
            let reads = plan(wanted.clone(), Terms { gap, most });
            let (read, want) = (bytes_of(&reads), bytes_of(&wanted));
            prop_assert!(read.iter().zip(&want).all(|(read, want)| *read == 1 || *want == 0));
            prop_assert!(read.iter().all(|times| *times <= 1));
            prop_assert!(reads.iter().all(|range| (1..=most).contains(&range.len)));
            prop_assert!(reads.is_sorted());
            // Unwanted bytes come in runs of at most one gap.
            let mut run = 0;
            for (read, want) in read.iter().zip(&want) {
                run = if *read == 1 && *want == 0 { run + 1 } else { 0 };
                prop_assert!(run <= gap);
            }
        }

        #[test]
        fn all_bytes_come_although_reads_are_cut_off(
            cuts in prop::collection::vec(0u64..30, 0..60),
            at_once in 1usize..5,
        ) {
            let wanted = vec![range(0, 0, 300), range(1, 20, 100)];
            let all = plan(wanted.clone(), Terms { gap: 0, most: 64 });
            let mut reads = Reads::new(all, at_once, 100, 100);
            let (mut got, mut open) = (Vec::new(), Vec::new());
            let mut cuts = cuts.into_iter();
            while !reads.is_done() {
                while let Some(read) = reads.next_read() {
                    open.push(read);
                }
                prop_assert!(open.len() <= at_once);
                prop_assert!(open.len() == 1 || open.iter().map(|r| r.len).sum::<u64>() <= 100);
                let read = open.swap_remove(open.len() / 2);
                let len = cuts.next().unwrap_or(read.len).min(read.len);
                got.push(Range { len, ..read });
                reads.ended(read, len).expect("it has tries left");
            }
            prop_assert_eq!(bytes_of(&got), bytes_of(&wanted));
        }
    }
}

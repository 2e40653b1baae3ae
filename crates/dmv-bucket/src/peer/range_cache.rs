//! Bytes of packs that were read and that are probably wanted again soon: small packs, commits, and
//! the surroundings of nodes.

use crate::ranges::Range;
use std::collections::VecDeque;

/// The most bytes that are held.
const MAX_BYTES: usize = 32 << 20;

/// Ranges with their bytes. The oldest ones go first.
#[derive(Default)]
pub struct RangeCache {
    ranges: VecDeque<(Range, Vec<u8>)>,
    bytes: usize,
}

impl RangeCache {
    /// Holds bytes.
    pub fn add(&mut self, range: Range, bytes: Vec<u8>) {
        if bytes.len() as u64 != range.len || bytes.len() > MAX_BYTES || self.get(&range).is_some()
        {
            return;
        }
        self.bytes += bytes.len();
        self.ranges.push_back((range, bytes));
        while self.bytes > MAX_BYTES {
            let gone = self.ranges.pop_front();
            self.bytes -= gone.map_or(self.bytes, |(_, bytes)| bytes.len());
        }
    }

    /// Returns the bytes of a range, if they are held.
    pub fn get(&self, wanted: &Range) -> Option<&[u8]> {
        let (found, bytes) = self.ranges.iter().rev().find(|(range, _)| {
            range.file == wanted.file
                && range.offset <= wanted.offset
                && wanted.offset + wanted.len <= range.offset + range.len
        })?;
        let from = (wanted.offset - found.offset) as usize;
        bytes.get(from..from + wanted.len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Name;

    fn range(file: u8, offset: u64, len: u64) -> Range {
        let file = Name([file; 16]);
        Range { file, offset, len }
    }

    #[test]
    fn parts_of_what_was_read_are_there_until_others_need_the_room() {
        let mut held = RangeCache::default();
        held.add(range(1, 100, 5), b"abcde".to_vec());
        assert_eq!(held.get(&range(1, 101, 3)), Some(&b"bcd"[..]));
        for other in [range(2, 101, 3), range(1, 99, 2), range(1, 103, 3)] {
            assert_eq!(held.get(&other), None);
        }
        held.add(range(1, 0, 4), b"cut".to_vec());
        assert_eq!(held.get(&range(1, 0, 1)), None, "it has another length");
        let half = MAX_BYTES / 2;
        for file in [3, 4] {
            held.add(range(file, 0, half as u64), vec![file; half]);
        }
        assert_eq!(held.get(&range(1, 100, 1)), None);
        assert!(held.get(&range(3, 0, 1)).is_some());
        assert_eq!(held.bytes, 2 * half);
    }
}

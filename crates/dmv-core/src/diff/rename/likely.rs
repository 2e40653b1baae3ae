//! Which of many files may share much with one.
//!
//! An index from each piece to the files that have it. A file is looked up by its rarest pieces
//! first, and only so many entries are read for it. Where a piece is in too many files, those near
//! in size and name are taken.

use super::sketch::Sketch;
use std::ops::Range;

/// Entries of the index that are read for one file.
const MAX_ENTRIES: usize = 512;
/// Files that are then compared with it.
const MAX_LIKELY: usize = 8;

/// The files that have each piece.
pub(super) struct Likely {
    /// In order, by hash and then by file.
    entries: Vec<(u64, u32)>,
}

/// Where one file belongs among those of the index.
pub(super) struct Place {
    /// The files that are near in size.
    pub range: Range<usize>,
    /// Where it would stand itself.
    pub at: usize,
}

impl Likely {
    /// Of files in the order of their sizes.
    pub fn new<'s>(files: impl Iterator<Item = &'s Sketch>) -> Likely {
        let mut entries = Vec::new();
        for (n, sketch) in files.enumerate() {
            entries.extend(sketch.hashes().map(|hash| (hash, n as u32)));
        }
        entries.sort_unstable();
        Likely { entries }
    }

    /// The files that share most with a sketch, as far as its rarest pieces tell.
    pub fn of(&self, sketch: &Sketch, place: &Place) -> Vec<usize> {
        let mut found: Vec<(Range<usize>, u64)> = Vec::new();
        for (hash, bytes) in sketch.pieces() {
            let entries = self.entries_of(*hash, &place.range);
            if !entries.is_empty() {
                found.push((entries, *bytes));
            }
        }
        found.sort_by_key(|(entries, _)| (entries.len(), entries.start));
        let mut left = MAX_ENTRIES;
        let mut votes: Vec<(u32, u64)> = Vec::new();
        for (entries, bytes) in found {
            let entries = self.around(entries, place.at, left);
            left -= entries.len();
            votes.extend(self.entries[entries].iter().map(|(_, file)| (*file, bytes)));
        }
        votes.sort_unstable();
        votes.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        let far = |file: u32| (file as usize).abs_diff(place.at);
        votes.sort_by_key(|(file, bytes)| (std::cmp::Reverse(*bytes), far(*file), *file));
        votes.truncate(MAX_LIKELY);
        votes.into_iter().map(|(file, _)| file as usize).collect()
    }

    /// Where the index has a piece, of files in `range`.
    fn entries_of(&self, hash: u64, range: &Range<usize>) -> Range<usize> {
        let at = |file: usize| {
            let key = (hash, file as u32);
            self.entries.partition_point(|entry| *entry < key)
        };
        at(range.start)..at(range.end)
    }

    /// Of some entries of one piece, at most `most` that are nearest to the file `at`.
    fn around(&self, entries: Range<usize>, at: usize, most: usize) -> Range<usize> {
        if entries.len() <= most {
            return entries;
        }
        let files = &self.entries[entries.clone()];
        let middle = entries.start + files.partition_point(|(_, file)| (*file as usize) < at);
        let start = middle.saturating_sub(most / 2).max(entries.start);
        let start = start.min(entries.end - most);
        start..start + most
    }
}

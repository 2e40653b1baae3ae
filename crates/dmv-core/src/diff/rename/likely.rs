//! Candidates for rename detection: which of many files may share much with a given one.
//!
//! It is an index from each piece to the files that contain it. A file is looked up by its rarest
//! pieces first, and only a limited number of index entries is read for it. If a piece is in too
//! many files, those close in size and name are used.

use super::sketch::Sketch;
use std::ops::Range;

/// Index entries that are read for one file.
const MAX_ENTRIES: usize = 512;
/// Files that are then compared with it.
const MAX_LIKELY: usize = 8;

/// The files that contain each piece.
pub(super) struct Likely {
    /// Pairs of piece and file, sorted by the piece's hash, then by file.
    entries: Vec<(u64, u32)>,
}

/// The position of one file among those of the index.
pub(super) struct FilePosition {
    /// The files of a similar size.
    pub range: Range<usize>,
    /// Where the file would stand itself.
    pub at: usize,
}

impl Likely {
    /// Returns an index of `files`, which must be in the order of their sizes.
    pub fn new<'s>(files: impl Iterator<Item = &'s Sketch>) -> Likely {
        let mut entries = Vec::new();
        for (n, sketch) in files.enumerate() {
            entries.extend(sketch.hashes().map(|hash| (hash, n as u32)));
        }
        entries.sort_unstable();
        Likely { entries }
    }

    /// Returns the files that share most with a sketch, judged by its rarest pieces.
    pub fn of(&self, sketch: &Sketch, place: &FilePosition) -> Vec<usize> {
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

    /// Returns the index entries of a piece for the files in `range`.
    fn entries_of(&self, hash: u64, range: &Range<usize>) -> Range<usize> {
        let at = |file: usize| {
            let key = (hash, file as u32);
            self.entries.partition_point(|entry| *entry < key)
        };
        at(range.start)..at(range.end)
    }

    /// Returns at most `most` of the entries of one piece: those nearest to the file `at`.
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

//! Two states of a file, compared by their chunks alone: nothing here reads content. The program and
//! the pages tell by it how much two versions share.

use crate::hash::ObjectId;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Where a chunk begins, its id, and its bytes.
pub type ChunkAt = (u64, ObjectId, u64);

/// What two states have in common, and where they differ.
#[derive(Default)]
pub struct ByChunks {
    /// Bytes of the new state in chunks that the old one has, too.
    pub shared_bytes: u64,
    /// Bytes of the new state in other chunks.
    pub new_bytes: u64,
    /// Bytes of the old state in chunks that the new one does not have.
    pub removed_bytes: u64,
    /// Runs of new chunks, in order.
    pub differing: Vec<Differs>,
}

/// A run of new chunks, and what stood in its place.
pub struct Differs {
    /// Its bytes in the new state.
    pub new: Range<u64>,
    /// What the old state has there that the new one does not have.
    pub old: Range<u64>,
}

impl ByChunks {
    /// Compares the chunks of two states; `old_size`: the bytes of the old one.
    pub fn of(old: &[ChunkAt], new: &[ChunkAt], old_size: u64) -> ByChunks {
        let in_new: HashSet<ObjectId> = new.iter().map(|(_, id, _)| *id).collect();
        let mut places: HashMap<ObjectId, Vec<usize>> = HashMap::new();
        for (index, (_, id, _)) in old.iter().enumerate() {
            places.entry(*id).or_default().push(index);
        }
        let removed = old.iter().filter(|(_, id, _)| !in_new.contains(id));
        let mut out = ByChunks {
            removed_bytes: removed.map(|(_, _, len)| len).sum(),
            ..ByChunks::default()
        };
        // The chunk of the old state that follows what was last found shared.
        let mut after = 0;
        let mut index = 0;
        while index < new.len() {
            let (start, id, len) = new[index];
            if let Some(places) = places.get(&id) {
                out.shared_bytes += len;
                let next = places.partition_point(|place| *place < after);
                after = places.get(next).or(places.last()).map_or(after, |p| p + 1);
                index += 1;
                continue;
            }
            let mut end = start;
            while index < new.len() && !places.contains_key(&new[index].1) {
                end += new[index].2;
                index += 1;
            }
            out.new_bytes += end - start;
            let old_start = old.get(after).map_or(old_size, |chunk| chunk.0);
            let run = old[after..]
                .iter()
                .take_while(|(_, id, _)| !in_new.contains(id));
            let old_end = old_start + run.map(|(_, _, len)| len).sum::<u64>();
            out.differing.push(Differs {
                new: start..end,
                old: old_start..old_end,
            });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One chunk for each letter, of ten bytes.
    fn chunks(letters: &str) -> Vec<ChunkAt> {
        let chunk =
            |(n, letter): (usize, u8)| (10 * n as u64, ObjectId::from_bytes([letter; 32]), 10);
        letters.bytes().enumerate().map(chunk).collect()
    }

    #[test]
    fn a_run_of_new_chunks_stands_beside_what_it_replaces() {
        let cases = [
            ("abc", "abc", (30, 0, 0), vec![]),
            ("abc", "axyc", (20, 20, 10), vec![(10..30, 10..20)]),
            ("abc", "abcx", (30, 10, 0), vec![(30..40, 30..30)]),
            ("abc", "xc", (10, 10, 20), vec![(0..10, 0..20)]),
            ("abc", "cab", (30, 0, 0), vec![]),
            ("", "x", (0, 10, 0), vec![(0..10, 0..0)]),
        ];
        for (old, new, sums, want) in cases {
            let size = 10 * old.len() as u64;
            let found = ByChunks::of(&chunks(old), &chunks(new), size);
            let got = (found.shared_bytes, found.new_bytes, found.removed_bytes);
            assert_eq!(got, sums, "{old} {new}");
            let runs = found.differing.into_iter().map(|d| (d.new, d.old));
            assert_eq!(runs.collect::<Vec<_>>(), want, "{old} {new}");
        }
    }
}

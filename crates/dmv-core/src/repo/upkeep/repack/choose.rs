//! Which packs are joined.
//!
//! The rule, for each kind of pack by itself:
//!
//! 1. A pack that commits go on to append to, with many small segments, is *loose*: loose packs are
//!    replaced by one pack. Nothing is appended to the new pack, so it stays as it is.
//! 2. Then each pack has at least twice as many bytes as all smaller ones together. If one has fewer,
//!    it is joined with all smaller ones. So the number of packs grows with the logarithm of their
//!    bytes, and each byte is copied about as often.
//! 3. A pack of some size that repack did not write is replaced, so that its content gets bases and its metadata
//!    lies by path: together with smaller packs, and with larger ones of up to a few times its size, which may have
//!    earlier versions.
//! 4. A pack of half the size of a full one or more is not joined with others, unless it is loose. No set is larger
//!    than a full pack.

use crate::limits::PACK_FULL_BYTES;
use crate::store::{PackId, PackKind, PackRow, SegmentRow};

/// Length in bytes up to which a segment is small.
const SMALL_BYTES: u64 = 256 << 10;
/// Number of small segments that make a pack loose, whatever else it has.
const MANY: u64 = 4_096;
/// A pack with fewer small segments is loose if they take this part of it.
const PART: u64 = 8;
/// Length in bytes from which a pack is joined with no other.
const LARGE_BYTES: u64 = PACK_FULL_BYTES / 2;
/// Most packs that are joined at a time. They are all open then.
const MOST_PACKS: usize = 256;
/// Length in bytes from which a pack is worth a search for what resembles its objects.
const WORTH_SEARCH_BYTES: u64 = 1 << 20;
/// A pack in which no such search was made is compared with packs of up to this many times its size.
const COMPARED: u64 = 8;
/// About the bytes of the index of a small segment, and of its frame's head.
const OVERHEAD_BYTES: u64 = 139;

/// A pack that may be joined with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub row: PackRow,
    /// The number of its small segments.
    pub small: u64,
    small_bytes: u64,
}

/// Packs of one kind to be replaced together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub kind: PackKind,
    /// The packs, smallest first.
    pub packs: Vec<PackRow>,
    /// Whether it also pays to replace a single one of them.
    pub is_worth_alone: bool,
}

impl Candidate {
    pub fn new(row: PackRow) -> Candidate {
        Candidate {
            row,
            small: 0,
            small_bytes: 0,
        }
    }

    /// Counts a segment of the pack.
    pub fn add(&mut self, segment: &SegmentRow) {
        let len = segment.end - segment.start;
        if len <= SMALL_BYTES {
            self.small += 1;
            self.small_bytes += len;
        }
    }

    /// Returns the pack that replaces some packs, if nothing gets smaller but indexes.
    pub fn joined(packs: &[Candidate]) -> Candidate {
        let all: u64 = packs.iter().map(|pack| pack.row.len).sum();
        let small: u64 = packs.iter().map(|pack| pack.small).sum();
        let saved = small.saturating_sub(1) * OVERHEAD_BYTES;
        let mut row = packs[0].row;
        row.len = all.saturating_sub(saved);
        row.poisoned = true;
        row.id = PackId::random_with_bases();
        Candidate::new(row)
    }

    /// Returns whether no `repack` has looked for what resembles its objects.
    fn is_unsearched(&self) -> bool {
        // Commits append to packs of any name, except to those that are as they should be.
        let is_searched =
            self.row.poisoned && (self.row.kind == PackKind::Meta || self.row.id.may_have_bases());
        self.row.len >= WORTH_SEARCH_BYTES && !is_searched
    }

    /// Returns whether it has so many small segments that it is worth being replaced.
    pub fn is_loose(&self) -> bool {
        let many = self.small >= MANY || self.small_bytes * PART >= self.row.len;
        !self.row.poisoned && self.small >= 2 && many
    }
}

/// Returns packs to join; `None` if the packs are as they should be.
pub(super) fn choose(packs: &[Candidate]) -> Option<Set> {
    [PackKind::Meta, PackKind::Data]
        .into_iter()
        .find_map(|kind| {
            let mut packs: Vec<&Candidate> =
                packs.iter().filter(|pack| pack.row.kind == kind).collect();
            packs.sort_by_key(|pack| (pack.row.len, pack.row.id));
            let loose = packs.iter().filter(|pack| pack.is_loose());
            let loose = up_to_full(loose.map(|pack| pack.row));
            let new = packs.iter().find(|pack| pack.is_unsearched());
            let (packs, is_worth_alone) = match (uneven(&packs), new) {
                _ if !loose.is_empty() => (loose, true),
                (uneven, _) if !uneven.is_empty() => (uneven, false),
                (_, new) => (new.map_or(Vec::new(), |new| compared(&packs, new)), true),
            };
            let set = Set {
                kind,
                packs,
                is_worth_alone,
            };
            (!set.packs.is_empty()).then_some(set)
        })
}

/// Returns the smallest packs up to the last one that has less than twice the bytes of all smaller
/// ones.
fn uneven(packs: &[&Candidate]) -> Vec<PackRow> {
    let small = packs.iter().filter(|pack| pack.row.len < LARGE_BYTES);
    let small: Vec<PackRow> = small.map(|pack| pack.row).collect();
    let (mut smaller_bytes, mut end) = (0, 0);
    for (n, row) in small.iter().enumerate() {
        if n > 0 && row.len < 2 * smaller_bytes {
            end = n + 1;
        }
        smaller_bytes += row.len;
    }
    up_to_full(small[..end].iter().copied())
}

/// Returns a pack in which no search was made, and those that it is compared with.
fn compared(packs: &[&Candidate], new: &Candidate) -> Vec<PackRow> {
    let most = new.row.len.saturating_mul(COMPARED).min(LARGE_BYTES);
    let others = packs.iter().map(|pack| pack.row);
    let others = others.filter(|row| row.id != new.row.id && row.len < most);
    let mut all = if new.row.len < LARGE_BYTES {
        up_to_full(std::iter::once(new.row).chain(others))
    } else {
        vec![new.row]
    };
    all.sort_by_key(|row| (row.len, row.id));
    all
}

/// Returns the first of some packs, as far as one pack can replace them.
fn up_to_full(packs: impl Iterator<Item = PackRow>) -> Vec<PackRow> {
    let mut bytes = 0;
    let mut out: Vec<PackRow> = Vec::new();
    for row in packs.take(MOST_PACKS) {
        bytes += row.len;
        if bytes > PACK_FULL_BYTES && !out.is_empty() {
            break;
        }
        out.push(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(n: u8, len: u64) -> Candidate {
        Candidate::new(PackRow {
            id: PackId::from_bytes([n; 16]),
            kind: PackKind::Data,
            len,
            poisoned: true,
        })
    }

    fn based(n: u8, len: u64) -> Candidate {
        let mut pack = pack(n, len);
        let mut id = *PackId::random_with_bases().as_bytes();
        id[0] = n;
        pack.row.id = PackId::from_bytes(id);
        pack
    }

    fn loose(n: u8, len: u64, small: u64, small_bytes: u64) -> Candidate {
        let mut pack = pack(n, len);
        (pack.small, pack.small_bytes, pack.row.poisoned) = (small, small_bytes, false);
        pack
    }

    fn chosen(packs: &[Candidate]) -> Vec<u8> {
        let set = choose(packs).map_or(Vec::new(), |set| set.packs);
        set.iter().map(|row| row.id.as_bytes()[0]).collect()
    }

    #[test]
    fn packs_that_each_have_twice_the_bytes_of_all_smaller_ones_stay() {
        assert_eq!(chosen(&[]), []);
        assert_eq!(chosen(&[pack(1, 1_000)]), []);
        assert_eq!(chosen(&[pack(1, 100), pack(2, 200), pack(3, 600)]), []);
        assert_eq!(
            chosen(&[pack(3, 599), pack(1, 100), pack(2, 200)]),
            [1, 2, 3]
        );
        assert_eq!(chosen(&[pack(1, 100), pack(2, 199), pack(3, 900)]), [1, 2]);
        // The largest one is right, but one between is not.
        assert_eq!(
            chosen(&[pack(1, 10), pack(2, 100), pack(3, 150), pack(4, 5_000)]),
            [1, 2, 3]
        );
    }

    #[test]
    fn a_pack_with_small_segments_is_loose_until_nothing_is_appended_any_more() {
        assert_eq!(chosen(&[loose(1, 1_000, 1, 1_000)]), []);
        assert_eq!(chosen(&[loose(1, 1_000, 2, 125)]), [1]);
        assert_eq!(chosen(&[loose(1, 1_000, 2, 124)]), []);
        assert_eq!(chosen(&[loose(1, 1 << 30, MANY, 1 << 20)]), [1]);
        let mut sealed = loose(1, 1_000, 100, 1_000);
        sealed.row.poisoned = true;
        assert_eq!(chosen(&[sealed]), []);
        // Before anything else, however large the others are.
        let packs = [
            loose(1, 1_000, 9, 900),
            pack(2, 1_100),
            loose(3, 500, 9, 400),
        ];
        assert_eq!(chosen(&packs), [3, 1]);
        assert_eq!(choose(&packs).map(|set| set.is_worth_alone), Some(true));
    }

    #[test]
    fn no_set_is_larger_than_a_full_pack_and_large_packs_stay() {
        let half = LARGE_BYTES;
        assert_eq!(
            chosen(&[based(1, half), based(2, half), based(3, half + 1)]),
            []
        );
        let packs: Vec<Candidate> = (0..9).map(|n| pack(n, half - 1)).collect();
        assert_eq!(chosen(&packs), [0, 1]);
        assert_eq!(chosen(&[loose(1, 3 * half, MANY, 1 << 20)]), [1]);
        let many: Vec<Candidate> = (0..=255).map(|n| pack(n, 100)).collect();
        let more: Vec<Candidate> = many.iter().chain(&many).copied().collect();
        assert_eq!(choose(&more).map(|set| set.packs.len()), Some(MOST_PACKS));
    }

    #[test]
    fn random_packs_come_to_rest_and_no_byte_is_copied_too_often() {
        let mut x = 88_172_645_463_325_252u64;
        let mut packs: Vec<Candidate> = Vec::new();
        let (mut copied, mut all) = (0, 0);
        for n in 0..2_000u32 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let mut new = loose(0, 1_000 + x % 1_000, 3, 900);
            let mut id = [0; 16];
            id[..4].copy_from_slice(&n.to_le_bytes());
            new.row.id = PackId::from_bytes(id);
            all += new.row.len;
            packs.push(new);
            while let Some(set) = choose(&packs) {
                let (go, stay): (Vec<_>, Vec<_>) = packs
                    .into_iter()
                    .partition(|pack| set.packs.iter().any(|row| row.id == pack.row.id));
                packs = stay;
                packs.push(Candidate::joined(&go));
                copied += set.packs.iter().map(|row| row.len).sum::<u64>();
            }
            assert!(packs.len() < 20, "{}", packs.len());
        }
        assert!(copied < 16 * all, "{copied} of {all}");
    }

    #[test]
    fn a_data_pack_without_bases_is_replaced_once() {
        assert_eq!(chosen(&[pack(1, WORTH_SEARCH_BYTES - 1)]), []);
        let large = pack(1, 3 * PACK_FULL_BYTES / 2);
        let set = choose(&[large]).map(|set| (set.packs.len(), set.is_worth_alone));
        assert_eq!(set, Some((1, true)));
        assert_eq!(choose(&[Candidate::joined(&[large])]), None);
        let mut meta = large;
        meta.row.kind = PackKind::Meta;
        assert_eq!(choose(&[meta]), None);
    }

    #[test]
    fn a_pack_of_metadata_to_which_jobs_append_is_replaced_once() {
        let mut meta = loose(1, WORTH_SEARCH_BYTES, 0, 0);
        meta.row.kind = PackKind::Meta;
        let set = choose(&[meta]).map(|set| (set.packs.len(), set.is_worth_alone));
        assert_eq!(set, Some((1, true)));
        assert_eq!(choose(&[Candidate::joined(&[meta])]), None);
        meta.row.len -= 1;
        assert_eq!(choose(&[meta]), None);
    }

    #[test]
    fn a_data_pack_without_bases_is_compared_with_packs_of_a_few_times_its_size() {
        let mib = 1 << 20;
        let set = |new: u64, old: u64| chosen(&[pack(1, new * mib), based(2, old * mib)]);
        assert_eq!(set(85, 200), [1, 2]);
        assert_eq!(set(25, 199), [1, 2]);
        assert_eq!(set(25, 200), [1]);
        // Smaller ones are compared, too.
        assert_eq!(
            chosen(&[based(2, 10 * mib), pack(1, 85 * mib), based(3, 200 * mib)]),
            [2, 1, 3]
        );
        // The new one is always among them.
        let mut packs: Vec<Candidate> = (2..9).map(|n| based(n, LARGE_BYTES - 1)).collect();
        packs.push(pack(1, LARGE_BYTES / 2));
        assert!(chosen(&packs).contains(&1));
        assert_eq!(
            chosen(&[pack(1, LARGE_BYTES), based(2, LARGE_BYTES - 1)]),
            [1]
        );
        // Versions that come one after the other cost a bounded number of copies of each byte.
        let (mut packs, mut copied, mut all) = (vec![based(0, 1_000 * mib)], 0, 0);
        for n in 1..200 {
            packs.push(pack(n, 150 * mib));
            all += 150 * mib;
            while let Some(set) = choose(&packs) {
                let (go, stay): (Vec<_>, Vec<_>) = packs
                    .into_iter()
                    .partition(|pack| set.packs.iter().any(|row| row.id == pack.row.id));
                packs = stay;
                packs.push(Candidate::joined(&go));
                copied += set.packs.iter().map(|row| row.len).sum::<u64>();
            }
        }
        assert!(copied < 10 * all, "{copied} of {all}");
    }

    #[test]
    fn kinds_are_joined_by_themselves() {
        let mut packs = [pack(1, 100), pack(2, 110), pack(3, 120)];
        packs[1].row.kind = PackKind::Meta;
        assert_eq!(chosen(&packs), [1, 3]);
        packs[2].row.kind = PackKind::Meta;
        assert_eq!(chosen(&packs), [2, 3], "metadata first");
    }
}

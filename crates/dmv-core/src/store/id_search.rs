//! Finding an id among sorted ids.
//!
//! Ids are hashes and spread evenly, so the position of an id can be guessed. Among a hundred it is
//! a few entries from the guess, mostly in the same cache lines of the processor. This takes about
//! half the time of a binary search; a new guess at each step takes longer than either.

use crate::hash::ObjectId;
use std::cmp::Ordering;

/// Steps from the first guess before a binary search takes over. Ids that an attacker has chosen
/// need it.
const STEPS: usize = 16;

/// Returns the position of `wanted` among `n` ids. `id_at` returns them in order. All begin with
/// the same `bits` bits as `wanted`, at most 16.
pub(super) fn position<'i>(
    wanted: &ObjectId,
    n: usize,
    bits: u8,
    mut id_at: impl FnMut(usize) -> &'i [u8],
) -> Option<usize> {
    let head = head_of(wanted.as_bytes());
    let rest = head & (u64::MAX >> bits);
    let mut next = ((u128::from(rest) * n as u128) >> (64 - bits)) as usize;
    let (mut low, mut high) = (0, n);
    let mut steps = STEPS;
    while low < high {
        let id = id_at(next);
        // Most ids differ in their first bytes, and numbers are compared faster than bytes.
        let order = head_of(id).cmp(&head);
        let near = match order.then_with(|| id.cmp(wanted.as_bytes())) {
            Ordering::Equal => return Some(next),
            Ordering::Less => {
                low = next + 1;
                low
            }
            Ordering::Greater => {
                high = next;
                high.saturating_sub(1)
            }
        };
        next = match steps {
            0 => (low + high) / 2,
            _ => near,
        };
        steps = steps.saturating_sub(1);
    }
    None
}

/// Returns the first eight bytes of an id as a number. The numbers have the same order as the ids.
pub(super) fn head_of(id: &[u8]) -> u64 {
    u64::from_le_bytes(super::layout::array(&id[..8])).swap_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectType;

    /// Looks for each of `ids` and its neighbours. Returns the greatest and the average number of
    /// ids that were examined.
    fn looked_at(ids: &[[u8; 32]], bits: u8) -> (usize, f64) {
        let (mut most, mut all) = (0, 0);
        for (n, id) in ids.iter().enumerate() {
            let mut looks = 0;
            let wanted = ObjectId::from_bytes(*id);
            let found = position(&wanted, ids.len(), bits, |at| {
                looks += 1;
                &ids[at]
            });
            assert_eq!(found, Some(n));
            (most, all) = (looks.max(most), all + looks);
            for last in [id[31].wrapping_add(1), id[31].wrapping_sub(1)] {
                let mut other = *id;
                other[31] = last;
                let expected = ids.binary_search(&other).ok();
                let other = ObjectId::from_bytes(other);
                assert_eq!(position(&other, ids.len(), bits, |at| &ids[at]), expected);
            }
        }
        (most, all as f64 / ids.len().max(1) as f64)
    }

    #[test]
    fn hashes_are_found_near_the_first_guess() {
        for (n, bits) in [(0, 0), (1, 0), (2, 0), (100, 0), (127, 3)] {
            let mut ids: Vec<[u8; 32]> = (0_u32..)
                .map(|i| *ObjectType::Chunk.id_of(&i.to_le_bytes()).as_bytes())
                .filter(|id| u32::from(id[0]) >> (8 - u32::from(bits)) == 0 || bits == 0)
                .take(n)
                .collect();
            ids.sort_unstable();
            let (most, average) = looked_at(&ids, bits);
            assert!(most <= STEPS + 8, "{most} of {n}");
            assert!(average <= 6.0, "{average} of {n}");
        }
    }

    #[test]
    fn ids_that_somebody_chose_are_found_as_by_halving() {
        let with = |at: usize, value: u8| {
            let mut id = [0; 32];
            id[at] = value;
            id
        };
        let alike: Vec<[u8; 32]> = (0..=255).map(|n| with(31, n)).collect();
        let doubling: Vec<[u8; 32]> = (0..256)
            .rev()
            .map(|n| with(n / 8, 128 >> (n % 8)))
            .collect();
        let mut ends = alike[..128].to_vec();
        ends.extend((0..128).map(|n| [255 - n; 32]).rev());
        for ids in [alike, doubling, ends] {
            assert!(ids.is_sorted());
            let (most, _) = looked_at(&ids, 0);
            assert!(most <= STEPS + 9, "{most}");
        }
    }
}

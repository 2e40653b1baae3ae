//! The rule that decides where a node of a list or tree ends: docs/format/objects.md, "Node
//! boundaries".

use crate::hash::derived_id;
use crate::limits::{MAX_NAME_BYTES, NODE_BITS, NODE_MAX, NODE_MIN};
use std::cell::RefCell;

/// Places for names whose hashes a thread remembers, as a power of two: 128 KiB.
const PLACES_LOG: u32 = 12;
/// Bytes for level, length and name of an entry whose hash is remembered.
const KEY_BYTES: usize = 28;

/// Returns whether a node ends after its `n`-th entry, whose boundary hash is `hash`.
pub(crate) fn ends_after(n: usize, hash: impl FnOnce() -> u32) -> bool {
    n >= NODE_MAX || (n >= NODE_MIN && hash() & ((1 << NODE_BITS) - 1) == 0)
}

/// A name whose hash was computed before: level, length and 1, name. Zeros are no name.
#[derive(Clone, Copy, Default)]
struct KnownName {
    key: [u8; KEY_BYTES],
    hash: u32,
}

/// Returns the boundary hash of the entry `name` in a tree node of `level`.
///
/// A directory is built again for each of its versions, with nearly the same names. So each thread remembers
/// hashes: that saves a quarter of the time of making a directory of 200 names.
pub(crate) fn tree_boundary_hash(level: u8, name: &[u8]) -> u32 {
    thread_local! {
        static KNOWN: RefCell<Vec<KnownName>> = const { RefCell::new(Vec::new()) };
    }
    if name.len() > KEY_BYTES - 2 {
        return computed(level, name);
    }
    let mut key = [0; KEY_BYTES];
    (key[0], key[1]) = (level, name.len() as u8 + 1);
    key[2..2 + name.len()].copy_from_slice(name);
    KNOWN.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize(1 << PLACES_LOG, KnownName::default());
        }
        let place = &mut known[place_of(&key)];
        if place.key != key {
            let hash = computed(level, name);
            *place = KnownName { key, hash };
        }
        place.hash
    })
}

/// Returns the only place that a key can have.
fn place_of(key: &[u8; KEY_BYTES]) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, _) = key.as_chunks::<4>();
    let mix =
        |sum: u64, word: &[u8; 4]| (sum ^ u64::from(u32::from_le_bytes(*word))).wrapping_mul(ODD);
    (words.iter().fold(0, mix) >> (u64::BITS - PLACES_LOG)) as usize
}

fn computed(level: u8, name: &[u8]) -> u32 {
    debug_assert!(name.len() <= MAX_NAME_BYTES, "names are checked before");
    let mut input = [0; 1 + MAX_NAME_BYTES];
    input[0] = level;
    input[1..=name.len()].copy_from_slice(name);
    derived_id("dmv v1 tree boundary", &input[..=name.len()]).low_u32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_end_between_the_minimum_and_the_maximum() {
        assert!(!ends_after(NODE_MIN - 1, || 0));
        assert!(ends_after(NODE_MIN, || 0));
        assert!(ends_after(NODE_MIN, || 1 << NODE_BITS));
        assert!(!ends_after(NODE_MAX - 1, || 1));
        assert!(ends_after(NODE_MAX, || 1));
    }

    #[test]
    fn the_boundary_hash_depends_on_level_and_name() {
        assert_ne!(tree_boundary_hash(0, b"a"), tree_boundary_hash(1, b"a"));
        assert_ne!(tree_boundary_hash(0, b"a"), tree_boundary_hash(0, b"b"));
        let long = [b'x'; MAX_NAME_BYTES];
        assert_ne!(tree_boundary_hash(0, &long), tree_boundary_hash(0, b"x"));
    }

    #[test]
    fn a_remembered_hash_is_the_computed_one() {
        // More names than places, of each length around the longest that is remembered.
        for round in 0..2 {
            for n in 0..3u32 << PLACES_LOG {
                let name = format!("{n}{}", "n".repeat((n % 32) as usize));
                let level = (n / 7 % 3) as u8;
                let hash = tree_boundary_hash(level, name.as_bytes());
                assert_eq!(hash, computed(level, name.as_bytes()), "{name} {round}");
            }
        }
        assert_eq!(tree_boundary_hash(1, b""), computed(1, b""));
        assert_eq!(tree_boundary_hash(0, b""), computed(0, b""));
    }
}

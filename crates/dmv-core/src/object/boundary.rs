//! The rule that decides where a node of a list or tree ends: docs/format/objects.md, "Node
//! boundaries".

use crate::hash::derived_id;
use crate::limits::{MAX_NAME_BYTES, NODE_BITS, NODE_MAX, NODE_MIN};

/// Returns whether a node ends after its `n`-th entry, whose boundary hash is `b`.
pub(crate) fn ends_after(n: usize, b: u32) -> bool {
    n >= NODE_MAX || (n >= NODE_MIN && b & ((1 << NODE_BITS) - 1) == 0)
}

/// Returns the boundary hash of the entry `name` in a tree node of `level`.
pub(crate) fn tree_boundary_hash(level: u8, name: &[u8]) -> u32 {
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
        assert!(!ends_after(NODE_MIN - 1, 0));
        assert!(ends_after(NODE_MIN, 0));
        assert!(ends_after(NODE_MIN, 1 << NODE_BITS));
        assert!(!ends_after(NODE_MAX - 1, 1));
        assert!(ends_after(NODE_MAX, 1));
    }

    #[test]
    fn the_boundary_hash_depends_on_level_and_name() {
        assert_ne!(tree_boundary_hash(0, b"a"), tree_boundary_hash(1, b"a"));
        assert_ne!(tree_boundary_hash(0, b"a"), tree_boundary_hash(0, b"b"));
        let long = [b'x'; MAX_NAME_BYTES];
        assert_ne!(tree_boundary_hash(0, &long), tree_boundary_hash(0, b"x"));
    }
}

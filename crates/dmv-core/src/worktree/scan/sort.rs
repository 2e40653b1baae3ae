//! Sorting the names of a directory.

use crate::fsutil::Listing;
use rayon::ThreadPoolBuilder;
use rayon::slice::ParallelSliceMut;

/// Number of names above which all threads sort a directory.
const PARALLEL_SORT: usize = 64 << 10;

/// Returns the listing's indices in the order of the names.
pub(super) fn sorted(listing: &Listing) -> Vec<u32> {
    // A listing has at most MAX_DIR_ENTRIES names, fewer than 2^32.
    let len = listing.len() as u32;
    let name = |i: u32| listing.name(i as usize);
    if (1..len).all(|i| name(i - 1) < name(i)) {
        return (0..len).collect();
    }
    // Names in one directory begin alike. Eight bytes from the first difference decide most
    // comparisons. Names contain no NUL, so padding with NUL keeps the order.
    let common = (1..len).fold(name(0), |common, i| {
        let equal = common.iter().zip(name(i)).take_while(|(a, b)| a == b);
        &common[..equal.count()]
    });
    let mut keys: Vec<(u64, u32)> = (0..len)
        .map(|i| {
            let rest = &name(i)[common.len()..];
            let mut key = [0; 8];
            let used = rest.len().min(8);
            key[..used].copy_from_slice(&rest[..used]);
            // Compared as a number, so the first byte must be the most significant.
            (key.iter().fold(0, |k, b| k << 8 | u64::from(*b)), i)
        })
        .collect();
    let order =
        |a: &(u64, u32), b: &(u64, u32)| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1)));
    // Rayon's global pool would panic if the system starts no thread.
    let pool = (keys.len() > PARALLEL_SORT).then(|| ThreadPoolBuilder::new().build());
    match pool {
        Some(Ok(pool)) => pool.install(|| keys.par_sort_unstable_by(order)),
        _ => keys.sort_unstable_by(order),
    }
    keys.into_iter().map(|(_, i)| i).collect()
}

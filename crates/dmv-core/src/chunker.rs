//! The cutter: it decides where a file is cut into chunks, see docs/format/chunking.md.
//!
//! A cut is a pure function of the bytes after the last cut. The module neither reads files nor
//! stores chunks, and uses no other module. `worktree` and `merge` use it. Its parameters are part
//! of the format; other parameters would be another chunker with another name.

use fastcdc::v2020::{Normalization, cut_gear, get_gear_with_seed, select_masks};
use std::borrow::Cow;

/// Least length of a chunk in bytes, except the last one of a file.
pub(crate) const MIN_CUT_BYTES: usize = 16 << 10;
/// Length in bytes from which the cutter accepts more places as cuts.
pub(crate) const AVERAGE_CUT_BYTES: usize = 64 << 10;
/// Greatest length of a chunk in bytes.
pub const MAX_CUT_BYTES: usize = 256 << 10;
/// The text after `chunker` in `.dmv/format`: name, sizes, normalization level, seed.
pub const CHUNKER: &str = "fastcdc-v2020 16384 65536 262144 1 0";

const LEVEL: Normalization = Normalization::Level1;
const SEED: u64 = 0;

/// Finds cuts. It holds only the parameters, so all threads can share one.
#[derive(Clone, Debug)]
pub struct Cutter {
    strict: u64,
    eager: u64,
    gear: Cow<'static, [u64]>,
    gear_shifted: Cow<'static, [u64]>,
}

impl Cutter {
    /// Returns a cutter with the format's parameters.
    pub fn new() -> Cutter {
        let (strict, eager) = select_masks(AVERAGE_CUT_BYTES, LEVEL);
        let (gear, gear_shifted) = get_gear_with_seed(SEED);
        Cutter {
            strict,
            eager,
            gear,
            gear_shifted,
        }
    }

    /// Returns the length in bytes of the first chunk of `data`; 0 only if `data` is empty.
    ///
    /// `data` begins at the last cut. It must have more than [`MAX_CUT_BYTES`] bytes or reach the
    /// end of the file.
    ///
    /// A result that is less than `data.len()` depends on `data[..=n]` alone, `n` being the result:
    /// the cut is the same whatever follows these bytes. So a changed file has its old cuts again
    /// soon after the change, without further reading.
    pub fn cut(&self, data: &[u8]) -> usize {
        let (_, length) = cut_gear(
            data,
            MIN_CUT_BYTES,
            AVERAGE_CUT_BYTES,
            MAX_CUT_BYTES,
            self.strict,
            self.eager,
            self.strict << 1,
            self.eager << 1,
            &self.gear,
            &self.gear_shifted,
        );
        length
    }
}

impl Default for Cutter {
    fn default() -> Cutter {
        Cutter::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastcdc::v2020::FastCDC;
    use proptest::prelude::*;

    /// SplitMix64, so that a seed alone reproduces a failure.
    fn random(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let words = std::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        words.flat_map(u64::to_le_bytes).take(len).collect()
    }

    fn lengths(mut data: &[u8]) -> Vec<usize> {
        let cutter = Cutter::new();
        let mut out = Vec::new();
        while !data.is_empty() {
            // No more bytes than the contract demands: the bytes after them must not matter.
            let seen = &data[..data.len().min(MAX_CUT_BYTES + 1)];
            let n = cutter.cut(seen);
            assert_eq!(n, cutter.cut(data));
            out.push(n);
            data = &data[n..];
        }
        out
    }

    fn crate_lengths(data: &[u8]) -> Vec<usize> {
        let (min, average, max) = (MIN_CUT_BYTES, AVERAGE_CUT_BYTES, MAX_CUT_BYTES);
        FastCDC::with_level_and_seed(data, min, average, max, LEVEL, SEED)
            .map(|chunk| chunk.length)
            .collect()
    }

    #[test]
    fn the_name_is_made_of_the_parameters() {
        let sizes = format!("{MIN_CUT_BYTES} {AVERAGE_CUT_BYTES} {MAX_CUT_BYTES}");
        let name = format!("fastcdc-v2020 {sizes} {} {SEED}", LEVEL.bits());
        assert_eq!(CHUNKER, name);
    }

    #[test]
    fn cuts_are_those_of_the_crate() {
        let around = |n: usize| n - 1..=n + 2;
        let sizes = [0, 1].into_iter().chain(around(MIN_CUT_BYTES));
        let sizes = sizes
            .chain(around(AVERAGE_CUT_BYTES))
            .chain(around(MAX_CUT_BYTES));
        for size in sizes.chain([1_000_003, 3 << 20]) {
            for (seed, byte) in [(1, 0), (2, 0xa5), (3, 0xff)] {
                let data = random(seed, size);
                assert_eq!(
                    lengths(&data),
                    crate_lengths(&data),
                    "seed {seed} size {size}"
                );
                let data = vec![byte; size];
                assert_eq!(
                    lengths(&data),
                    crate_lengths(&data),
                    "byte {byte} size {size}"
                );
            }
        }
    }

    #[test]
    fn chunks_keep_to_the_bounds() {
        let data = random(7, 16 << 20);
        let lengths = lengths(&data);
        let (last, others) = lengths.split_last().expect("there is data");
        assert!(
            others
                .iter()
                .all(|n| (MIN_CUT_BYTES..=MAX_CUT_BYTES).contains(n))
        );
        assert!(*last <= MAX_CUT_BYTES);
        let mean = data.len() / lengths.len();
        assert!(
            (AVERAGE_CUT_BYTES / 2..AVERAGE_CUT_BYTES * 2).contains(&mean),
            "{mean}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(32)))]
        #[test]
        fn a_cut_depends_on_one_byte_after_the_chunk_and_no_more(
            seed: u64, period in prop::option::of(1usize..5), size in 0..3 * MAX_CUT_BYTES, other: u64
        ) {
            let mut data = random(seed, size);
            if let Some(period) = period {
                for at in period..data.len() {
                    data[at] = data[at - period];
                }
            }
            let n = Cutter::new().cut(&data);
            if n < data.len() {
                let mut changed = data[..=n].to_vec();
                changed.extend(random(other, MAX_CUT_BYTES));
                prop_assert!(changed.len() > MAX_CUT_BYTES);
                prop_assert_eq!(Cutter::new().cut(&changed), n);
            }
        }
    }
}

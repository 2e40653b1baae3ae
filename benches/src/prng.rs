//! The random numbers behind every corpus.
//!
//! xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", 2019),
//! its state filled by SplitMix64 from one `u64`. Written out here so that no crate's update can
//! change the bytes of a corpus.

/// A xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct Prng([u64; 4]);

impl Prng {
    /// The generator for `seed`; any seed will do, also 0.
    pub fn new(seed: u64) -> Prng {
        let mut x = seed;
        Prng([(); 4].map(|()| splitmix64(&mut x)))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number below `bound`, which must not be 0. The bias (below 2^-32 for small bounds) does
    /// not matter to a corpus.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Fills `out` with random bytes; a last part of fewer than eight bytes takes a whole number.
    pub fn fill(&mut self, out: &mut [u8]) {
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            let last = self.next_u64().to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

fn splitmix64(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_code() {
        let mut prng = Prng([1, 2, 3, 4]);
        let got = [(); 4].map(|()| prng.next_u64());
        assert_eq!(
            got,
            [41943041, 58720359, 3588806011781223, 3591011842654386]
        );
        // SplitMix64 from seed 1234567, as its author's test program prints it.
        let mut x = 1234567;
        assert_eq!(splitmix64(&mut x), 6457827717110365317);
        assert_eq!(splitmix64(&mut x), 3203168211198807973);
    }

    #[test]
    fn fill_takes_every_length() {
        for len in [0, 1, 7, 8, 9, 1000] {
            let mut a = vec![0; len];
            let mut b = vec![1; len];
            Prng::new(5).fill(&mut a);
            Prng::new(5).fill(&mut b);
            assert_eq!(a, b, "{len}");
        }
    }
}

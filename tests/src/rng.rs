//! A small seeded random source: the same numbers for the same seed, on every machine.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A source that this seed alone determines.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True one time in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// `len` bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.next().to_le_bytes());
        }
        out.truncate(len);
        out
    }

    /// About `len` bytes of words and lines.
    pub fn text(&mut self, len: usize) -> Vec<u8> {
        const WORDS: [&str; 8] = [
            "pack", "tree", "commit ", "branch", "sample\n", "and ", "of ", "the\n",
        ];
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(WORDS[self.below(8) as usize].as_bytes());
            out.extend_from_slice(self.below(50).to_string().as_bytes());
        }
        out.truncate(len);
        out
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for n in (1..list.len()).rev() {
            list.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}

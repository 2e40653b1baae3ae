//! The random source of all tests, and the word for a test that does nothing. The same seed gives the same numbers on
//! every machine.
//!
//! A random test takes its first seed from [`seed`], prints it when it fails, and runs again with
//! `DMV_SEED`. This package knows nothing of DMV, so that every crate can use it for its tests.

use std::fs::OpenOptions;
use std::io::Write;

/// Returns the first seed of a random test: `DMV_SEED` if it is set, otherwise `usual`.
pub fn seed(usual: u64) -> u64 {
    number("DMV_SEED", usual)
}

/// Returns the number in an environment variable, or `usual` without one.
pub fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Returns how many cases a property test tries that takes long for each: `few`, and in proportion more where
/// `PROPTEST_CASES` is more than the ordinary 24.
pub fn cases(few: u32) -> u32 {
    let wanted = number("PROPTEST_CASES", 24) * u64::from(few) / 24;
    u32::try_from(wanted.max(1)).unwrap_or(u32::MAX)
}

/// Says that a test does nothing, and why. The line goes past the capture of the test's output, so that it is
/// seen. If `DMV_SKIPPED` names a file, the line also goes to its end, so that a long run can list all of them.
pub fn skip(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("?"));
    // Nobody may read the output any more.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("DMV_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// Returns `len` bytes that do not compress, others for each seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Makes a source that depends on the seed alone.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n.max(1)
    }

    /// Returns `true` one time in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns `len` bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.word().to_le_bytes());
        }
        out.truncate(len);
        out
    }

    /// Returns `len` bytes of words and lines.
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

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for n in (1..list.len()).rev() {
            list.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}

//! Seeded input: one large file, or directories of equal files.
//!
//! The same arguments give the same bytes on every machine. Modification times are whatever the
//! clock says.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::prng::Prng;

/// What a corpus consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random bytes: nothing to compress, nothing to share.
    Random,
    /// Lines of words, the frequent ones far more frequent: compresses about 3:1, shares nothing
    /// as long as a chunk.
    Text,
    /// Zeros: compresses to nothing, every chunk is the same.
    Zeros,
}

/// Seed of every corpus that other tools are compared on.
pub const SEED: u64 = 2017;
/// Bytes made at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes handed to one `write`.
const WRITE_BYTES: usize = 1 << 20;
/// Longest word of the text, and the step in which words are copied.
const WORD_BYTES: usize = 16;
/// Words in the text's vocabulary.
const WORDS: u32 = 1 << 13;
/// Words per line of text.
const LINE_WORDS: u32 = 12;

/// An endless stream of bytes: the same for one seed, however it is cut up.
pub struct Source {
    content: Content,
    prng: Prng,
    words: Vec<([u8; WORD_BYTES], usize)>,
    block: Vec<u8>,
    used: usize,
}

impl Source {
    /// The stream of `content` for `seed`.
    pub fn new(content: Content, seed: u64) -> Source {
        let mut prng = Prng::new(seed);
        let words = match content {
            Content::Text => (0..WORDS).map(|_| word(&mut prng)).collect(),
            Content::Random | Content::Zeros => Vec::new(),
        };
        let block = vec![0; BLOCK_BYTES];
        Source {
            content,
            prng,
            words,
            block,
            used: BLOCK_BYTES,
        }
    }

    /// Writes the next `out.len()` bytes of the stream.
    pub fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == self.block.len() {
                self.refill();
            }
            let n = out.len().min(self.block.len() - self.used);
            let (head, tail) = out.split_at_mut(n);
            head.copy_from_slice(&self.block[self.used..self.used + n]);
            self.used += n;
            out = tail;
        }
    }

    fn refill(&mut self) {
        self.used = 0;
        match self.content {
            Content::Zeros => {}
            Content::Random => self.prng.fill(&mut self.block),
            Content::Text => self.refill_text(),
        }
    }

    fn refill_text(&mut self) {
        // Words are copied WORD_BYTES at a time and overlap; the block ends after its last word.
        self.block.resize(BLOCK_BYTES, 0);
        let mut at = 0;
        let mut in_line = 0;
        while at + WORD_BYTES < BLOCK_BYTES {
            // The product of three uniform numbers: low word numbers come up far more often.
            let r = self.prng.next_u64();
            let [a, b, c] = [r & 0xffff, (r >> 16) & 0xffff, (r >> 32) & 0xffff];
            let n = (((a * b * c) >> 32) * u64::from(WORDS)) >> 16;
            let (bytes, len) = &self.words[n as usize];
            self.block[at..at + WORD_BYTES].copy_from_slice(bytes);
            at += len;
            in_line += 1;
            let end = if in_line == LINE_WORDS { b'\n' } else { b' ' };
            in_line %= LINE_WORDS;
            self.block[at] = end;
            at += 1;
        }
        self.block.truncate(at);
    }
}

/// A word of two to twelve lower-case letters, and its length.
fn word(prng: &mut Prng) -> ([u8; WORD_BYTES], usize) {
    let len = 2 + (prng.below(6) + prng.below(6)) as usize;
    let mut bytes = [b' '; WORD_BYTES];
    for byte in &mut bytes[..len] {
        *byte = b'a' + prng.below(26) as u8;
    }
    (bytes, len)
}

/// Writes a new file of `bytes` bytes.
pub fn write_file(path: &Path, content: Content, bytes: u64, seed: u64) -> Result<()> {
    let mut source = Source::new(content, seed);
    write_from(path, &mut source, bytes, &mut vec![0; WRITE_BYTES])
}

/// The size of a tree: `dirs` directories of `files` files of `bytes` bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Directories.
    pub dirs: u32,
    /// Files in each directory.
    pub files: u32,
    /// Bytes in each file.
    pub bytes: u64,
}

/// Writes a tree of that shape at `top`, which must not exist. Names: [`tree_path`].
pub fn write_tree(top: &Path, shape: TreeShape, content: Content, seed: u64) -> Result<()> {
    let mut source = Source::new(content, seed);
    let mut buffer = vec![0; (shape.bytes as usize).min(WRITE_BYTES)];
    for dir in 0..shape.dirs {
        let path = top.join(format!("d{dir:04}"));
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        for file in 0..shape.files {
            let path = top.join(tree_path(dir, file));
            write_from(&path, &mut source, shape.bytes, &mut buffer)?;
        }
    }
    Ok(())
}

/// The path of a tree's file, relative to its top.
pub fn tree_path(dir: u32, file: u32) -> String {
    format!("d{dir:04}/f{file:05}")
}

fn write_from(path: &Path, source: &mut Source, bytes: u64, buffer: &mut [u8]) -> Result<()> {
    let context = || format!("write {}", path.display());
    let mut file = File::create_new(path).with_context(context)?;
    let mut left = bytes;
    while left > 0 {
        let n = left.min(buffer.len() as u64) as usize;
        source.fill(&mut buffer[..n]);
        file.write_all(&buffer[..n]).with_context(context)?;
        left -= n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_does_not_depend_on_how_it_is_cut() {
        for content in [Content::Random, Content::Text, Content::Zeros] {
            let mut whole = vec![1; 3 * BLOCK_BYTES];
            Source::new(content, 7).fill(&mut whole);
            let mut parts = vec![2; 3 * BLOCK_BYTES];
            let mut source = Source::new(content, 7);
            for part in parts.chunks_mut(1009) {
                source.fill(part);
            }
            assert!(whole == parts, "{content:?}");
        }
    }

    #[test]
    fn seeds_differ() {
        let bytes = |seed| {
            let mut out = [0; 64];
            Source::new(Content::Random, seed).fill(&mut out);
            out
        };
        assert_ne!(bytes(1), bytes(2));
    }

    #[test]
    fn text_is_lines_of_words() {
        let mut text = vec![0; 200_000];
        Source::new(Content::Text, 3).fill(&mut text);
        let word_byte = |b: &u8| b.is_ascii_lowercase() || matches!(b, b' ' | b'\n');
        assert!(text.iter().all(word_byte));
        let longest = text.split(|b| *b == b'\n').map(<[u8]>::len).max();
        assert!(longest < Some(LINE_WORDS as usize * 2 * 13));
    }

    #[test]
    fn tree_has_its_shape() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let shape = TreeShape {
            dirs: 3,
            files: 4,
            bytes: 1000,
        };
        write_tree(dir.path(), shape, Content::Random, 1)?;
        for (d, f) in [(0, 0), (2, 3)] {
            let file = dir.path().join(tree_path(d, f));
            assert_eq!(fs::metadata(file)?.len(), 1000);
        }
        assert!(!dir.path().join(tree_path(3, 0)).exists());
        Ok(())
    }
}

//! The file to decode, as the decoders read it: ranges that the parent fetches, behind a window.

use crate::wire;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Stdin, Stdout};

/// Fetches ranges of a file.
pub trait Fetch: Send + Sync {
    /// Fills `buf` with the bytes from `offset` on.
    fn fetch(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

/// Fetches from the parent process, over the pipes that are standard input and output.
pub struct Parent {
    pub from: Stdin,
    pub to: Stdout,
    /// How many more bytes may be fetched.
    pub left: u64,
}

impl Fetch for Parent {
    fn fetch(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for (i, part) in buf.chunks_mut(wire::MAX_READ as usize).enumerate() {
            let len = part.len() as u32;
            let left = self.left.checked_sub(u64::from(len));
            self.left = left.ok_or_else(|| io::Error::other("too many bytes are read"))?;
            let at = offset + (i as u64) * u64::from(wire::MAX_READ);
            let mut ask = [0; 12];
            ask[..8].copy_from_slice(&at.to_le_bytes());
            ask[8..].copy_from_slice(&len.to_le_bytes());
            wire::send(&mut self.to, wire::READ, &ask)?;
            match wire::head(&mut self.from)? {
                Some((wire::BYTES, n)) if n == len => self.from.read_exact(part)?,
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }
}

/// Fetches from bytes in memory.
pub struct Memory<'a>(pub &'a [u8]);

impl Fetch for Memory<'_> {
    fn fetch(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        crate::preview::ReadAt::read_at(self.0, offset, buf)
    }
}

/// The smallest and the largest window. It grows while a decoder reads on and on.
const WINDOW: (u64, u64) = (32 << 10, wire::MAX_READ as u64);

/// A file: `Read`, `BufRead` and `Seek` over a [`Fetch`].
pub struct Input<'a> {
    fetch: Box<dyn Fetch + 'a>,
    len: u64,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
    window_len: u64,
}

impl<'a> Input<'a> {
    /// A file of `len` bytes.
    pub fn new(fetch: impl Fetch + 'a, len: u64) -> Self {
        Self {
            fetch: Box::new(fetch),
            len,
            at: 0,
            window: Vec::new(),
            window_at: 0,
            window_len: WINDOW.0,
        }
    }

    /// Returns the file's length.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `len` bytes from `offset` on, or an error if the file has fewer.
    pub fn range(&mut self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.seek(SeekFrom::Start(offset))?;
        let mut out = Vec::new();
        self.take(len).read_to_end(&mut out)?;
        Ok(out)
    }

    /// Returns up to `len` bytes from the beginning.
    pub fn start(&mut self, len: u64) -> io::Result<Vec<u8>> {
        self.range(0, len.min(self.len))
    }

    /// Returns the part of the window from the position on.
    fn ahead(&self) -> &[u8] {
        let from = self.at.checked_sub(self.window_at);
        let from = from.and_then(|at| usize::try_from(at).ok());
        from.and_then(|at| self.window.get(at..)).unwrap_or(&[])
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let ahead = self.fill_buf()?;
        let n = ahead.len().min(buf.len());
        buf[..n].copy_from_slice(&ahead[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.ahead().is_empty() && self.at < self.len {
            let reads_on = self.at == self.window_at + self.window.len() as u64;
            self.window_len = if reads_on && !self.window.is_empty() {
                (self.window_len * 4).min(WINDOW.1)
            } else {
                WINDOW.0
            };
            let len = self.window_len.min(self.len - self.at);
            self.window.resize(len as usize, 0);
            self.window_at = self.at;
            if let Err(e) = self.fetch.fetch(self.at, &mut self.window) {
                self.window.clear();
                return Err(e);
            }
        }
        Ok(self.ahead())
    }

    fn consume(&mut self, n: usize) {
        self.at += n as u64;
    }
}

impl Seek for Input<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_seeks_return_the_files_bytes() {
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let mut input = Input::new(Memory(&bytes), bytes.len() as u64);
        assert_eq!(input.range(0, 300_000).expect("all"), bytes);
        assert_eq!(input.range(299_999, 1).expect("the last"), bytes[299_999..]);
        assert_eq!(input.range(100, 70_000).expect("some"), bytes[100..70_100]);
        assert!(input.range(299_999, 2).is_err());
        assert!(input.range(u64::MAX, 2).is_err());
        assert!(input.range(0, u64::MAX).is_err());
        assert_eq!(input.start(u64::MAX).expect("all").len(), 300_000);
        input.seek(SeekFrom::Start(u64::MAX)).expect("beyond");
        assert_eq!(input.read(&mut [0; 4]).expect("the end"), 0);
        assert!(input.seek(SeekFrom::Current(i64::MAX)).is_err());
        assert!(input.seek(SeekFrom::End(-300_001)).is_err());
    }
}

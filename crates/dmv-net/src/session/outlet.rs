//! The writing end of a connection, as bytes, and how long sent data stays in memory.
//! [`Link`](super::Link) writes frames to it; the transports implement it.

use super::queue::HeldBytes;
use super::waiting::CountedStream;
use crate::wire::Frame;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// A destination of a connection's bytes.
pub trait Outlet: Write {
    /// Accepts bytes from the start of `part` and returns how many. The outlet may use them in
    /// place until it no longer needs them.
    fn write_part(&mut self, part: &Part) -> io::Result<usize>;
}

/// A stream that has written all bytes that it accepted, like a pipe.
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Outlet for Plain<W> {
    fn write_part(&mut self, part: &Part) -> io::Result<usize> {
        self.0.write(part.as_ref())
    }
}

impl<W: Outlet> Outlet for CountedStream<W> {
    fn write_part(&mut self, part: &Part) -> io::Result<usize> {
        let written = self.stream.write_part(part);
        self.count(written)
    }
}

/// A part of a frame's body. The frame's share of the memory for data in transit is returned when
/// the last of its parts is dropped.
#[derive(Clone)]
pub struct Part {
    whole: Arc<(Frame, HeldBytes<Frame>)>,
    at: Range<usize>,
}

impl Part {
    /// Returns the body from byte `from` on.
    pub fn of(frame: Frame, held: HeldBytes<Frame>, from: usize) -> Part {
        let at = from..frame.parts().1.len();
        let whole = Arc::new((frame, held));
        Part { whole, at }
    }

    /// Returns its first bytes, at most `most`.
    pub fn first(&self, most: usize) -> Part {
        let end = self.at.end.min(self.at.start + most);
        Part {
            whole: self.whole.clone(),
            at: self.at.start..end,
        }
    }

    /// Skips the first `n` bytes.
    pub fn pass(&mut self, n: usize) {
        self.at.start += n;
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.whole.0.parts().1[self.at.clone()]
    }
}

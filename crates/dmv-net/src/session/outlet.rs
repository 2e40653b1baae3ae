//! Where the bytes of a connection go, and how long what is sent stays in memory.

use super::queue::Held;
use super::waiting::Counted;
use crate::wire::Frame;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// Takes the bytes of a connection.
pub trait Outlet: Write {
    /// Takes the first bytes of a part, and returns how many. They may stay where they are until
    /// nobody needs them any more.
    fn write_part(&mut self, part: &Part) -> io::Result<usize>;
}

/// A stream that has written what it has taken, like a pipe.
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

impl<W: Outlet> Outlet for Counted<W> {
    fn write_part(&mut self, part: &Part) -> io::Result<usize> {
        let written = self.stream.write_part(part);
        self.count(written)
    }
}

/// A part of a frame's body. What the frame takes of the memory for frames on their way is given
/// back with the last part of it.
#[derive(Clone)]
pub struct Part {
    whole: Arc<(Frame, Held<Frame>)>,
    at: Range<usize>,
}

impl Part {
    /// The body from byte `from` on.
    pub fn of(frame: Frame, held: Held<Frame>, from: usize) -> Part {
        let at = from..frame.parts().1.len();
        let whole = Arc::new((frame, held));
        Part { whole, at }
    }

    /// Its first bytes, at most so many.
    pub fn first(&self, most: usize) -> Part {
        let end = self.at.end.min(self.at.start + most);
        Part {
            whole: self.whole.clone(),
            at: self.at.start..end,
        }
    }

    /// Leaves out the first `n` bytes.
    pub fn pass(&mut self, n: usize) {
        self.at.start += n;
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.whole.0.parts().1[self.at.clone()]
    }
}

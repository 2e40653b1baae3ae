//! From reads of byte ranges to the records of frames. Reads come in the order of their offsets, and a
//! frame may lie in two of them.

use crate::bucket::format::Name;
use crate::bucket::ranges::Range;
use dmv_core::limits::{MAX_FRAME_BYTES, MAX_TABLE_BYTES};
use dmv_core::store::CheckedRecord;

/// The most bytes of a frame's record.
pub const MAX_RECORD_BYTES: u64 = (MAX_FRAME_BYTES + MAX_TABLE_BYTES + 64) as u64;
/// The least bytes that tell how long a record is.
const HEAD_BYTES: usize = 32;

/// Takes a frame and its bytes.
pub type Each<'e, E> = &'e mut dyn FnMut(&Range, &[u8]) -> Result<(), E>;

/// Cuts wanted frames, whose places are known, out of reads that cover them.
pub struct Cut {
    /// Sorted.
    frames: Vec<Range>,
    next: usize,
    open: Window,
}

/// The bytes that were read and may still be needed.
#[derive(Default)]
struct Window {
    file: Option<Name>,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn add(&mut self, read: &Range, bytes: Vec<u8>) {
        if self.file == Some(read.file) && self.end() == read.offset && !self.bytes.is_empty() {
            self.bytes.extend_from_slice(&bytes);
        } else {
            (self.file, self.start, self.bytes) = (Some(read.file), read.offset, bytes);
        }
    }

    /// Returns bytes of the window; `None` if it does not have all of them.
    fn get(&self, range: &Range) -> Option<&[u8]> {
        let from = usize::try_from(range.offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(range.len).ok()?)?;
        (self.file == Some(range.file)).then(|| self.bytes.get(from..to))?
    }

    fn forget_before(&mut self, offset: u64) {
        let gone = offset.clamp(self.start, self.end()) - self.start;
        self.bytes.drain(..gone as usize);
        self.start += gone;
    }
}

impl Cut {
    /// Wants these frames.
    pub fn new(mut frames: Vec<Range>) -> Cut {
        frames.sort_unstable();
        frames.dedup();
        Cut {
            frames,
            next: 0,
            open: Window::default(),
        }
    }

    /// Takes the next read, and passes each frame that is complete now to `each`.
    pub fn take<E>(&mut self, read: &Range, bytes: Vec<u8>, each: Each<'_, E>) -> Result<(), E> {
        self.open.add(read, bytes);
        // What should have come before was not read.
        let from = (read.file, self.open.start);
        while self
            .frames
            .get(self.next)
            .is_some_and(|frame| (frame.file, frame.offset) < from)
        {
            self.next += 1;
        }
        while let Some(frame) = self.frames.get(self.next) {
            let Some(bytes) = self.open.get(frame) else {
                break;
            };
            each(frame, bytes)?;
            self.next += 1;
        }
        match self.frames.get(self.next) {
            Some(next) if self.open.file == Some(next.file) => {
                self.open.forget_before(next.offset);
            }
            _ => self.open = Window::default(),
        }
        Ok(())
    }
}

/// Cuts records out of reads of a part of a file, one after the other.
#[derive(Default)]
pub struct Cuts {
    open: Vec<u8>,
}

impl Cuts {
    /// Takes the next bytes, and passes each record that is complete now to `each`.
    ///
    /// Returns what is wrong if no record can follow.
    pub fn take<E>(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<(), &'static str>, E> {
        self.open.extend_from_slice(bytes);
        let mut at = 0;
        let ended = loop {
            let rest = &self.open[at..];
            if rest.len() < HEAD_BYTES {
                break Ok(());
            }
            let len = match CheckedRecord::len_of(rest) {
                Ok(len) => len as usize,
                Err(why) => break Err(why),
            };
            let Some(record) = rest.get(..len) else {
                break Ok(());
            };
            each(record)?;
            at += len;
        };
        self.open.drain(..at);
        Ok(ended)
    }

    /// Returns whether the last record has come to its end.
    pub fn is_whole(&self) -> bool {
        self.open.is_empty()
    }
}

//! From reads of byte ranges to the records of frames. Reads come in the order of their offsets, and a
//! frame may lie in two of them. Only what is not complete with a read is copied and kept.

use crate::format::Name;
use crate::ranges::Range;
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

    /// Begins with a read, unless the read goes on where the window ends.
    fn open(&mut self, read: &Range) {
        if self.file != Some(read.file) || self.end() != read.offset || self.bytes.is_empty() {
            (self.file, self.start) = (Some(read.file), read.offset);
            self.bytes.clear();
        }
    }

    /// Copies the bytes of a read up to `end`, behind those that were copied before.
    fn extend_to(&mut self, end: u64, read: &Range, bytes: &[u8]) {
        let to = end.min(read.offset + bytes.len() as u64);
        if to > self.end() {
            let from = self.end() - read.offset;
            self.bytes
                .extend_from_slice(&bytes[from as usize..(to - read.offset) as usize]);
        }
    }

    fn forget_before(&mut self, offset: u64) {
        let gone = offset.clamp(self.start, self.end()) - self.start;
        self.bytes.drain(..gone as usize);
        self.start += gone;
    }
}

/// Returns a range out of bytes that begin at `start`; `None` if they do not have all of it.
fn part<'b>(bytes: &'b [u8], start: u64, range: &Range) -> Option<&'b [u8]> {
    let from = usize::try_from(range.offset.checked_sub(start)?).ok()?;
    let to = from.checked_add(usize::try_from(range.len).ok()?)?;
    bytes.get(from..to)
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
    pub fn take<E>(&mut self, read: &Range, bytes: &[u8], each: Each<'_, E>) -> Result<(), E> {
        self.open.open(read);
        // What should have come before was not read.
        let from = (read.file, self.open.start);
        while self
            .frames
            .get(self.next)
            .is_some_and(|frame| (frame.file, frame.offset) < from)
        {
            self.next += 1;
        }
        let mut next = self.frames.get(self.next);
        next = next.filter(|frame| frame.file == read.file);
        while let Some(frame) = next {
            let found = if frame.offset >= read.offset {
                part(bytes, read.offset, frame)
            } else {
                self.open.extend_to(frame.end(), read, bytes);
                part(&self.open.bytes, self.open.start, frame)
            };
            let Some(found) = found else {
                break;
            };
            each(frame, found)?;
            self.next += 1;
            next = self.frames.get(self.next);
            next = next.filter(|frame| frame.file == read.file);
        }
        // What begins of the next frame stays.
        match next {
            Some(frame) if frame.offset >= read.offset => {
                let end = read.offset + bytes.len() as u64;
                self.open.start = frame.offset.min(end);
                self.open.bytes.clear();
                let from = (self.open.start - read.offset) as usize;
                self.open.bytes.extend_from_slice(&bytes[from..]);
            }
            Some(frame) => {
                self.open.extend_to(u64::MAX, read, bytes);
                self.open.forget_before(frame.offset);
            }
            None => self.open = Window::default(),
        }
        Ok(())
    }
}

/// Takes the number of bytes before a record, and the record.
pub type EachRecord<'e, E> = &'e mut dyn FnMut(u64, &[u8]) -> Result<(), E>;

/// Cuts records out of reads of a part of a file, one after the other.
#[derive(Default)]
pub struct Cuts {
    open: Vec<u8>,
    /// How many bytes came before those.
    passed: u64,
}

impl Cuts {
    /// Takes the next bytes, and passes each record that is complete now to `each`, with the number
    /// of bytes before it.
    ///
    /// Returns what is wrong if no record can follow.
    pub fn take<E>(
        &mut self,
        bytes: &[u8],
        each: EachRecord<'_, E>,
    ) -> Result<Result<(), &'static str>, E> {
        let mut rest = bytes;
        if !self.open.is_empty() {
            self.fill(HEAD_BYTES, &mut rest);
            if self.open.len() < HEAD_BYTES {
                return Ok(Ok(()));
            }
            let len = match CheckedRecord::len_of(&self.open) {
                Ok(len) => len as usize,
                Err(why) => return Ok(Err(why)),
            };
            self.fill(len, &mut rest);
            if self.open.len() < len {
                return Ok(Ok(()));
            }
            each(self.passed, &self.open)?;
            self.passed += len as u64;
            self.open.clear();
        }
        while rest.len() >= HEAD_BYTES {
            let len = match CheckedRecord::len_of(rest) {
                Ok(len) => len as usize,
                Err(why) => {
                    // No record follows this head, whatever comes.
                    self.open.extend_from_slice(&rest[..HEAD_BYTES]);
                    return Ok(Err(why));
                }
            };
            let Some((record, others)) = rest.split_at_checked(len) else {
                break;
            };
            each(self.passed, record)?;
            self.passed += len as u64;
            rest = others;
        }
        self.open.extend_from_slice(rest);
        Ok(Ok(()))
    }

    /// Moves bytes to the open record, until it has `len` bytes.
    fn fill(&mut self, len: usize, from: &mut &[u8]) {
        let lacks = len.saturating_sub(self.open.len()).min(from.len());
        let (some, rest) = from.split_at(lacks);
        self.open.extend_from_slice(some);
        *from = rest;
    }

    /// Returns whether the last record has come to its end.
    pub fn is_whole(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::{Terms, plan};
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn range(file: u8, offset: u64, len: u64) -> Range {
        let file = Name([file; 16]);
        Range { file, offset, len }
    }

    /// The bytes of a file: each depends on its place.
    fn bytes_of(range: &Range) -> Vec<u8> {
        let byte = |at: u64| (at * 7 + u64::from(range.file.0[0])) as u8;
        (range.offset..range.offset + range.len).map(byte).collect()
    }

    proptest! {
        #[test]
        fn each_frame_comes_once_with_its_bytes_unless_a_read_is_missing(
            frames in prop::collection::vec((0u8..3, 0u64..400, 1u64..60), 1..30),
            gap in 0u64..40,
            most in 1u64..90,
            lost in prop::collection::vec(0usize..40, 0..3),
        ) {
            let frames: Vec<Range> = frames.iter().map(|f| range(f.0, f.1, f.2)).collect();
            let reads = plan(frames.clone(), Terms { gap, most });
            let mut cut = Cut::new(frames.clone());
            let mut came = Vec::new();
            for (n, read) in reads.iter().enumerate() {
                if lost.contains(&n) {
                    continue;
                }
                let taken = cut.take(read, &bytes_of(read), &mut |frame, bytes| {
                    came.push((*frame, bytes.to_vec()));
                    Ok::<(), Infallible>(())
                });
                prop_assert!(taken.is_ok());
            }
            prop_assert!(came.is_sorted_by(|a, b| a.0 < b.0), "each comes once");
            prop_assert!(came.iter().all(|(frame, bytes)| *bytes == bytes_of(frame)));
            if lost.iter().all(|n| *n >= reads.len()) {
                let mut all = frames;
                all.sort_unstable();
                all.dedup();
                let came: Vec<Range> = came.iter().map(|(frame, _)| *frame).collect();
                prop_assert_eq!(came, all);
            }
        }
    }

    #[test]
    fn no_bytes_make_a_series_of_records_take_more_than_one_record_of_memory() {
        let mut cuts = Cuts::default();
        let none = |_: u64, _: &[u8]| -> Result<(), Infallible> { Ok(()) };
        // A record that says it is as long as a record can be, and never ends.
        let head = [
            &b"DMVr\x01\x00\x01\x00"[..],
            &(MAX_FRAME_BYTES as u32).to_le_bytes(),
            &(MAX_FRAME_BYTES as u32).to_le_bytes(),
            &(MAX_TABLE_BYTES as u32).to_le_bytes(),
            &[0; 12],
        ]
        .concat();
        assert_eq!(cuts.take(&head, &mut { none }), Ok(Ok(())));
        assert!(!cuts.is_whole());
        for bad in [&b"DMVr\x02"[..], b"no record"] {
            let bytes = [bad, &[0; 32]].concat();
            let taken = Cuts::default().take(&bytes, &mut { none });
            assert!(matches!(taken, Ok(Err(_))), "{taken:?}");
        }
        let mut longer = head;
        longer[8] = 1;
        let taken = Cuts::default().take(&longer, &mut { none });
        assert!(matches!(taken, Ok(Err(_))), "{taken:?}");
    }
}

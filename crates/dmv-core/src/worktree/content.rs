//! Content that is read from a stream, of any length: cut and stored as it comes.
//!
//! Files of a worktree do not pass here: `ingest` reads them by several threads.

use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::object::list::{Blob, ListBuilder};
use crate::object::{ObjectError, ObjectType, ObjectWrite};
use std::io::{self, Read};

/// Bytes that are cut at a time.
const PIECE_BYTES: usize = 4 << 20;

/// Why content was not stored.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The stream cannot be read.
    #[error(transparent)]
    Read(io::Error),
    /// It cannot be stored.
    #[error(transparent)]
    Store(#[from] ObjectError),
}

/// Reads content in pieces that end where a chunk ends.
pub struct Pieces<R> {
    input: R,
    cutter: Cutter,
    /// Bytes that were read and belong to the next piece.
    rest: Vec<u8>,
    at_end: bool,
}

impl<R: Read> Pieces<R> {
    /// Returns the pieces of everything that `input` gives.
    pub fn new(input: R) -> Pieces<R> {
        Pieces {
            input,
            cutter: Cutter::new(),
            rest: Vec::new(),
            at_end: false,
        }
    }

    /// Appends the next piece to `out`. Returns whether it is the last one.
    pub fn next(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let start = out.len();
        out.append(&mut self.rest);
        while !self.at_end && out.len() - start < PIECE_BYTES {
            let wanted = (PIECE_BYTES - (out.len() - start)) as u64;
            let read = Read::by_ref(&mut self.input)
                .take(wanted)
                .read_to_end(out)?;
            self.at_end = (read as u64) < wanted;
        }
        if self.at_end {
            return Ok(true);
        }
        let mut end = start;
        while out.len() - end > MAX_CUT_BYTES {
            end += self.cutter.cut(&out[end..]);
        }
        self.rest = out.split_off(end);
        Ok(false)
    }
}

/// Stores everything that `input` gives as one blob, and shows each piece to `look`.
pub fn store_content(
    input: impl Read,
    writer: &mut dyn ObjectWrite,
    mut look: impl FnMut(&[u8]),
) -> Result<Blob, ContentError> {
    let mut pieces = Pieces::new(input);
    let mut list = ListBuilder::new();
    let cutter = Cutter::new();
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let is_last = pieces.next(&mut piece).map_err(ContentError::Read)?;
        look(&piece);
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(cutter.cut(rest));
            let id = writer.put(ObjectType::Chunk, chunk)?;
            list.push(id, chunk.len() as u64, writer)?;
            rest = after;
        }
        if is_last {
            return Ok(list.finish(writer)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_where_the_whole_is() {
        let bytes = dmv_random::Rng::new(7).bytes(11 << 20);
        let cutter = Cutter::new();
        let cuts = |bytes: &[u8]| {
            let mut lengths = Vec::new();
            let mut rest = bytes;
            while !rest.is_empty() {
                let length = cutter.cut(rest);
                lengths.push(length);
                rest = &rest[length..];
            }
            lengths
        };
        let mut pieces = Pieces::new(&bytes[..]);
        let (mut together, mut all, mut count) = (Vec::new(), Vec::new(), 0);
        loop {
            let mut piece = Vec::new();
            let is_last = pieces.next(&mut piece).expect("memory can be read");
            all.extend(cuts(&piece));
            together.extend(piece);
            count += 1;
            if is_last {
                break;
            }
        }
        assert!(count > 2, "{count} pieces");
        assert!(together == bytes);
        assert_eq!(all, cuts(&bytes));
    }
}

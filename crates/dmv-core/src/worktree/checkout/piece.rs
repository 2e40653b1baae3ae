//! How the bytes of new files are handed over. This module knows no plan and no store.

use crate::platform::{Origin, share_range, write_all_at, write_shared};
use std::fs::File;
use std::io;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Some bytes of a file.
#[derive(Clone, Copy)]
pub enum Piece<'p> {
    /// They were read and checked. Perhaps another file has the same ones.
    Read(&'p [u8], Option<Origin<'p>>),
    /// Nobody has read them. Another file has them, and this is their number.
    Unread(Origin<'p>, u64),
}

impl Piece<'_> {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Piece::Read(bytes, _) => bytes.len() as u64,
            Piece::Unread(_, len) => *len,
        }
    }

    pub(super) fn write(&self, file: &File, at: u64) -> io::Result<()> {
        match *self {
            Piece::Read(bytes, Some(origin)) => write_shared(file, bytes, at, origin),
            Piece::Read(bytes, None) => write_all_at(file, bytes, at),
            Piece::Unread(origin, len) => share_range(file, len, at, origin),
        }
    }
}

/// Takes the next bytes of a file.
pub type Sink<'s> = dyn FnMut(Piece<'_>) -> io::Result<()> + 's;

/// Provides the content of files. `B` names one.
pub trait Content<B: ?Sized>: Sync {
    /// Passes the content of `blob` to `sink`, in order. Must stop at an error of `sink`; bytes that nobody has
    /// read may follow once more as read ones.
    fn write_blob(&self, blob: &B, sink: &mut Sink<'_>) -> Result<(), BoxError>;

    /// Called after the last comparison of an entry, before it is replaced or removed. A test can
    /// change the entry then.
    fn replacing(&self) {}
}

//! How the bytes of new files are handed over and written. This module knows no plan and no store.

use super::Refusal;
use crate::fsutil::SafeDir;
use crate::platform::{Origin, share_range, write_all_at, write_shared};
use crate::vfs::start_writeback;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a file after which the system is asked to start writing to the medium.
const WRITEBACK_BYTES: u64 = 8 << 20;
/// Bytes at the end of a file from which on the same is worth its time.
const LAST_BYTES: u64 = 1 << 20;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Some bytes of a file.
#[derive(Clone, Copy)]
pub enum Piece<'p> {
    /// The length of the file, before bytes that another file has.
    Length(u64),
    /// They were read and checked. Perhaps another file has the same ones.
    Read(&'p [u8], Option<Origin<'p>>),
    /// Nobody has read them. Another file has them, and this is their number.
    Unread(Origin<'p>, u64),
}

impl Piece<'_> {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Piece::Length(_) => 0,
            Piece::Read(bytes, _) => bytes.len() as u64,
            Piece::Unread(_, len) => *len,
        }
    }

    /// Writes the piece at an offset of a file.
    fn write(&self, file: &File, at: u64) -> io::Result<()> {
        match *self {
            Piece::Length(len) => file.set_len(len),
            Piece::Read(bytes, Some(origin)) => write_shared(file, bytes, at, origin),
            Piece::Read(bytes, None) => write_all_at(file, bytes, at),
            Piece::Unread(origin, len) => share_range(file, len, at, origin),
        }
    }

    /// Appends the piece to a file that takes bytes at its end only. Fails for bytes that nobody has read.
    fn append(&self, mut file: &File) -> io::Result<()> {
        match *self {
            Piece::Length(_) => Ok(()),
            Piece::Read(bytes, _) => file.write_all(bytes),
            Piece::Unread(..) => Err(io::ErrorKind::Unsupported.into()),
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

    /// Returns whether another file may have some of the bytes. Then the file shares its blocks where it can.
    fn may_share(&self, _blob: &B) -> bool {
        false
    }

    /// Called after the last comparison of an entry, before it is replaced or removed. A test can
    /// change the entry then.
    fn replacing(&self) {}
}

/// A new file that gets its content.
pub(super) struct Target<'t> {
    pub dir: &'t SafeDir,
    pub name: &'t [u8],
    pub file: &'t File,
    /// Whether it takes bytes at its end only.
    pub grows: bool,
}

impl Target<'_> {
    /// Writes the content of `blob`, and returns its length in bytes.
    pub fn fill<B>(
        &self,
        blob: &B,
        content: &dyn Content<B>,
        cancel: &AtomicBool,
    ) -> Result<u64, Refusal> {
        let mut failed = None;
        let (mut written, mut begun) = (0u64, 0u64);
        let result = content.write_blob(blob, &mut |piece| {
            if cancel.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // The final sync then has little left to do.
            if written - begun >= WRITEBACK_BYTES {
                start_writeback(self.file, begun, written - begun);
                begun = written;
            }
            let done = if self.grows {
                piece.append(self.file)
            } else {
                piece.write(self.file, written)
            };
            match done {
                Ok(()) => written += piece.bytes(),
                Err(e) => {
                    let kind = e.kind();
                    failed = (!matches!(piece, Piece::Unread(..))).then_some(e);
                    return Err(kind.into());
                }
            }
            Ok(())
        });
        // Small files are left to the final sync.
        if result.is_ok() && written - begun >= LAST_BYTES {
            start_writeback(self.file, begun, written - begun);
        }
        match failed {
            Some(e) => Err(self.dir.error("write", self.name, e).into()),
            None => result.map(|()| written).map_err(Refusal::Content),
        }
    }
}

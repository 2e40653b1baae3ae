//! Bodies that are made while they are sent: at any time only a few pieces of them are in memory,
//! and a reader that stops reading holds no thread.

use crate::answer::Body as Boxed;
use bytes::Bytes;
use dmv_core::object::list::Blob;
use dmv_core::repo::Repo;
use hyper::body::{Body, Frame, SizeHint};
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;

/// The first piece is small, so that it is there soon.
const FIRST_PIECE: u64 = 64 << 10;
/// Bytes of later pieces. One is sent while the next one is read.
const PIECE: u64 = 512 << 10;
/// How long a reader of a body may rest that a thread makes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a file in a range.
pub fn of_file(repo: Arc<Repo>, blob: Blob, range: Range<u64>) -> Boxed {
    let mut pieces = Pieces {
        repo,
        blob,
        range,
        size: FIRST_PIECE,
        reading: None,
    };
    pieces.read_on();
    Boxed::new(pieces)
}

struct Pieces {
    repo: Arc<Repo>,
    blob: Blob,
    /// What is still to be sent.
    range: Range<u64>,
    size: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Pieces {
    /// Starts to read the piece that begins at the start of the range.
    fn read_on(&mut self) {
        let end = self
            .range
            .end
            .min(self.range.start.saturating_add(self.size));
        if self.range.start >= end {
            return;
        }
        let (repo, blob, piece) = (self.repo.clone(), self.blob, self.range.start..end);
        self.size = PIECE;
        self.reading = Some(tokio::task::spawn_blocking(move || {
            let mut out = Vec::with_capacity((piece.end - piece.start) as usize);
            let read = repo.cat(blob, Some(piece.clone()), &mut out);
            match read.map_err(io::Error::other)? == piece.end - piece.start {
                true => Ok(Bytes::from(out)),
                false => Err(io::Error::other("the file is shorter than its entry says")),
            }
        }));
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(None);
        };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let bytes = match read.map_err(io::Error::other).and_then(|read| read) {
            Ok(bytes) => bytes,
            Err(e) => return Poll::Ready(Some(Err(e))),
        };
        self.range.start += bytes.len() as u64;
        self.read_on();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.reading.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.range.end.saturating_sub(self.range.start))
    }
}

/// A body that a thread writes, and its writer.
pub fn written() -> (Writer, Boxed) {
    let (send, receive) = mpsc::channel(2);
    let writer = Writer {
        send,
        pending: Vec::new(),
    };
    (writer, Boxed::new(Written(receive)))
}

/// Writes a body. Blocks while its reader is slow, and fails if the reader has gone or rests.
pub struct Writer {
    send: mpsc::Sender<io::Result<Bytes>>,
    pending: Vec<u8>,
}

impl Writer {
    /// Ends the body with a failure: the reader sees that it is not whole.
    pub fn fail(self, why: String) {
        let _ = self.hand_over(Err(io::Error::other(why)));
    }

    /// Waits for room without the runtime, which may be ending.
    fn hand_over(&self, mut piece: io::Result<Bytes>) -> io::Result<()> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            piece = match self.send.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(TrySendError::Full(_)) if begun.elapsed() > PATIENCE => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(TrySendError::Full(piece)) => piece,
            };
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() as u64 >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.pending);
        self.hand_over(Ok(Bytes::from(piece)))
    }
}

struct Written(mpsc::Receiver<io::Result<Bytes>>);

impl Body for Written {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = ready!(self.0.poll_recv(cx));
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}

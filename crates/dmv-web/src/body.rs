//! Bodies that are made while they are sent: at any time only a few pieces of them are in memory,
//! and a reader that stops reading holds no thread.

use crate::answer::Body as Boxed;
use crate::ondisk::OnDisk;
use bytes::Bytes;
use dmv_core::object::list::Blob;
use dmv_core::repo::Repo;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
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
/// Bytes of later pieces. A connection whose reader rests keeps three of them in memory, and there are many connections.
const PIECE: u64 = 256 << 10;
/// Pieces that are read while one is sent. Two keep both the disk and the connection busy.
const AHEAD: usize = 2;
/// How long a reader of a body may rest that a thread makes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the bytes of a file come from.
#[derive(Clone)]
pub enum From {
    /// A commit.
    Commit(Arc<Repo>, Blob),
    /// The worktree.
    Disk(Arc<OnDisk>),
}

impl From {
    fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        match self {
            From::Commit(repo, blob) => {
                let mut out = Vec::with_capacity((range.end - range.start) as usize);
                let read = repo.cat(*blob, Some(range.clone()), &mut out);
                if read.map_err(io::Error::other)? == range.end - range.start {
                    Ok(out)
                } else {
                    Err(io::Error::other("the file is shorter than its entry says"))
                }
            }
            From::Disk(file) => file.range(range),
        }
    }
}

/// The bytes of a file in a range.
pub fn of_file(from: From, range: Range<u64>) -> Boxed {
    let mut pieces = Pieces {
        from,
        range,
        size: FIRST_PIECE,
        reading: VecDeque::new(),
    };
    pieces.read_on();
    Boxed::new(pieces)
}

struct Pieces {
    from: From,
    /// What nobody has begun to read.
    range: Range<u64>,
    size: u64,
    /// Pieces on their way, in order, and the bytes of each.
    reading: VecDeque<(JoinHandle<io::Result<Bytes>>, u64)>,
}

impl Pieces {
    /// Starts to read the pieces that come next.
    fn read_on(&mut self) {
        while self.reading.len() < AHEAD && self.range.start < self.range.end {
            let start = self.range.start;
            let end = self.range.end.min(start.saturating_add(self.size));
            self.range.start = end;
            self.size = PIECE;
            let from = self.from.clone();
            let reading =
                tokio::task::spawn_blocking(move || from.read(start..end).map(Bytes::from));
            self.reading.push_back((reading, end - start));
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some((reading, _)) = self.reading.front_mut() else {
            return Poll::Ready(None);
        };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading.pop_front();
        let bytes = match read.map_err(io::Error::other).and_then(|read| read) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.reading.clear();
                self.range.start = self.range.end;
                return Poll::Ready(Some(Err(e)));
            }
        };
        self.read_on();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.reading.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let on_their_way: u64 = self.reading.iter().map(|(_, len)| len).sum();
        SizeHint::with_exact(on_their_way + self.range.end - self.range.start)
    }
}

/// Makes a body part by part.
pub trait PartMaker: Send + 'static {
    /// Makes the next part. `None` after the last.
    fn next_part(&mut self) -> io::Result<Option<Vec<u8>>>;
}

/// A body of parts, each of which is made when the one before has been sent.
pub fn of_maker(maker: impl PartMaker) -> Boxed {
    Boxed::new(MadeBody(Some(make_part(maker))))
}

/// A maker, and what it has made.
type MadePart<M> = (M, io::Result<Option<Vec<u8>>>);

struct MadeBody<M>(Option<JoinHandle<MadePart<M>>>);

fn make_part<M: PartMaker>(mut maker: M) -> JoinHandle<MadePart<M>> {
    tokio::task::spawn_blocking(move || {
        let part = maker.next_part();
        (maker, part)
    })
}

impl<M: PartMaker> Body for MadeBody<M> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(making) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let made = ready!(Pin::new(making).poll(cx));
        self.0 = None;
        Poll::Ready(match made {
            Ok((maker, Ok(Some(part)))) => {
                self.0 = Some(make_part(maker));
                Some(Ok(Frame::data(part.into())))
            }
            Ok((_, Ok(None))) => None,
            Ok((_, Err(e))) => Some(Err(e)),
            Err(e) => Some(Err(io::Error::other(e))),
        })
    }
}

/// A body that a thread writes, and its writer.
pub fn written() -> (Writer, Boxed) {
    let (send, receive) = mpsc::channel(2);
    let writer = Writer {
        send,
        pending: Vec::new(),
    };
    (writer, Boxed::new(WrittenBody(receive)))
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

struct WrittenBody(mpsc::Receiver<io::Result<Bytes>>);

impl Body for WrittenBody {
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

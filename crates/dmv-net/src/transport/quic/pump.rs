//! QUIC streams as blocking readers and writers, for the threads of a
//! [`Link`](crate::session::Link).
//!
//! A task of the runtime moves the bytes. So a thread wakes up once per piece, not for each packet
//! or window update. To wake a thread costs more than either.

use super::serve::TimedStream;
use crate::session::{Inlet, Outlet, Part};
use bytes::Bytes;
use iroh::endpoint::SendStream;
use std::future::Future;
use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The greatest number of bytes that are handed over at once.
const PIECE_BYTES: usize = 256 << 10;
/// The size of the first piece in bytes. Each full piece makes the next one twice as large.
const FIRST_PIECE_BYTES: usize = 16 << 10;
/// The number of pieces in transit, besides the one that is filled and the one that is read.
const PIECES: usize = 4;

/// The reading half. Must not be used on a thread of the runtime.
pub(super) struct Source {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// Returns emptied pieces to be filled again.
    empty: mpsc::Sender<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
}

impl Source {
    /// Makes a reader of `stream`, and a task that ends when the stream has ended.
    pub(super) fn new(
        stream: impl AsyncRead + Unpin + Send + 'static,
        handle: &Handle,
    ) -> (Source, JoinHandle<()>) {
        let (fill, pieces) = mpsc::channel(PIECES);
        let (empty, emptied) = mpsc::channel(PIECES + 2);
        let task = handle.spawn(take_in(stream, fill, emptied));
        let source = Source {
            pieces,
            empty,
            piece: Vec::new(),
            taken: 0,
        };
        (source, task)
    }
}

async fn take_in(
    mut stream: impl AsyncRead + Unpin,
    pieces: mpsc::Sender<io::Result<Vec<u8>>>,
    mut emptied: mpsc::Receiver<Vec<u8>>,
) {
    // A client that fetches sends little: most of a large piece would stay unused.
    let mut piece = vec![0; FIRST_PIECE_BYTES];
    let mut filled = 0;
    loop {
        tokio::select! {
            // Bytes that have arrived are read first. The piece is handed over when there are no
            // more.
            biased;
            read = stream.read(&mut piece[filled..]), if filled < piece.len() => match read {
                Ok(n @ 1..) => filled += n,
                end => {
                    piece.truncate(filled);
                    // The reader may be gone.
                    if filled > 0 {
                        let _ = pieces.send(Ok(piece)).await;
                    }
                    let _ = pieces.send(end.map(|_| Vec::new())).await;
                    return;
                }
            },
            room = pieces.reserve(), if filled > 0 => {
                let Ok(room) = room else {
                    return;
                };
                let next = emptied.try_recv().unwrap_or_default();
                let mut full = std::mem::replace(&mut piece, next);
                let len = next_len(filled, full.len());
                full.truncate(filled);
                room.send(Ok(full));
                piece.resize(len, 0);
                filled = 0;
            }
        }
    }
}

/// Returns the length of the next piece. It grows once a piece was filled.
fn next_len(filled: usize, len: usize) -> usize {
    if filled == len {
        PIECE_BYTES.min(2 * len)
    } else {
        len
    }
}

impl Source {
    /// Returns the unread bytes of the current piece, and waits for the next piece if there are
    /// none. Returns no bytes at the end.
    fn left(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.piece.len() {
            // An empty piece marks the end.
            let next = self.pieces.blocking_recv();
            let Some(next) = next.transpose()? else {
                return Ok(&[]);
            };
            let emptied = std::mem::replace(&mut self.piece, next);
            self.taken = 0;
            // If the channel is full, there are enough empty pieces.
            let _ = self.empty.try_send(emptied);
        }
        Ok(&self.piece[self.taken..])
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.left()?;
        let n = left.len().min(buf.len());
        buf[..n].copy_from_slice(&left[..n]);
        self.taken += n;
        Ok(n)
    }
}

impl Inlet for Source {
    /// Copies from the piece directly, so that no memory is cleared first.
    fn append(
        &mut self,
        body: &mut Vec<u8>,
        len: usize,
        moved: &mut dyn FnMut(usize),
    ) -> io::Result<bool> {
        while body.len() < len {
            let left = self.left()?;
            let n = left.len().min(len - body.len());
            if n == 0 {
                return Ok(false);
            }
            body.extend_from_slice(&left[..n]);
            moved(n);
            self.taken += n;
        }
        Ok(true)
    }
}

/// The writing half. Must not be used on a thread of the runtime. Dropping it waits until
/// everything was handed to the stream.
pub(super) struct Sink {
    pieces: Option<mpsc::Sender<Bytes>>,
    done: Option<oneshot::Receiver<()>>,
}

impl Sink {
    /// Makes a writer to `stream`.
    pub(super) fn new(stream: impl TakesBytes, handle: &Handle) -> Sink {
        let (pieces, taken) = mpsc::channel(PIECES);
        let (say, done) = oneshot::channel();
        handle.spawn(async move {
            give_out(stream, taken).await;
            // The writer may have stopped waiting.
            let _ = say.send(());
        });
        Sink {
            pieces: Some(pieces),
            done: Some(done),
        }
    }
}

async fn give_out(mut stream: impl TakesBytes, mut pieces: mpsc::Receiver<Bytes>) {
    while let Some(piece) = pieces.recv().await {
        if stream.take(piece).await.is_err() {
            return;
        }
    }
}

/// A stream that accepts bytes without a copy and holds them until the other side has them.
pub(super) trait TakesBytes: Send + 'static {
    /// Accepts all of the bytes.
    fn take(&mut self, bytes: Bytes) -> impl Future<Output = io::Result<()>> + Send;
}

impl TakesBytes for SendStream {
    async fn take(&mut self, bytes: Bytes) -> io::Result<()> {
        Ok(self.write_chunk(bytes).await?)
    }
}

impl TakesBytes for TimedStream<SendStream> {
    async fn take(&mut self, bytes: Bytes) -> io::Result<()> {
        let mut bytes = [bytes];
        let mut left = &mut bytes[..];
        while !left.is_empty() {
            self.stream.write_many_chunks(&mut left).await?;
            self.clock.note_now();
        }
        Ok(())
    }
}

impl Sink {
    fn hand(&self, piece: Bytes) -> io::Result<usize> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let pieces = self.pieces.as_ref().ok_or_else(gone)?;
        let n = piece.len();
        pieces.blocking_send(piece).map(|()| n).map_err(|_| gone())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(PIECE_BYTES);
        self.hand(bytes[..n].to_vec().into())
    }

    /// Nothing to do: written bytes are on their way already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Outlet for Sink {
    fn write_part(&mut self, part: &Part) -> io::Result<usize> {
        self.hand(Bytes::from_owner(part.first(PIECE_BYTES)))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(done) = self.done.take() {
            // This fails if the runtime, and the stream with it, has ended.
            let _ = done.blocking_recv();
        }
    }
}

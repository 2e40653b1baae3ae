//! Streams for threads that know nothing of tokio.
//!
//! A task of the runtime moves the bytes, so that the thread is woken for a piece and not for each
//! packet or window update: waking a thread costs more than either.

use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Bytes handed from one to the other at once, at most.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces on their way, besides the one that is being filled and the one that is being taken.
const PIECES: usize = 4;

/// The reading half. Not to be used on a thread of the runtime.
pub(super) struct Source {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// Where emptied ones go, to be filled again.
    empty: mpsc::Sender<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
}

impl Source {
    /// What comes from `stream`; and a task that is done when that has ended.
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
    let mut piece = vec![0; PIECE_BYTES];
    let mut filled = 0;
    loop {
        tokio::select! {
            // What has come already is taken first; it is handed on when no more is there.
            biased;
            read = stream.read(&mut piece[filled..]), if filled < PIECE_BYTES => match read {
                Ok(n @ 1..) => filled += n,
                end => {
                    piece.truncate(filled);
                    // Nobody may be left to hear it.
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
                full.truncate(filled);
                room.send(Ok(full));
                piece.resize(PIECE_BYTES, 0);
                filled = 0;
            }
        }
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            // An empty one is the end.
            let Some(next) = self.pieces.blocking_recv() else {
                return Ok(0);
            };
            let emptied = std::mem::replace(&mut self.piece, next?);
            self.taken = 0;
            // There are enough of them if there is no room.
            let _ = self.empty.try_send(emptied);
        }
        let left = &self.piece[self.taken..];
        let n = left.len().min(buf.len());
        buf[..n].copy_from_slice(&left[..n]);
        self.taken += n;
        Ok(n)
    }
}

/// The writing half. Not to be used on a thread of the runtime. Dropping it waits until all has
/// been handed to the stream.
pub(super) struct Sink {
    pieces: Option<mpsc::Sender<Vec<u8>>>,
    done: Option<oneshot::Receiver<()>>,
}

impl Sink {
    /// Where bytes for `stream` go.
    pub(super) fn new(stream: impl AsyncWrite + Unpin + Send + 'static, handle: &Handle) -> Sink {
        let (pieces, taken) = mpsc::channel(PIECES);
        let (say, done) = oneshot::channel();
        handle.spawn(async move {
            give_out(stream, taken).await;
            // Whoever wrote may have stopped waiting.
            let _ = say.send(());
        });
        Sink {
            pieces: Some(pieces),
            done: Some(done),
        }
    }
}

async fn give_out(mut stream: impl AsyncWrite + Unpin, mut pieces: mpsc::Receiver<Vec<u8>>) {
    while let Some(piece) = pieces.recv().await {
        if stream.write_all(&piece).await.is_err() {
            return;
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let pieces = self.pieces.as_ref().ok_or_else(gone)?;
        let n = bytes.len().min(PIECE_BYTES);
        let sent = pieces.blocking_send(bytes[..n].to_vec());
        sent.map(|()| n).map_err(|_| gone())
    }

    /// What was written is on its way already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(done) = self.done.take() {
            // It fails where the runtime has ended, and the stream with it.
            let _ = done.blocking_recv();
        }
    }
}

//! The connections of the server: what each of them does, which one makes room for the next, and the end of those whose
//! readers stop reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// How long a reader may take nothing of what is sent to it. A browser asks again for the rest of a film that was paused.
pub const STALL_TIME: Duration = Duration::from_secs(30);
/// A connection on which nothing has moved for this long makes room for another at once.
pub const REST_TIME: Duration = Duration::from_millis(500);

/// What a connection does.
pub struct Activity {
    /// Whether it has shown the cookie.
    is_known: AtomicBool,
    /// Requests of it whose answers are being made.
    at_work: AtomicUsize,
    begun: Instant,
    /// When bytes moved the last time, in milliseconds since `begun`.
    moved: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            is_known: AtomicBool::new(false),
            at_work: AtomicUsize::new(0),
            begun: Instant::now(),
            moved: AtomicU64::new(0),
        }
    }
}

impl Activity {
    /// Notes that the connection is one of the user's.
    pub fn has_shown_the_cookie(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Notes that an answer is being made, until the returned value is dropped.
    pub fn begin_work(&self) -> AtWork<'_> {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(self)
    }

    fn has_moved(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(now, Ordering::Relaxed);
    }

    /// Returns for how long nothing has moved. `None` while an answer is being made.
    fn rest(&self) -> Option<Duration> {
        let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
        let is_at_work = self.at_work.load(Ordering::Relaxed) > 0;
        (!is_at_work).then(|| self.begun.elapsed().saturating_sub(moved))
    }
}

/// A request whose answer is being made.
pub struct AtWork<'a>(&'a Activity);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.has_moved();
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All connections, the oldest first.
#[derive(Default)]
pub struct Guests(Vec<Guest>);

struct Guest {
    task: JoinHandle<()>,
    activity: Arc<Activity>,
}

impl Guests {
    /// Adds a connection.
    pub fn add(&mut self, task: JoinHandle<()>, activity: Arc<Activity>) {
        self.0.push(Guest { task, activity });
    }

    /// Ends one connection: the oldest that has not shown the cookie, as it may be one of many that only take the places;
    /// else the one on which nothing has moved for the longest time, if that is `least`. None ends while a request of it
    /// is being answered.
    pub fn make_room(&mut self, least: Duration) {
        self.0.retain(|guest| !guest.task.is_finished());
        if let Some(at) = chosen(self.0.iter().map(|guest| &*guest.activity), least) {
            self.0.remove(at).task.abort();
        }
    }
}

/// Returns the place of the connection that makes room.
fn chosen<'a>(all: impl Iterator<Item = &'a Activity> + Clone, least: Duration) -> Option<usize> {
    let stranger = |one: &Activity| !one.is_known.load(Ordering::Relaxed);
    if let Some(at) = all.clone().position(stranger) {
        return Some(at);
    }
    let rests = all
        .enumerate()
        .filter_map(|(at, one)| Some((one.rest()?, at)));
    let resting = rests.filter(|(rest, _)| *rest >= least);
    resting.max().map(|(_, at)| at)
}

/// A connection whose writes fail once its reader has taken nothing for [`STALL_TIME`].
pub struct WatchedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
    /// Ends while a write waits.
    patience: Option<Pin<Box<Sleep>>>,
}

impl WatchedStream {
    /// Watches a connection.
    pub fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            patience: None,
        }
    }

    /// Passes on what a write has come to. If it waits, it waits no longer than the reader may rest.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            self.activity.has_moved();
            return written;
        }
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIME)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        self.activity.has_moved();
        Poll::Ready(read)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(is_known: bool, at_work: usize, age: u64, moved: u64) -> Activity {
        Activity {
            is_known: AtomicBool::new(is_known),
            at_work: AtomicUsize::new(at_work),
            begun: Instant::now()
                .checked_sub(Duration::from_secs(age))
                .expect("a clock that has run for a while"),
            moved: AtomicU64::new(moved * 1000),
        }
    }

    fn choose(all: &[Activity]) -> Option<usize> {
        chosen(all.iter(), REST_TIME)
    }

    #[test]
    fn the_oldest_stranger_goes_first_and_then_who_rests_longest() {
        let known_rests = || one(true, 0, 20, 5);
        let known_rests_longer = || one(true, 0, 20, 2);
        let known_works = || one(true, 1, 20, 0);
        let known_reads_on = || one(true, 0, 20, 20);
        let stranger = || one(false, 0, 1, 1);
        assert_eq!(
            choose(&[known_rests_longer(), stranger(), stranger()]),
            Some(1)
        );
        assert_eq!(
            choose(&[known_works(), known_rests(), known_rests_longer()]),
            Some(2)
        );
        assert_eq!(choose(&[known_works(), known_reads_on()]), None);
        assert_eq!(choose(&[]), None);
        // Whoever has waited for a while gets the place of somebody who reads on.
        let all = [known_works(), known_reads_on()];
        assert_eq!(chosen(all.iter(), Duration::ZERO), Some(1));
    }
}

//! Accepting peers: which keys may connect, how many at once, and for how long.
//!
//! The server looks up a peer's key on the allow-list before it reads a byte of the peer's stream.
//! If the key is not on the list, the server closes the connection and does nothing else. Limits:
//! docs/trust.md, "Limits". This module knows nothing of repositories: [`Service`] decides and
//! answers.

use super::closing;
use super::node::{Node, peer_key};
use dmv_core::repo::{Access, PeerKey};
use iroh::endpoint::{Incoming, RecvStream, SendStream, VarInt};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// The limits on connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Handshakes at once. From half of this number on, a peer must first prove its address.
    pub handshakes: usize,
    /// Peers at once.
    pub visitors: usize,
    /// Connections of one key at once. Four times as many may wait for a place.
    pub of_one_key: usize,
    /// How long a peer may wait for a place.
    pub seat_time: Duration,
    /// How long the handshake may take.
    pub handshake_time: Duration,
    /// How long the first byte of the stream may take.
    pub first_byte_time: Duration,
    /// How long a connection may be without a byte in either direction.
    pub idle_time: Duration,
    /// How often the allow-list is read again for connected peers.
    pub recheck_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            handshakes: 128,
            visitors: 256,
            of_one_key: 16,
            // Shorter than the patience of the waiting peer.
            seat_time: Duration::from_secs(20),
            handshake_time: Duration::from_secs(10),
            first_byte_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(300),
            recheck_time: Duration::from_secs(2),
        }
    }
}

/// Decides which keys may connect, and answers peers.
pub trait Service: Send + Sync + 'static {
    /// Returns what a key may do; `None`: nothing. May block.
    fn access(&self, key: &PeerKey) -> Option<Access>;

    /// Called for each peer that was refused.
    fn turned_away(&self, _key: &PeerKey) {}

    /// Serves a connected peer until the session is over.
    fn answer(
        self: Arc<Self>,
        key: PeerKey,
        access: Access,
        incoming: TimedStream<RecvStream>,
        outgoing: TimedStream<SendStream>,
    ) -> impl Future<Output = ()> + Send;
}

/// How much was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServeReport {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of connections with unknown keys.
    pub turned_away: u64,
}

/// Answers peers until `stop` ends. Then it closes each connection with the code "the process
/// ends".
pub async fn serve(
    node: &Node,
    service: Arc<impl Service>,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> ServeReport {
    let (stopping, stopped) = watch::channel(false);
    let house = Arc::new(House {
        service,
        handshakes: Arc::new(Semaphore::new(limits.handshakes)),
        seats: Arc::new(Semaphore::new(limits.visitors)),
        visitors: Mutex::default(),
        sessions: AtomicU64::new(0),
        turned_away: AtomicU64::new(0),
        limits,
    });
    let mut visits = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = visits.join_next() => {}
            incoming = node.endpoint.accept() => match incoming {
                Some(incoming) => house.clone().receive(incoming, &mut visits, &stopped),
                None => break,
            },
        }
    }
    // This fails if no peer is connected.
    let _ = stopping.send(true);
    while visits.join_next().await.is_some() {}
    ServeReport {
        sessions: house.sessions.load(Ordering::Relaxed),
        turned_away: house.turned_away.load(Ordering::Relaxed),
    }
}

struct House<S> {
    service: Arc<S>,
    limits: Limits,
    handshakes: Arc<Semaphore>,
    /// The places for all peers.
    seats: Arc<Semaphore>,
    /// The places of each key, and the number of its connections that are open or wait.
    visitors: Mutex<HashMap<PeerKey, (Arc<Semaphore>, usize)>>,
    sessions: AtomicU64,
    turned_away: AtomicU64,
}

type StopSignal = watch::Receiver<bool>;

/// Waits until serving is to stop.
async fn told(stopped: &mut StopSignal) {
    // This fails only after serving has stopped.
    let _ = stopped.wait_for(|stop| *stop).await;
}

impl<S: Service> House<S> {
    /// Begins a handshake, if there is room for one more.
    fn receive(
        self: Arc<Self>,
        incoming: Incoming,
        visits: &mut JoinSet<()>,
        stopped: &StopSignal,
    ) {
        let is_crowded = self.handshakes.available_permits() <= self.limits.handshakes / 2;
        if is_crowded && !incoming.remote_addr_validated() {
            // The Retry packet is smaller than the packet that it answers, so it is useless for
            // attacks on others.
            let _ = incoming.retry();
            return;
        }
        let Ok(permit) = self.handshakes.clone().try_acquire_owned() else {
            incoming.ignore();
            return;
        };
        let stopped = stopped.clone();
        visits.spawn(async move {
            let Ok(accepting) = incoming.accept() else {
                return;
            };
            let done = tokio::time::timeout(self.limits.handshake_time, accepting).await;
            let Ok(Ok(conn)) = done else {
                return;
            };
            let code = self.clone().visit(&conn, permit, stopped).await;
            conn.close(VarInt::from_u32(code), b"");
        });
    }

    /// Serves a peer, or refuses it. Returns the code with which to close the connection.
    async fn visit(
        self: Arc<Self>,
        conn: &iroh::endpoint::Connection,
        handshake: OwnedSemaphorePermit,
        mut stopped: StopSignal,
    ) -> u32 {
        let key = peer_key(conn.remote_id());
        let Some(access) = self.ask(key).await else {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            self.service.turned_away(&key);
            return closing::NOT_TRUSTED;
        };
        drop(handshake);
        let Some(waiter) = Waiter::come(&self, key) else {
            return closing::BUSY;
        };
        let _seat = tokio::select! {
            () = told(&mut stopped) => return closing::STOPPING,
            _ = conn.closed() => return closing::DONE,
            seat = tokio::time::timeout(self.limits.seat_time, waiter.sit()) => match seat {
                Ok(Some(seat)) => seat,
                _ => return closing::BUSY,
            },
        };
        let first = tokio::time::timeout(self.limits.first_byte_time, conn.accept_bi());
        let (send, recv) = tokio::select! {
            () = told(&mut stopped) => return closing::STOPPING,
            first = first => match first {
                Ok(Ok(stream)) => stream,
                _ => return closing::IDLE,
            },
        };
        self.sessions.fetch_add(1, Ordering::Relaxed);
        let clock = Arc::new(Clock::start());
        let mut recheck = tokio::time::interval(self.limits.recheck_time);
        // The first tick comes at once, and the list was read just now.
        recheck.reset();
        let (incoming, outgoing) = (
            TimedStream::new(recv, &clock),
            TimedStream::new(send, &clock),
        );
        let answer = self.service.clone().answer(key, access, incoming, outgoing);
        tokio::pin!(answer);
        loop {
            tokio::select! {
                () = &mut answer => break,
                () = told(&mut stopped) => return closing::STOPPING,
                _ = recheck.tick() => {
                    if self.ask(key).await.is_none_or(|now| now < access) {
                        return closing::NOT_TRUSTED;
                    }
                    if clock.idle() > self.limits.idle_time {
                        return closing::IDLE;
                    }
                }
            }
        }
        // The last bytes are in transit. The other side closes the connection when it has them.
        let _ = tokio::time::timeout(self.limits.first_byte_time, conn.closed()).await;
        closing::DONE
    }

    async fn ask(self: &Arc<Self>, key: PeerKey) -> Option<Access> {
        let house = self.clone();
        let asked = tokio::task::spawn_blocking(move || house.service.access(&key));
        // If the lookup panics, the peer is refused.
        asked.await.ok().flatten()
    }
}

/// How many connections may wait for each place of a key or of all keys.
const WAITING: usize = 4;

/// A connection that is open or waits for a place. It counts until it is dropped.
struct Waiter<S: Service> {
    house: Arc<House<S>>,
    key: PeerKey,
    own: Arc<Semaphore>,
}

impl<S: Service> Waiter<S> {
    /// Counts a new connection. Returns `None` if too many wait already.
    fn come(house: &Arc<House<S>>, key: PeerKey) -> Option<Waiter<S>> {
        let mut visitors = lock(&house.visitors);
        let limits = &house.limits;
        let all: usize = visitors.values().map(|(_, here)| here).sum();
        let room = || Arc::new(Semaphore::new(limits.of_one_key));
        let here = visitors.get(&key).map_or(0, |(_, here)| *here);
        if all >= limits.visitors * (1 + WAITING) || here >= limits.of_one_key * (1 + WAITING) {
            return None;
        }
        let (own, here) = visitors.entry(key).or_insert_with(|| (room(), 0));
        *here += 1;
        let (own, house) = (own.clone(), house.clone());
        drop(visitors);
        Some(Waiter { house, key, own })
    }

    /// Waits for a place, first come, first served. A connection takes one of its key's places
    /// first. So a key whose places are all used takes none from others.
    async fn sit(self) -> Option<Seat<S>> {
        let own = self.own.clone().acquire_owned().await.ok()?;
        let all = self.house.seats.clone().acquire_owned().await.ok()?;
        Some(Seat {
            _places: [own, all],
            _waiter: self,
        })
    }
}

impl<S: Service> Drop for Waiter<S> {
    fn drop(&mut self) {
        let mut visitors = lock(&self.house.visitors);
        if let Some((_, here)) = visitors.get_mut(&self.key) {
            *here -= 1;
            if *here == 0 {
                visitors.remove(&self.key);
            }
        }
    }
}

/// A place. It is free again when this is dropped.
struct Seat<S: Service> {
    _places: [OwnedSemaphorePermit; 2],
    _waiter: Waiter<S>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// When a byte last moved on either stream of a connection.
pub(super) struct Clock {
    start: Instant,
    last_millis: AtomicU64,
}

impl Clock {
    fn start() -> Clock {
        Clock {
            start: Instant::now(),
            last_millis: AtomicU64::new(0),
        }
    }

    fn now_millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn idle(&self) -> Duration {
        let last = self.last_millis.load(Ordering::Relaxed);
        Duration::from_millis(self.now_millis().saturating_sub(last))
    }

    /// Records the time if `moved` is ready.
    fn note<T>(&self, moved: Poll<T>) -> Poll<T> {
        if moved.is_ready() {
            self.note_now();
        }
        moved
    }

    /// Records that a byte has moved.
    pub(super) fn note_now(&self) {
        self.last_millis.store(self.now_millis(), Ordering::Relaxed);
    }
}

/// One direction of a peer's stream. Each byte that moves resets the idle time.
pub struct TimedStream<S> {
    pub(super) stream: S,
    pub(super) clock: Arc<Clock>,
}

impl<S> TimedStream<S> {
    fn new(stream: S, clock: &Arc<Clock>) -> TimedStream<S> {
        let clock = clock.clone();
        TimedStream { stream, clock }
    }
}

impl AsyncRead for TimedStream<RecvStream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buf);
        self.clock.note(polled)
    }
}

impl AsyncWrite for TimedStream<SendStream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, buf);
        self.clock.note(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}

//! Two or more nodes on one machine, and hostile ones.

use super::*;
use crate::identity::DeviceKey;
use dmv_core::repo::Access;
use iroh::endpoint::{RecvStream, SendStream};
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Join};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PROTOCOL: &[u8] = b"dmv-test/1";

/// Runs a test that must not hang.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let limited = async { tokio::time::timeout(Duration::from_secs(60), test).await };
    let done = runtime.block_on(limited).expect("the test ends");
    runtime.shutdown_background();
    done
}

async fn node(key: &DeviceKey) -> Node {
    let options = NodeOptions {
        listen: Some(ListenAddress::loopback()),
        ..Default::default()
    };
    Node::bind(key, &[PROTOCOL], &options)
        .await
        .expect("a socket")
}

/// A service that sends back what it receives, and counts the bytes that it reads.
#[derive(Default)]
struct Echo {
    allowed: Mutex<HashMap<PeerKey, Access>>,
    bytes: AtomicUsize,
    turned_away: Mutex<Vec<PeerKey>>,
}

impl Service for Echo {
    fn access(&self, key: &PeerKey) -> Option<Access> {
        self.allowed.lock().expect("it is whole").get(key).copied()
    }

    fn turned_away(&self, key: &PeerKey) {
        self.turned_away.lock().expect("it is whole").push(*key);
    }

    async fn answer(
        self: Arc<Self>,
        _key: PeerKey,
        access: Access,
        incoming: TimedStream<RecvStream>,
        outgoing: TimedStream<SendStream>,
    ) {
        let mut stream = tokio::io::join(incoming, outgoing);
        let mut buf = vec![0; 4096];
        let hello = format!("{}:", access.word());
        if stream.write_all(hello.as_bytes()).await.is_err() {
            return;
        }
        while let Ok(n @ 1..) = stream.read(&mut buf).await {
            self.bytes.fetch_add(n, Ordering::Relaxed);
            if stream.write_all(&buf[..n]).await.is_err() {
                return;
            }
        }
        let _ = stream.shutdown().await;
    }
}

/// A running server.
struct Server {
    key: PeerKey,
    echo: Arc<Echo>,
    address: PeerAddress,
    stop: oneshot::Sender<()>,
    task: JoinHandle<ServeReport>,
}

impl Server {
    async fn start(limits: Limits) -> Server {
        let node = node(&DeviceKey::generate()).await;
        let place = node.addresses()[0].to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let echo = Arc::new(Echo::default());
        let (key, service) = (node.key(), echo.clone());
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let served = serve(&node, service, limits, stopped).await;
            node.close().await;
            served
        });
        Server {
            key,
            echo,
            address: PeerAddress {
                key,
                place: Some(place),
            },
            stop,
            task,
        }
    }

    fn allow(&self, key: &DeviceKey, access: Access) {
        let mut allowed = self.echo.allowed.lock().expect("it is whole");
        allowed.insert(key.public(), access);
    }

    fn forbid(&self, key: &DeviceKey) {
        let mut allowed = self.echo.allowed.lock().expect("it is whole");
        allowed.remove(&key.public());
    }

    async fn stop(self) -> ServeReport {
        let _ = self.stop.send(());
        self.task.await.expect("it ends without a panic")
    }
}

fn hasty() -> Limits {
    Limits {
        first_byte_time: Duration::from_millis(300),
        idle_time: Duration::from_millis(300),
        recheck_time: Duration::from_millis(50),
        ..Default::default()
    }
}

async fn open(connection: &Connection) -> Result<Join<RecvStream, SendStream>, QuicError> {
    let (send, recv) = connection.open().await?;
    Ok(tokio::io::join(recv, send))
}

/// Sends `text` and returns everything that comes back.
async fn talk(connection: &Connection, text: &[u8]) -> Result<Vec<u8>, QuicError> {
    let mut stream = open(connection).await?;
    let mut back = Vec::new();
    let done = async {
        stream.write_all(text).await?;
        stream.shutdown().await?;
        stream.read_to_end(&mut back).await
    };
    match done.await {
        Ok(_) => Ok(back),
        Err(e) => Err(connection.why_ended().unwrap_or_else(|| panic!("{e}"))),
    }
}

#[test]
fn a_peer_on_the_list_is_answered() {
    run(async {
        let server = Server::start(Limits::default()).await;
        let key = DeviceKey::generate();
        server.allow(&key, Access::Write);
        let client = node(&key).await;
        let connection = client
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        assert_eq!(connection.key(), server.key);
        let text = vec![7; 1 << 20];
        let back = talk(&connection, &text).await.expect("an echo");
        assert_eq!(&back[..6], b"write:");
        assert_eq!(&back[6..], text);
        connection.finish();
        client.close().await;
        let served = server.stop().await;
        assert_eq!((served.sessions, served.turned_away), (1, 0));
    });
}

#[test]
fn an_unknown_key_gets_nothing_and_nothing_of_it_is_read() {
    run(async {
        let server = Server::start(Limits::default()).await;
        let stranger = DeviceKey::generate();
        let client = node(&stranger).await;
        let connection = client.dial(&server.address, PROTOCOL).await;
        // Our half of the handshake may end before the server has looked up our key.
        let refused = match connection {
            Ok(connection) => talk(&connection, b"let me in").await.err(),
            Err(e) => Some(e),
        };
        assert!(
            matches!(refused, Some(QuicError::NotTrusted { .. })),
            "{refused:?}"
        );
        client.close().await;
        assert_eq!(server.echo.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(
            *server.echo.turned_away.lock().expect("whole"),
            [stranger.public()]
        );
        let served = server.stop().await;
        assert_eq!((served.sessions, served.turned_away), (0, 1));
    });
}

#[test]
fn whoever_answers_has_to_have_the_key() {
    run(async {
        let server = Server::start(Limits::default()).await;
        let key = DeviceKey::generate();
        server.allow(&key, Access::Write);
        let client = node(&key).await;
        let mut wrong = server.address.clone();
        wrong.key = DeviceKey::generate().public();
        let refused = client.dial(&wrong, PROTOCOL).await.err();
        assert!(
            matches!(refused, Some(QuicError::WrongKey { .. })),
            "{refused:?}"
        );
        let mut own = server.address.clone();
        own.key = client.key();
        let refused = client.dial(&own, PROTOCOL).await.err();
        assert!(matches!(refused, Some(QuicError::Myself(_))), "{refused:?}");
        client.close().await;
        server.stop().await;
    });
}

#[test]
fn another_protocol_is_no_conversation() {
    run(async {
        let server = Server::start(Limits::default()).await;
        let client = node(&DeviceKey::generate()).await;
        let refused = client.dial(&server.address, b"http/1.1").await.err();
        assert!(
            matches!(refused, Some(QuicError::Unreachable { .. })),
            "{refused:?}"
        );
        client.close().await;
        assert_eq!(server.stop().await.sessions, 0);
    });
}

#[test]
fn who_says_nothing_is_sent_away() {
    run(async {
        let server = Server::start(hasty()).await;
        let key = DeviceKey::generate();
        server.allow(&key, Access::Read);
        let client = node(&key).await;
        let silent = client
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        let reason = silent.conn.closed().await;
        assert!(reason.to_string().contains("closed by peer"), "{reason}");

        let stalls = client
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        let mut stream = open(&stalls).await.expect("a stream");
        stream.write_all(b"x").await.expect("it is sent");
        stalls.conn.closed().await;
        client.close().await;
        assert_eq!(server.stop().await.sessions, 1);
    });
}

#[test]
fn a_peer_that_is_no_longer_trusted_is_cut_off() {
    run(async {
        let limits = Limits {
            idle_time: Duration::from_secs(100),
            ..hasty()
        };
        let server = Server::start(limits).await;
        let key = DeviceKey::generate();
        server.allow(&key, Access::Write);
        let client = node(&key).await;
        let connection = client
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        let mut stream = open(&connection).await.expect("a stream");
        stream.write_all(b"x").await.expect("it is sent");
        server.forbid(&key);
        connection.conn.closed().await;
        let why = connection.why_ended();
        assert!(matches!(why, Some(QuicError::NotTrusted { .. })), "{why:?}");
        client.close().await;
        server.stop().await;
    });
}

#[test]
fn whoever_comes_to_a_full_house_waits_for_a_turn() {
    run(async {
        let limits = Limits {
            of_one_key: 1,
            ..Default::default()
        };
        let server = Server::start(limits).await;
        let key = DeviceKey::generate();
        server.allow(&key, Access::Read);
        let (first, second) = (node(&key).await, node(&key).await);
        let held = first
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        let mut stream = open(&held).await.expect("a stream");
        stream.write_all(b"x").await.expect("it is sent");
        stream.read_exact(&mut [0; 5]).await.expect("it is in");
        let waiting = second
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        let talk = talk(&waiting, b"x");
        tokio::pin!(talk);
        let early = tokio::time::timeout(Duration::from_millis(100), &mut talk).await;
        assert!(early.is_err(), "one is in, and it is not this one");
        held.finish();
        talk.await.expect("its turn comes when the first has left");
        server.stop().await;
    });
}

#[test]
fn one_key_cannot_take_all_the_seats() {
    run(async {
        let limits = Limits {
            of_one_key: 2,
            visitors: 3,
            seat_time: Duration::from_millis(200),
            ..Default::default()
        };
        let server = Server::start(limits).await;
        let (greedy, other, late) = (
            DeviceKey::generate(),
            DeviceKey::generate(),
            DeviceKey::generate(),
        );
        for key in [&greedy, &other, &late] {
            server.allow(key, Access::Read);
        }
        let clients = [node(&greedy).await, node(&greedy).await, node(&other).await];
        let mut held = Vec::new();
        for client in &clients {
            let connection = client
                .dial(&server.address, PROTOCOL)
                .await
                .expect("an answer");
            let mut stream = open(&connection).await.expect("a stream");
            stream.write_all(b"x").await.expect("it is sent");
            stream.read_exact(&mut [0; 5]).await.expect("it is in");
            held.push((connection, stream));
        }
        for key in [&greedy, &late] {
            let client = node(key).await;
            let refused = match client.dial(&server.address, PROTOCOL).await {
                Ok(connection) => talk(&connection, b"x").await.err(),
                Err(e) => Some(e),
            };
            assert!(
                matches!(refused, Some(QuicError::Busy { .. })),
                "{refused:?}"
            );
            client.close().await;
        }
        // A place that becomes free can be used again.
        let (connection, _) = held.pop().expect("three are held");
        connection.finish();
        let client = node(&late).await;
        for round in 0.. {
            let connection = client
                .dial(&server.address, PROTOCOL)
                .await
                .expect("an answer");
            match talk(&connection, b"x").await {
                Ok(_) => break,
                Err(QuicError::Busy { .. }) if round < 50 => tokio::task::yield_now().await,
                Err(e) => panic!("{e}"),
            }
        }
        server.stop().await;
    });
}

#[test]
fn stopping_tells_those_who_are_there() {
    run(async {
        let server = Server::start(Limits::default()).await;
        let key = DeviceKey::generate();
        server.allow(&key, Access::Read);
        let client = node(&key).await;
        let connection = client
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        let mut stream = open(&connection).await.expect("a stream");
        stream.write_all(b"x").await.expect("it is sent");
        stream.read_exact(&mut [0; 5]).await.expect("it is in");
        assert_eq!(server.stop().await.sessions, 1);
        connection.conn.closed().await;
        let why = connection.why_ended();
        assert!(matches!(why, Some(QuicError::Stopped { .. })), "{why:?}");
        client.close().await;
    });
}

#[test]
fn nobody_at_an_address_is_said_to_be_unreachable() {
    run(async {
        let client = node(&DeviceKey::generate()).await;
        let key = DeviceKey::generate().public();
        let nowhere = PeerAddress { key, place: None };
        let refused = client.dial(&nowhere, PROTOCOL).await.err();
        assert!(
            matches!(refused, Some(QuicError::Unreachable { .. })),
            "{refused:?}"
        );
        client.close().await;
    });
}

/// After bytes that are not QUIC, many unknown keys, and half a handshake, the server still serves
/// the next peer.
#[test]
fn garbage_and_strangers_leave_no_trace() {
    run(async {
        let server = Server::start(hasty()).await;
        let place = server.address.place.clone().expect("it has one");
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0")
            .await
            .expect("a socket");
        let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
        for n in 0..2000_usize {
            let mut packet = vec![0; n % 1400];
            for byte in &mut packet {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = seed.to_le_bytes()[7];
            }
            if let (Some(first), true) = (packet.first_mut(), n % 2 == 0) {
                // These bits look like the first packet of QUIC.
                *first |= 0xc0;
            }
            let _ = socket.send_to(&packet, &place).await;
        }
        for _ in 0..20 {
            let client = node(&DeviceKey::generate()).await;
            if let Ok(connection) = client.dial(&server.address, PROTOCOL).await {
                assert!(talk(&connection, &[0; 100_000]).await.is_err());
            }
            drop(client);
        }
        let key = DeviceKey::generate();
        server.allow(&key, Access::Read);
        let client = node(&key).await;
        let connection = client
            .dial(&server.address, PROTOCOL)
            .await
            .expect("an answer");
        assert_eq!(talk(&connection, b"x").await.expect("an echo"), b"read:x");
        assert_eq!(server.echo.bytes.load(Ordering::Relaxed), 1);
        let served = server.stop().await;
        assert_eq!(served.sessions, 1);
        assert_eq!(served.turned_away, 20);
    });
}

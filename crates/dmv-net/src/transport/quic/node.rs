//! This end of all connections: a socket with the device's key, from which it dials peers and on
//! which it accepts them.

use super::{ListenAddress, PeerAddress, QuicError, RelayState, closing, lan, relay};
use crate::identity::DeviceKey;
use dmv_core::repo::PeerKey;
use iroh::endpoint::{
    ConnectError, ConnectingError, ConnectionError, IdleTimeout, QuicTransportConfig, RecvStream,
    SendStream, VarInt, presets,
};
use iroh::{Endpoint, EndpointAddr, PublicKey, RelayUrl, TransportAddr};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a peer at a known address may take to answer.
const DIAL_TIME: Duration = Duration::from_secs(10);
/// How long to wait for a peer's announcement. Peers announce themselves at least every second.
const FIND_TIME: Duration = Duration::from_secs(5);
/// The same, if there is a relay to try next.
const FIND_TIME_BEFORE_RELAY: Duration = Duration::from_millis(1500);
/// How long closing may take before the process goes on.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a path may be silent before it counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// The interval of keep-alive packets. It is shorter than the time for which home routers remember
/// a mapping.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How many streams a peer may have open at once. A session needs one.
const MAX_STREAMS: u32 = 2;
/// Bytes of a stream that may be in transit. With a round trip of 100 ms this gives 20 MB/s. With
/// 2048 packets or more in transit, the QUIC library ends connections on fast networks
/// (docs/decisions/security.md).
const WINDOW_BYTES: u32 = 2 << 20;

/// The settings of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Where to listen. `None`: the system chooses; enough to dial.
    pub listen: Option<ListenAddress>,
    /// The relays that the user has set, as URLs.
    pub relays: Vec<String>,
}

/// This end of all connections.
#[derive(Clone)]
pub struct Node {
    pub(super) endpoint: Endpoint,
    pub(super) relays: Vec<RelayUrl>,
}

impl Node {
    /// Opens the sockets. Fails if the system refuses, or if a relay's URL is malformed. Must run
    /// inside a tokio runtime.
    pub async fn bind(
        key: &DeviceKey,
        protocols: &[&[u8]],
        options: &NodeOptions,
    ) -> Result<Node, QuicError> {
        let relays = relay::parse(&options.relays)?;
        let mut builder = Endpoint::builder(presets::Minimal)
            .secret_key(key.secret().clone())
            .alpns(protocols.iter().map(|p| p.to_vec()).collect())
            .relay_mode(relay::mode(&relays))
            .dns_resolver(relay::resolver())
            .transport_config(transport_config());
        if let Some(ListenAddress(sockets)) = &options.listen {
            builder = builder.clear_ip_transports();
            for at in sockets {
                let taken = builder.bind_addr(*at);
                builder = taken.map_err(|e| QuicError::Local(e.to_string()))?;
            }
        }
        let endpoint = builder.bind().await.map_err(|e| QuicError::Bind {
            at: where_to(options.listen.as_ref()),
            source: std::io::Error::other(e.to_string()),
        })?;
        Ok(Node { endpoint, relays })
    }

    /// Returns this device's key.
    pub fn key(&self) -> PeerKey {
        peer_key(self.endpoint.id())
    }

    /// Returns the addresses where peers can reach us. If we listen on every address, these are the
    /// machine's own addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.endpoint.bound_sockets();
        let mut out: Vec<SocketAddr> = self.endpoint.addr().ip_addrs().copied().collect();
        out.extend(bound.iter().filter(|at| !at.ip().is_unspecified()));
        if out.is_empty() {
            out = bound;
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Returns the same as addresses that peers can use. Adds one without a place if a relay keeps
    /// a connection to us.
    pub fn own_addresses(&self) -> Vec<PeerAddress> {
        let key = self.key();
        let at = |place: SocketAddr| PeerAddress {
            key,
            place: Some(place.to_string()),
        };
        let mut out: Vec<PeerAddress> = self.addresses().into_iter().map(at).collect();
        if self.relay_state() == RelayState::Reached {
            out.push(PeerAddress { key, place: None });
        }
        out
    }

    /// Dials a peer. When this returns, the peer has proved that it has the key in `address`.
    pub async fn dial(
        &self,
        address: &PeerAddress,
        protocol: &[u8],
    ) -> Result<Connection, QuicError> {
        let unreachable = |why: &str| QuicError::Unreachable {
            peer: address.to_string(),
            why: why.to_owned(),
        };
        if address.key == self.key() {
            return Err(QuicError::Myself(address.key));
        }
        let at = match &address.place {
            Some(place) => resolve(place).await.map_err(|e| unreachable(&e))?,
            None => self.find(&address.key).await?,
        };
        if at.is_empty() && self.relays.is_empty() {
            return Err(unreachable("it was not found on the local network"));
        }
        self.dial_at(address, &at, protocol).await
    }

    /// Looks for a peer on the local network. Returns no address if it is not there. If there is a
    /// relay, the search is shorter: a near peer should be reached without the relay.
    async fn find(&self, key: &PeerKey) -> Result<Vec<SocketAddr>, QuicError> {
        if self.relays.is_empty() {
            return lan::find(self, key, FIND_TIME).await;
        }
        // With a relay, a network that blocks announcements is no failure.
        let found = lan::find(self, key, FIND_TIME_BEFORE_RELAY).await;
        Ok(found.unwrap_or_default())
    }

    /// Dials a peer that may be at any of these addresses, or at a relay.
    pub(super) async fn dial_at(
        &self,
        address: &PeerAddress,
        at: &[SocketAddr],
        protocol: &[u8],
    ) -> Result<Connection, QuicError> {
        let peer = address.to_string();
        let unreachable = |why: &str| QuicError::Unreachable {
            peer: peer.clone(),
            why: why.to_owned(),
        };
        let id = PublicKey::from_bytes(address.key.as_bytes())
            .map_err(|_| unreachable("this is not a valid key"))?;
        let places = at.iter().copied().map(TransportAddr::Ip);
        let relays = self.relays.iter().cloned().map(TransportAddr::Relay);
        let target = EndpointAddr::from_parts(id, places.chain(relays));
        let dialling = self.endpoint.connect(target, protocol);
        match tokio::time::timeout(DIAL_TIME, dialling).await {
            Err(_) => Err(self.without_answer(peer)),
            Ok(Err(e)) => Err(dial_error(&peer, &e)),
            Ok(Ok(conn)) => Ok(Connection { conn, peer }),
        }
    }

    /// Closes all connections and the sockets.
    pub async fn close(self) {
        // After the timeout, peers notice the silence.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.endpoint.close()).await;
    }
}

/// A connection to a peer that has proved its key.
#[derive(Clone)]
pub struct Connection {
    pub(super) conn: iroh::endpoint::Connection,
    peer: String,
}

impl Connection {
    /// Opens a stream. The peer notices it with the first byte.
    pub async fn open(&self) -> Result<(SendStream, RecvStream), QuicError> {
        match self.conn.open_bi().await {
            Ok(stream) => Ok(stream),
            Err(e) => Err(ended(&self.peer, &e)),
        }
    }

    /// Wraps a connection that a peer has dialled.
    pub(super) fn accepted(conn: iroh::endpoint::Connection) -> Connection {
        let (key, place) = (peer_key(conn.remote_id()), None);
        let peer = PeerAddress { key, place }.to_string();
        Connection { conn, peer }
    }

    /// Returns whether this end dialled.
    pub(super) fn was_dialled(&self) -> bool {
        self.conn.side() == iroh::endpoint::Side::Client
    }

    /// Returns the key that the peer has proved.
    pub fn key(&self) -> PeerKey {
        peer_key(self.conn.remote_id())
    }

    /// Returns why the peer or the network ended the connection; `None` if it did not end. A failed
    /// read or write on a stream does not give this reason.
    pub fn why_ended(&self) -> Option<QuicError> {
        let reason = self.conn.close_reason()?;
        Some(ended(&self.peer, &reason))
    }

    /// Closes the connection with the code "all is done".
    pub fn finish(&self) {
        self.conn.close(VarInt::from_u32(closing::DONE), b"");
    }
}

/// Converts a proved key.
pub(super) fn peer_key(id: PublicKey) -> PeerKey {
    PeerKey::from_bytes(*id.as_bytes())
}

/// Returns the limits on what a peer may make us store, and the times of a connection.
fn transport_config() -> QuicTransportConfig {
    let dead = IdleTimeout::try_from(DEAD_AFTER).expect("half a minute is a time-out");
    QuicTransportConfig::builder()
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        // A limit of our own, in case the other side allows more.
        .send_window(2 * u64::from(WINDOW_BYTES))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(dead))
        .keep_alive_interval(KEEP_ALIVE)
        .build()
}

fn where_to(listen: Option<&ListenAddress>) -> String {
    let Some(ListenAddress(sockets)) = listen else {
        return "any address".to_owned();
    };
    let all: Vec<String> = sockets.iter().map(SocketAddr::to_string).collect();
    all.join(" and ")
}

/// Resolves `HOST:PORT`, as the system does. Fails if there is no address.
async fn resolve(place: &str) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host(place).await;
    let found: Vec<SocketAddr> = found.map_err(|e| e.to_string())?.collect();
    if found.is_empty() {
        Err("the name has no address".to_owned())
    } else {
        Ok(found)
    }
}

fn dial_error(peer: &str, e: &ConnectError) -> QuicError {
    let unreachable = |why: String| QuicError::Unreachable {
        peer: peer.to_owned(),
        why,
    };
    match e {
        ConnectError::Connecting {
            source: ConnectingError::ConnectionError { source, .. },
            ..
        }
        | ConnectError::Connection { source, .. } => ended(peer, source),
        other => unreachable(other.to_string()),
    }
}

/// Translates the end of a connection.
fn ended(peer: &str, e: &ConnectionError) -> QuicError {
    let peer = peer.to_owned();
    let unreachable = |why: &str| QuicError::Unreachable {
        peer: peer.clone(),
        why: why.to_owned(),
    };
    match e {
        ConnectionError::ApplicationClosed(close) => {
            match u32::try_from(close.error_code.into_inner()) {
                Ok(closing::NOT_TRUSTED) => QuicError::NotTrusted { peer },
                Ok(closing::BUSY) => QuicError::Busy { peer },
                Ok(closing::STOPPING) => QuicError::Stopped { peer },
                Ok(closing::IDLE) => unreachable("it waited too long for this device"),
                Ok(closing::DONE) => unreachable("it ended the connection"),
                _ => unreachable("it reports that this device broke the protocol"),
            }
        }
        // This end closed it, because the other side did not prove the key. TLS names the field,
        // not the key.
        ConnectionError::TransportError(e) if is_about_certificate(u64::from(e.code)) => {
            QuicError::WrongKey { peer }
        }
        ConnectionError::TimedOut => {
            let seconds = DEAD_AFTER.as_secs();
            unreachable(&format!("connection lost: no reply for {seconds} s"))
        }
        ConnectionError::Reset => unreachable("it was restarted"),
        other => unreachable(&other.to_string()),
    }
}

/// Returns whether a QUIC error code stands for a TLS alert about the other side's key (RFC 9001,
/// section 4.8; RFC 8446, section 6.2).
fn is_about_certificate(code: u64) -> bool {
    const CRYPTO: u64 = 0x100;
    const BAD_CERTIFICATE: u64 = 42;
    const UNKNOWN_CA: u64 = 48;
    const DECRYPT_ERROR: u64 = 51;
    let Some(alert) = code.checked_sub(CRYPTO) else {
        return false;
    };
    (BAD_CERTIFICATE..=UNKNOWN_CA).contains(&alert) || alert == DECRYPT_ERROR
}

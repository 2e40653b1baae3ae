//! Peers by public key, over QUIC. docs/trust.md describes them.
//!
//! This module dials a peer by its key, at a given address or at one found on the local network.
//! TLS 1.3 proves both keys to both ends before the first byte of the protocol. DMV contacts no
//! other host: no relay, no name service and no publishing, unless the user sets a relay. Tokio
//! stays inside this module; [`blocking`] is for callers without an async runtime.

mod address;
pub mod blocking;
mod client;
mod lan;
mod node;
mod pair;
mod pump;
mod relay;
mod repository;
mod serve;
#[cfg(test)]
mod tests;

pub use address::{ListenAddress, NotAnAddress, PeerAddress};
pub use client::Device;
pub(super) use client::{Helper, connect};
pub use lan::{FoundPeer, Service as LanService, look_around};
pub use node::{Connection, Node, NodeOptions};
pub use pair::{Code, Confirm, NotACode, PairError, PairEvent, PairOptions, PairedDevice};
pub use relay::RelayState;
pub use repository::{ServeEvent, ServeOptions};
pub use serve::{Limits, ServeReport, Service, TimedStream, serve};

use dmv_core::repo::PeerKey;
use std::io;

/// Why a connection to a peer failed or ended.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The system does not open a socket.
    #[error("cannot listen on {at}: {source}")]
    Bind {
        /// The address to listen on.
        at: String,
        /// The system's error.
        source: io::Error,
    },
    /// The peer does not answer.
    #[error("{peer} does not answer: {why}")]
    Unreachable {
        /// The address that was dialled.
        peer: String,
        /// What is known about the failure.
        why: String,
    },
    /// The peer does not answer directly, and not through the user's relay either.
    #[error("{peer} does not answer: {why}")]
    NotAtRelay {
        /// The address that was dialled.
        peer: String,
        /// What is known about the failure.
        why: String,
        /// Whether at least the relay accepted the connection.
        met: bool,
    },
    /// A device answers but cannot prove that it has the key.
    #[error("the device at {peer} has another key")]
    WrongKey {
        /// The address that was dialled.
        peer: String,
    },
    /// The address has this device's own key.
    #[error("{0} is this device's own key")]
    Myself(PeerKey),
    /// The peer does not trust our key.
    #[error("{peer} does not trust this device")]
    NotTrusted {
        /// The address that was dialled.
        peer: String,
    },
    /// The peer has too many connections.
    #[error("{peer} is busy with other devices")]
    Busy {
        /// The address that was dialled.
        peer: String,
    },
    /// The peer has stopped serving.
    #[error("{peer} has stopped serving")]
    Stopped {
        /// The address that was dialled.
        peer: String,
    },
    /// A failure of this machine.
    #[error("the network cannot be used: {0}")]
    Local(String),
}

/// The ALPN name of sessions with a repository.
const SESSION: &[u8] = b"dmv/1";

/// The codes with which an end closes a connection. See docs/trust.md, "Closing".
mod closing {
    /// All is done.
    pub const DONE: u32 = 0;
    /// The key is not on the allow-list, or no longer. In pairing: another code.
    pub const NOT_TRUSTED: u32 = 1;
    /// Too many connections.
    pub const BUSY: u32 = 2;
    /// The process ends.
    pub const STOPPING: u32 = 3;
    /// Nothing arrived for too long.
    pub const IDLE: u32 = 4;
    /// The received data breaks the protocol.
    pub const PROTOCOL: u32 = 5;
}

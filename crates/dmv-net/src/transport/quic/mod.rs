//! Peers by public key, over QUIC.
//!
//! A peer is dialled by its key, at an address that is given or found on the local network. TLS 1.3
//! proves both keys to both ends before a byte of ours is sent. Nobody else is asked for anything:
//! no relay, no name service and no publishing, unless the user names a relay.

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

pub use address::{Listen, NotAnAddress, PeerAddress};
pub use client::Device;
pub(super) use client::{Helper, connect};
pub use lan::{Found, Service as LanService, look_around};
pub use node::{Connection, Node, NodeOptions};
pub use pair::{Code, Confirm, NotACode, PairError, PairEvent, PairOptions, Paired};
pub use relay::RelayState;
pub use repository::{ServeEvent, ServeOptions};
pub use serve::{Limits, Served, Service, Timed, serve};

use dmv_core::repo::PeerKey;
use std::io;

/// Why there is no connection to a peer, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The system does not let us open a socket.
    #[error("cannot listen on {at}: {source}")]
    Bind {
        /// Where.
        at: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("{peer} does not answer: {why}")]
    Unreachable {
        /// Who was called, as an address.
        peer: String,
        /// What is known about it.
        why: String,
    },
    /// Nobody answers, and no way was found through the user's relay either.
    #[error("{peer} does not answer: {why}")]
    NotAtRelay {
        /// Who was called, as an address.
        peer: String,
        /// What is known about it.
        why: String,
        /// Whether the relay at least has let us in.
        met: bool,
    },
    /// Somebody answers, and cannot prove to have the key.
    #[error("whoever answers at {peer} does not have that key")]
    WrongKey {
        /// Who was called, as an address.
        peer: String,
    },
    /// The address has our own key in it.
    #[error("{0} is this device's own key")]
    Myself(PeerKey),
    /// The peer does not know our key.
    #[error("{peer} does not trust this device")]
    NotTrusted {
        /// Who was called, as an address.
        peer: String,
    },
    /// The peer has too many visitors.
    #[error("{peer} is busy with other peers")]
    Busy {
        /// Who was called, as an address.
        peer: String,
    },
    /// The peer stops serving.
    #[error("{peer} has stopped serving")]
    Stopped {
        /// Who was called, as an address.
        peer: String,
    },
    /// Something on this machine fails.
    #[error("the network cannot be used: {0}")]
    Local(String),
}

/// The name, in the handshake, of sessions with a repository.
const SESSION: &[u8] = b"dmv/1";

/// Reasons for closing a connection, as sent (docs/trust.md, "Closing").
mod closing {
    /// All is done.
    pub const DONE: u32 = 0;
    /// The key is not on the allow-list.
    pub const NOT_TRUSTED: u32 = 1;
    /// Too many connections.
    pub const BUSY: u32 = 2;
    /// The process ends.
    pub const STOPPING: u32 = 3;
    /// Nothing came for too long.
    pub const IDLE: u32 = 4;
    /// What was sent breaks the protocol.
    pub const PROTOCOL: u32 = 5;
}

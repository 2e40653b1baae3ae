//! Exchange of objects and refs between repositories: one protocol over several transports.
//!
//! The program (`dmv-cli`) uses this crate. It knows no object store: `dmv-bucket` stands above it, and the
//! program supplies it as [`ops::Buckets`]. Rooms from the bottom up:
//!
//! - [`wire`]: the bytes of the protocol. docs/protocol.md specifies them.
//! - [`sync`]: the engine. It decides what is sent and requested, from messages and ids alone. It
//!   uses no socket, file, clock or randomness, so a seed replays any run.
//! - [`trouble`]: why an object store does not do what it was asked.
//! - [`session`]: runs the engine on one connection. It moves objects between the connection and a
//!   store, and moves refs at the end.
//! - `identity`: the key that names this device (docs/trust.md).
//! - [`transport`]: addresses, and connections to them.
//! - [`ops`]: complete commands between repositories, such as [`ops::clone`] and [`ops::pull`].

#[cfg(feature = "quic")]
pub mod identity;
pub mod ops;
pub mod session;
pub mod sync;
pub mod transport;
pub mod trouble;
pub mod wire;

//! DMV's peer exchange: one protocol, one engine, several ways to reach the other end.
//!
//! [`wire`] is the bytes of the protocol (docs/protocol.md). [`sync`] decides what is sent and
//! asked for, from messages and objects alone: no socket, file, clock or randomness, so a seed
//! replays any run. [`session`] drives it for one connection, moves the objects between the
//! connection and a store, and moves refs at the end. [`transport`] reaches the other end.
//! `identity` is the key that others know this device by (docs/trust.md).

#[cfg(feature = "quic")]
pub mod identity;
pub mod session;
pub mod sync;
pub mod transport;
pub mod wire;

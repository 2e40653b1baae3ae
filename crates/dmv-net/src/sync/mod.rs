//! The engine of a transfer: what is sent, what is requested, and when the transfer is over.
//!
//! A transfer has a [`Receiver`] and a [`Sender`]; the client may be either. The caller passes
//! messages and object ids in, and polls for the next [`Output`]. The engine sees ids only and
//! reads metadata of its own side. The content of objects does not pass through it: the engine only
//! admits or refuses each object.
//!
//! This room may use `wire`. It must not touch files, sockets, clocks or threads: a seed replays
//! every run. `session` drives it.

mod haves;
mod receiver;
mod sender;

pub use receiver::{Clue, Goal, Receiver};
pub use sender::Sender;

use crate::wire::{Message, WireError};
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectError, ObjectType};

/// An action that the engine requests from its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message.
    Send(Message),
    /// Send these objects, now or together with later ones. Chunks that are absent here are left out: the
    /// receiver requests what it needs.
    Objects(Vec<(ObjectType, ObjectId)>),
    /// Send these objects one by one: the receiver could not decode their frames.
    PlainObjects(Vec<(ObjectType, ObjectId)>),
    /// Send the objects that were delayed.
    Flush,
    /// No action. At most this many bytes of chunks are still to be sent.
    Ahead(u64),
    /// Publish the objects that have arrived, as objects that no ref names. The engine reads them
    /// next.
    Keep,
    /// No action, but more work without waiting. The driver can check the time or stop.
    Working,
    /// The transfer is over. Everything wanted is stored.
    Done,
}

/// Why a transfer fails.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The peer broke the protocol or sent false claims.
    #[error("{0}")]
    Broken(&'static str),
    /// The peer wants a commit that this side does not offer.
    #[error("commit {} is not offered", .0.short(12))]
    NotOffered(ObjectId),
    /// The peer lacks wanted objects.
    #[error("the remote does not have {} {}{}", ty.word(), id.short(12), more(*count))]
    Absent {
        /// One of these objects.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
        /// How many objects it lacks.
        count: usize,
    },
    /// Objects from the peer contradict each other.
    #[error("the remote sent inconsistent objects: {0}")]
    Unfit(ObjectError),
    /// Objects of this side cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

fn more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        n => format!(" and {} other objects", n - 1),
    }
}

impl From<WireError> for SyncError {
    fn from(e: WireError) -> SyncError {
        SyncError::Broken(e.0)
    }
}

#[cfg(test)]
mod tests;

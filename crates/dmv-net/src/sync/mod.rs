//! The engine: what is sent, what is asked for, when it is over.
//!
//! A transfer has a [`Receiver`] and a [`Sender`]; either may be the client. Messages and objects
//! come in as arguments, what is to be done is polled. The engine sees ids and reads metadata of
//! its own side; bulk bytes pass it by, and are only admitted by it.

mod haves;
mod receiver;
mod sender;

pub use receiver::{Goal, Receiver};
pub use sender::Sender;

use crate::wire::{Message, WireError};
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectError, ObjectType};

/// What the engine asks its driver to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message.
    Send(Message),
    /// Send these objects, now or with others that come soon.
    Objects(Vec<(ObjectType, ObjectId)>),
    /// Send what has been put off.
    Flush,
    /// Nothing; but so many bytes of content are still to be sent, at most.
    Ahead(u64),
    /// Make what has arrived readable: the engine will look at it next.
    Keep,
    /// Nothing; but there is more to do without waiting. A chance to look at the time, or to stop.
    Working,
    /// The transfer is over; everything wanted is here.
    Done,
}

/// Why a transfer ends without success.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The peer broke the protocol, or sent what is not so.
    #[error("{0}")]
    Broken(&'static str),
    /// The peer wants a commit that was not offered.
    #[error("commit {} is not offered here", .0.short(12))]
    NotOffered(ObjectId),
    /// The peer does not have everything that was wanted.
    #[error("the other side does not have {} {}{}", ty.word(), id.short(12), more(*count))]
    Absent {
        /// One of the objects.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
        /// How many there are.
        count: usize,
    },
    /// What the peer sent does not fit together.
    #[error("the other side sent objects that do not fit together: {0}")]
    Unfit(ObjectError),
    /// This side's objects could not be read.
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

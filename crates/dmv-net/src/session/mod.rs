//! Sessions: the engine at work on a connection and a repository.
//!
//! A session runs on the thread that calls it. Objects are checked when they come and kept out of
//! sight until the engine asks for them to be kept; a session that ends early keeps what it has
//! checked, so that the next need not send it again. Refs move at the very end.

mod client;
mod held;
mod inlet;
mod link;
mod outlet;
mod queue;
mod server;
mod transfer;
mod waiting;

pub use client::{Client, History};
pub use held::PeerSlice;
pub use inlet::Inlet;
pub use link::{Link, PATIENCE, Traffic};
pub use outlet::{Outlet, Part};
pub use server::{Grant, Served, refuse, serve};

use crate::sync::SyncError;
use crate::wire::{Code, WireError};
use dmv_core::object::ObjectError;
use dmv_core::repo::{RefMoved, RepoError};
use dmv_core::store::StoreError;

/// What can go wrong between peers.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The other end cannot be reached.
    #[error("cannot reach {place}: {why}")]
    Unreachable {
        /// Where it should be.
        place: String,
        /// What the system or the helper program says.
        why: String,
    },
    /// Nor through the relay that the user has named.
    #[error("cannot reach {place}: {why}")]
    NotAtRelay {
        /// Where it should be.
        place: String,
        /// What is known about it.
        why: String,
        /// Whether the relay at least has let us in.
        met: bool,
    },
    /// The program that makes the connection cannot be run.
    #[error("cannot reach {place}: cannot run {program}: {source}")]
    NoProgram {
        /// Where the connection was to lead.
        place: String,
        /// Its name.
        program: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The other end refuses this user or key, or is not the one it should be.
    #[error("{place} does not let us in: {why}")]
    NotLetIn {
        /// Where it is.
        place: String,
        /// What it said.
        why: String,
    },
    /// The connection ended before the session did.
    #[error("the connection was cut")]
    Closed,
    /// The other end is there and does nothing, or nearly so.
    #[error("the other side has moved next to nothing for {} s", .0.as_secs())]
    Stalled(std::time::Duration),
    /// The other end has said nothing but that it works.
    #[error("the other side has done nothing but work for {} s", .0.as_secs())]
    Endless(std::time::Duration),
    /// Something else than DMV answers.
    #[error("the other side is no dmv: it says '{}'", .0.escape_debug())]
    NotDmv(String),
    /// The other end speaks another version.
    #[error("the other side speaks another version: {0}")]
    Version(String),
    /// The other end gave up and said why.
    #[error("the other side: {1}")]
    Peer(Code, String),
    /// The other end broke the protocol. Nothing of what it wanted was done.
    #[error("the other side broke the protocol: {0}")]
    Protocol(&'static str),
    /// The transfer failed.
    #[error(transparent)]
    Sync(SyncError),
    /// The other end holds only a part, as it says, and lacks something that was wanted.
    #[error("{}", lacking(absent.as_deref()))]
    Partial {
        /// What it holds.
        held: Box<PeerSlice>,
        /// What turned out to be lacking; `None`: it is certain from what it holds.
        absent: Option<Box<SyncError>>,
    },
    /// This side's repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The address makes no sense.
    #[error("'{}' is no address of a repository: {why}", url.escape_debug())]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Cancelled,
}

fn lacking(absent: Option<&SyncError>) -> String {
    match absent {
        Some(absent) => format!("{absent}; it is a partial repository"),
        None => "the other side is a partial repository".to_owned(),
    }
}

impl From<WireError> for NetError {
    fn from(e: WireError) -> NetError {
        NetError::Protocol(e.0)
    }
}

impl From<SyncError> for NetError {
    fn from(e: SyncError) -> NetError {
        match e {
            SyncError::Broken(why) => NetError::Protocol(why),
            SyncError::Object(e) => NetError::Repo(e.into()),
            other => NetError::Sync(other),
        }
    }
}

impl From<ObjectError> for NetError {
    fn from(e: ObjectError) -> NetError {
        NetError::Repo(e.into())
    }
}

impl From<StoreError> for NetError {
    fn from(e: StoreError) -> NetError {
        NetError::Repo(e.into())
    }
}

impl NetError {
    /// What the other side is told, if it may still listen.
    fn code(&self) -> Option<Code> {
        Some(match self {
            NetError::Closed
            | NetError::Peer(..)
            | NetError::Unreachable { .. }
            | NetError::NotAtRelay { .. } => return None,
            NetError::NotDmv(_) | NetError::Protocol(_) => Code::Protocol,
            NetError::Version(_) => Code::Version,
            NetError::Sync(SyncError::NotOffered(_)) => Code::NotOffered,
            NetError::Sync(SyncError::Absent { .. }) => Code::Absent,
            NetError::Sync(_) => Code::Protocol,
            NetError::Repo(RepoError::Object(_) | RepoError::Damaged { .. }) => Code::Damaged,
            NetError::Repo(RepoError::Store(
                StoreError::DamagedFile { .. } | StoreError::DamagedTable { .. },
            )) => Code::Damaged,
            NetError::Repo(RepoError::Busy(_) | RepoError::Freeing(_)) => Code::Busy,
            NetError::Repo(RepoError::NotFound(_) | RepoError::NoDatabase(_)) => Code::NoRepository,
            NetError::Repo(RepoError::ForeignOwner(_)) => Code::Denied,
            NetError::Repo(RepoError::TooNew { .. }) => Code::Version,
            NetError::Repo(RepoError::Store(StoreError::Io { source, .. }))
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                Code::Full
            }
            _ => Code::Failed,
        })
    }

    /// Whether the other side did what no honest one does.
    fn is_malice(&self) -> bool {
        matches!(
            self,
            NetError::Protocol(_) | NetError::Sync(SyncError::Unfit(_))
        )
    }
}

/// What a session did, for its user.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What went over the connection.
    pub traffic: Traffic,
    /// Refs that moved, or should have.
    pub refs: Vec<RefMoved>,
}

/// This program, for the other side's messages.
const AGENT: &str = concat!("dmv ", env!("CARGO_PKG_VERSION"));

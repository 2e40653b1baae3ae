//! Sessions: one run of the protocol between a connection and a repository.
//!
//! This room moves frames ([`Link`]), runs the engine of [`sync`](crate::sync), and stores or reads
//! the objects. It may use `sync` and `wire`, and it knows no addresses. The transports and the
//! program use it: [`Client`] and [`serve`].
//!
//! A session runs on the thread that calls it. It checks objects as they arrive. No reader sees
//! them until the engine requests that they be published. A session that is cut keeps the objects
//! that it has checked, so the next session does not receive them again. Refs move last.

mod absence;
mod claims;
mod client;
mod held;
mod inlet;
mod link;
mod outlet;
mod purges;
mod queue;
mod server;
mod transfer;
mod waiting;

pub use crate::sync::Clue;
pub use claims::{ReceivedClaims, say_claims};
pub use client::{Client, History};
pub use held::PeerSlice;
pub use inlet::Inlet;
pub use link::{Link, PATIENCE, Traffic};
pub use outlet::{Outlet, Part};
pub use purges::{PurgeAnswer, say_purges};
pub use server::{Grant, SessionReport, refuse, say_expired, say_refs, say_unkept, serve};

use crate::sync::SyncError;
use crate::trouble::Trouble;
use crate::wire::{Code, WireError};
use dmv_core::hash::ObjectId;
use dmv_core::job::Cancelled;
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::platform::OddKind;
use dmv_core::refs::RefsError;
use dmv_core::repo::{BusyError, KnownPurge, PlaceError, Purge, RefChange, RepoError};
use dmv_core::store::StoreError;
use dmv_core::threads::NoThread;
use std::io::ErrorKind;

/// Every failure between peers.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// This machine gives no socket; why, with the address.
    #[error("{0}")]
    Listen(String),
    /// The other side cannot be reached.
    #[error("cannot reach {place}: {why}")]
    Unreachable {
        /// The address.
        place: String,
        /// The reason, from the system or the helper program.
        why: String,
    },
    /// The other side cannot be reached, and neither through the relay that the user has set.
    #[error("cannot reach {place}: {why}")]
    NotAtRelay {
        /// The address.
        place: String,
        /// What is known about the failure.
        why: String,
        /// Whether at least the relay accepted the connection.
        met: bool,
    },
    /// The program that makes the connection cannot be run.
    #[error("cannot reach {place}: cannot run {program}: {source}")]
    NoProgram {
        /// The address.
        place: String,
        /// The program's name.
        program: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The host can be reached, but it does not find the program.
    #[error("cannot reach {place}: a login there does not find the program '{program}'")]
    NoDmv {
        /// The address.
        place: String,
        /// The program to run there.
        program: String,
    },
    /// The other side was to create a repository, and is too old for that.
    #[error("the dmv at {place} is too old to create a repository")]
    CannotCreate {
        /// The address.
        place: String,
    },
    /// The other side refuses this user or key, or it is not the expected peer.
    #[error("{place} denied access: {why}")]
    NotLetIn {
        /// The address.
        place: String,
        /// The other side's message.
        why: String,
    },
    /// The connection ended before the session did.
    #[error("the connection was lost")]
    Closed,
    /// The same, with the address of the other side.
    #[error("the connection to {0} was lost")]
    Lost(String),
    /// The other side is silent, or nearly so, for longer than this side's patience.
    #[error("connection lost: almost no data came for {} s", .0.as_secs())]
    Stalled(std::time::Duration),
    /// The other side has only sent [`Working`](crate::wire::Message::Working) for longer than this
    /// side accepts.
    #[error("the remote has been busy for {} s without an answer", .0.as_secs())]
    Endless(std::time::Duration),
    /// The other side does not speak the dmv protocol. The text is what it sent.
    #[error("the remote does not speak the dmv protocol: it says '{}'", .0.escape_debug())]
    NotDmv(String),
    /// The other side speaks another version.
    #[error("the remote runs an incompatible version of dmv: {0}")]
    Version(String),
    /// The other side gave up, with this code and text.
    #[error("the remote reports: {1}")]
    Peer(Code, String),
    /// The other side broke the protocol. Nothing that it requested was done.
    #[error("the remote broke the protocol: {0}")]
    Protocol(&'static str),
    /// The transfer failed.
    #[error(transparent)]
    Sync(SyncError),
    /// The other side says that it is partial, and it lacks something that was wanted.
    #[error("{}", lacking(absent.as_deref()))]
    Partial {
        /// What it stores.
        held: Box<PeerSlice>,
        /// The objects that it lacks. `None`: what it stores already shows that it cannot give
        /// everything.
        absent: Option<Box<SyncError>>,
    },
    /// The other side has purged content that a push needs and that this side still stores. Nothing was
    /// pushed.
    #[error(
        "the remote has purged content that this push needs ({files} {}; reason: {}); nothing was pushed",
        if *files == 1 { "file" } else { "files" }, purge.reason.escape_debug()
    )]
    Purged {
        /// The number of files.
        files: u64,
        /// Why one of them was purged.
        purge: Box<Purge>,
    },
    /// The other side needs content that is absent on this side, too. The first objects of it.
    #[error("the remote needs content that is absent here: {}", absent_here(.0))]
    Lacking(Vec<(ObjectType, ObjectId)>),
    /// This side's repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The system starts no further thread.
    #[error(transparent)]
    Thread(#[from] NoThread),
    /// An object store does not do what it was asked.
    #[error("{place}: {trouble}")]
    Bucket {
        /// The address.
        place: String,
        /// The reason.
        trouble: Trouble,
    },
    /// The address is malformed.
    #[error("'{}' is not a repository address: {why}", url.escape_debug())]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Cancelled,
    /// The program that called a command cannot supply what a connection needs.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

fn lacking(absent: Option<&SyncError>) -> String {
    match absent {
        Some(absent) => format!("{absent}; it is a partial repository"),
        None => "the remote is a partial repository".to_owned(),
    }
}

fn absent_here(objects: &[(ObjectType, ObjectId)]) -> String {
    let first = objects.first();
    first.map_or_else(String::new, |(ty, id)| {
        format!("{} {}", ty.word(), id.short(12))
    })
}

impl From<Cancelled> for NetError {
    fn from(Cancelled: Cancelled) -> NetError {
        NetError::Cancelled
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

/// Returns the code for an error of one of the repository's files, if it is a special one.
fn code_of_file(e: &RepoError) -> Option<Code> {
    let (RepoError::Io(e)
    | RepoError::Store(StoreError::Io(e))
    | RepoError::Refs(RefsError::File(e) | RefsError::Lock(e))) = e
    else {
        return None;
    };
    if OddKind::in_error(&e.source).is_some() {
        return Some(Code::Damaged);
    }
    match e.kind() {
        ErrorKind::StorageFull => Some(Code::Full),
        ErrorKind::PermissionDenied => Some(Code::Denied),
        _ => None,
    }
}

impl NetError {
    /// Returns the code that the other side gets; `None` if there is no point in sending one.
    fn code(&self) -> Option<Code> {
        Some(match self {
            NetError::Closed
            | NetError::Peer(..)
            | NetError::Unreachable { .. }
            | NetError::NotAtRelay { .. }
            | NetError::NoDmv { .. }
            | NetError::CannotCreate { .. } => return None,
            NetError::NotDmv(_) | NetError::Protocol(_) => Code::Protocol,
            NetError::Version(_) => Code::Version,
            NetError::Sync(SyncError::NotOffered(_)) => Code::NotOffered,
            NetError::Sync(SyncError::Absent { .. }) => Code::Absent,
            NetError::Sync(_) => Code::Protocol,
            NetError::Repo(RepoError::Object(_) | RepoError::Place(PlaceError::Damaged { .. })) => {
                Code::Damaged
            }
            NetError::Repo(RepoError::Store(
                StoreError::DamagedFile { .. }
                | StoreError::DamagedTable { .. }
                | StoreError::LostPack { .. },
            )) => Code::Damaged,
            NetError::Repo(
                RepoError::Busy(BusyError::Worktree(_)) | RepoError::Busy(BusyError::Freeing(_)),
            ) => Code::Busy,
            NetError::Repo(RepoError::Place(
                PlaceError::NotFound(_)
                | PlaceError::NoDatabase(_)
                | PlaceError::Taken(_)
                | PlaceError::NoParent(_),
            )) => Code::NoRepository,
            NetError::Repo(RepoError::Place(PlaceError::ForeignOwner(_))) => Code::Denied,
            NetError::Repo(RepoError::Place(PlaceError::TooNew { .. })) => Code::Version,
            NetError::Repo(RepoError::OverBudget) => Code::Full,
            NetError::Repo(RepoError::Untrusted(_)) => Code::Denied,
            NetError::Repo(e) => code_of_file(e).unwrap_or(Code::Failed),
            _ => Code::Failed,
        })
    }

    /// Returns whether there may be no repository at the address.
    pub fn finds_nothing(&self) -> bool {
        matches!(
            self,
            NetError::Peer(Code::NoRepository, _)
                | NetError::Repo(RepoError::Place(PlaceError::NotFound(_)))
        )
    }

    /// Returns what the other side is told. A client means the exact place, not those above it.
    fn words_for_peer(&self) -> String {
        match self {
            NetError::Repo(RepoError::Place(PlaceError::NotFound(path))) => {
                format!("no repository at {}", path.display())
            }
            e => e.to_string(),
        }
    }

    /// Returns whether the other side did something that no honest peer does.
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
    /// Refs that moved, and refs that were refused.
    pub refs: Vec<RefChange>,
    /// How many files are absent here now because their content has expired at the other side.
    pub expired: u64,
    /// How many files are noted as purged here now because the other side has purged them.
    pub purged: u64,
    /// What the other side has purged and this side still stores.
    pub unpurged: Vec<KnownPurge>,
    /// What the other side is called.
    pub place: String,
}

/// This program and its version, for the other side's messages.
pub const AGENT: &str = concat!("dmv ", env!("CARGO_PKG_VERSION"));

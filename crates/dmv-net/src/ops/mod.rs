//! Complete commands between repositories: clone, fetch, pull, push, sync, and fetching content
//! that a command lacks.
//!
//! Each command is a function. It takes the open repository, its options, the [`Caller`] and a
//! [`Job`](dmv_core::job::Job), and it returns a report. This room decides what a command does,
//! in which order, and what it leaves behind if it fails. It prints nothing and knows no exit codes.
//! It may use `session`, `transport` and `wire`. The program uses it; [`Network`] is all that
//! another program needs.
//!
//! ```no_run
//! use dmv_core::{Job, OperationRequest, Repo};
//! use dmv_net::ops::{FetchOptions, Network, Remote, fetch};
//! use dmv_net::transport::Url;
//! use std::time::SystemTime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let repo = Repo::open("film".as_ref())?;
//! let asked = OperationRequest::new("Ada <ada@example.org>", "my-program", SystemTime::now());
//! let remote = Remote::new("origin", Url::parse("ssh://nas/srv/film".as_ref())?);
//! let options = FetchOptions::new(remote, asked.clone());
//! let report = fetch(&repo, &options, &Network::new(asked), &Job::default())?;
//! println!("received {} objects", report.summary.traffic.objects_received);
//! # Ok(())
//! # }
//! ```

mod absent;
#[cfg(feature = "store")]
mod bucket;
mod caller;
mod clone;
mod dial;
mod error;
mod fetch;
#[cfg(feature = "store")]
mod foresee;
#[cfg(feature = "store")]
mod free;
mod lacked;
#[cfg(feature = "store")]
mod operations;
mod peer;
mod pull;
mod purge;
mod push;
#[cfg(feature = "store")]
mod recover;
mod refs;
mod supply;
mod sync;
#[cfg(feature = "store")]
mod verify;

pub use crate::depot::foresee::PushForecast;
pub use absent::{Absent, Answer, PeerAnswer};
pub use caller::{Caller, Network, Remote, Remotes, Step};
pub use clone::{CloneDir, CloneOptions, CloneReport, KnownSource, NewClone, clone};
pub use dial::{SessionError, dial};
pub use error::{CloneError, OpsError};
pub use fetch::{FetchOptions, FetchReport, fetch};
#[cfg(feature = "store")]
pub use foresee::{CloneForecast, foreseen_clone};
#[cfg(feature = "store")]
pub use free::{FreeAtOptions, FreeReport, JoinReport, free_at};
#[cfg(feature = "store")]
#[cfg(feature = "store")]
pub use operations::{
    EachOperation, NotUndone, OperationAt, UndoAtOptions, UndoAtReport, Which, operations_at,
    undo_at,
};
pub use peer::{NoAnswer, Peer, SilentPeer};
pub use pull::{Integrate, PullOptions, PullOutcome, PullReport, pull};
pub use purge::{purges_at, request_purge};
pub use push::{PushOptions, PushReport, push};
#[cfg(feature = "store")]
pub use recover::{
    Flaw, LostKind, LostState, NotRestored, Origin, RecoverAtOptions, RecoverAtReport, recover_at,
    words_of,
};
pub use refs::RefTip;
pub use supply::{PurgedLack, Suppliers, SupplyReport, supplied};
pub use sync::{SyncOptions, SyncReport, sync};
#[cfg(feature = "store")]
pub use verify::{VerifyAtOptions, VerifyAtReport, verify_at};

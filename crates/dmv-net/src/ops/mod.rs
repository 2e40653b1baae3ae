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
mod buckets;
mod caller;
mod claim_exchange;
mod claims;
mod clone;
mod dial;
mod error;
mod fetch;
mod forecast;
mod lacked;
mod lean;
mod peer;
mod pull;
mod purge;
mod push;
mod refs;
mod remote;
mod session_error;
mod supply;
mod sync;

pub use absent::{Absent, Answer, PeerAnswer};
pub use buckets::{BucketClaims, BucketForecast, Buckets, ClaimTarget, PushOpening, PushTarget};
pub use caller::{Caller, ClaimsNews, ComingPush, Network, Step};
pub use claim_exchange::HeldRef;
pub use claims::{ClaimReport, TellOutcome, change_push_rule, claim, exchange_claims};
pub use clone::{CloneDir, CloneOptions, CloneReport, KnownSource, NewClone, clone};
pub use dial::{dial, session};
pub use error::{CloneError, OpsError};
pub use fetch::{FetchOptions, FetchReport, fetch, fetch_into};
pub use forecast::{OBJECT_BYTES, PushForecast, measure};
pub use lean::checkout_lean;
pub use peer::{NoAnswer, Peer, SilentPeer};
pub use pull::{Integrate, PullOptions, PullOutcome, PullReport, pull};
pub use purge::{purges_at, request_purge};
pub use push::{PushOptions, PushReport, push};
pub use refs::RefTip;
pub use remote::{Remote, Remotes};
pub use session_error::SessionError;
pub use supply::{PurgedLack, Suppliers, SupplyReport, is_known, supplied};
pub use sync::{SyncOptions, SyncReport, sync};

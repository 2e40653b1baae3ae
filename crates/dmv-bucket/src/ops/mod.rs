//! Complete commands at a bucket, where no program runs that could do the work.
//!
//! Each command is a function. It takes the repository, its options, the [`BucketCaller`] and a
//! [`Job`](dmv_core::job::Job), and returns a report. Clone, fetch, push and sync are commands of
//! [`dmv_net::ops`], which reach a bucket through [`CallerBuckets`].

mod buckets;
mod caller;
mod claims;
mod error;
mod expire;
mod forecast;
mod gc;
mod log;
mod push;
mod recover;
mod verify;

pub use buckets::CallerBuckets;
pub use caller::BucketCaller;
pub use error::AtBucketError;
pub use expire::{ExpireAtOptions, ExpireAtReport, ExpiryJudge, expire_at};
pub use forecast::{CloneForecast, foreseen_clone};
pub use gc::{FreeAtOptions, FreeReport, JoinReport, free_at};
pub use log::{
    EachOperation, NotUndone, OperationAt, UndoAtOptions, UndoAtReport, Which, operations_at,
    undo_at,
};
pub use recover::{
    Flaw, LostKind, LostState, NotRestored, Origin, RecoverAtOptions, RecoverAtReport, recover_at,
    words_of,
};
pub use verify::{VerifyAtOptions, VerifyAtReport, verify_at};

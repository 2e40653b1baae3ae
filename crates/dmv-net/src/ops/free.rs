//! gc at a bucket.

use super::bucket::{at_bucket, net_error, stamp};
use super::caller::{Caller, Remote};
use super::error::OpsError;
use crate::bucket::core::Limits;
use crate::depot::cache::Cache;
use crate::depot::free::{Collector, FreeOptions, free};
pub use crate::depot::free::{FreeReport, JoinReport};
use crate::transport::Purpose;
use crate::transport::store::Store;
use dmv_core::job::Job;
use dmv_core::repo::{OperationRequest, Repo};
use std::time::Duration;

/// What to free at a remote.
#[derive(Clone, Debug)]
pub struct FreeAtOptions {
    /// The remote. It has to be a bucket.
    pub remote: Remote,
    /// Files that no root names stay if they are younger.
    pub grace: Duration,
    /// Operations that are older may leave the log of the bucket. `None`: none may.
    pub forget: Option<Duration>,
    /// Whether to join packs, too: small ones, and those of which little is needed.
    pub joins: bool,
    /// Whether to report only.
    pub dry_run: bool,
    /// For the operation log of the bucket.
    pub request: OperationRequest,
}

/// Frees what nothing in a bucket leads to. All metadata of its branches and of its log has to be
/// here: fetch first.
pub fn free_at(
    repo: &Repo,
    options: &FreeAtOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<FreeReport, OpsError> {
    let url = &options.remote.url;
    let freed = at_bucket(url, Purpose::Write, "dmv gc", caller, |address, reach| {
        let files = Store::open(address, &reach.store)?;
        let cache = Cache::open(Some(repo.dmv_dir()), &address.to_string());
        let time = options.request.time;
        let ago = |age: Duration| time.seconds.saturating_sub_unsigned(age.as_secs());
        let what = FreeOptions {
            forget_before: options.forget.map(ago),
            young_from: ago(options.grace),
            joins: options.joins,
            dry_run: options.dry_run,
            limits: Limits::default(),
            stamp: stamp(&options.request),
        };
        let with = Collector {
            files: &files,
            store: repo.store(),
            job,
            dir: cache.dir(),
        };
        let kept = repo.keep_all()?;
        let freed = free(&with, cache.root(), &what);
        drop(kept);
        freed.map_err(|e| net_error(address, e))
    });
    Ok(freed?)
}

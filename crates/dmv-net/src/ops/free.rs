//! gc at a bucket.

use super::bucket::net_error;
use super::caller::{Caller, Remote, Step};
use super::dial::SessionError;
use super::error::OpsError;
use crate::bucket::core::{Limits, Stamp};
use crate::bucket::trouble::Trouble;
use crate::depot::cache::Cache;
pub use crate::depot::free::Freed;
use crate::depot::free::{Collector, FreeOptions, free};
use crate::session::NetError;
use crate::transport::store::Store;
use crate::transport::{Purpose, Url};
use dmv_core::job::Job;
use dmv_core::repo::{Asked, Repo};
use dmv_core::store::random_bytes;
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
    /// Whether to report only.
    pub dry_run: bool,
    /// For the operation log of the bucket.
    pub asked: Asked,
}

/// Frees what nothing in a bucket leads to. All metadata of its branches and of its log has to be
/// here: fetch first.
pub fn free_at(
    repo: &Repo,
    options: &FreeAtOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<Freed, OpsError> {
    let url = &options.remote.url;
    let failed = |source| {
        Box::new(SessionError {
            url: url.clone(),
            answered: false,
            held: None,
            source,
        })
    };
    let Url::Bucket(address) = url else {
        let place = url.to_string();
        let trouble = Trouble::Settings("it is no bucket: run dmv gc there".to_owned());
        return Err(failed(NetError::Bucket { place, trouble }).into());
    };
    caller.began(Step::Dial(url));
    let files = caller
        .reach(url, Purpose::Write)
        .and_then(|reach| Store::open(address, &reach.store));
    caller.began(Step::Dialled);
    let files = files.map_err(failed)?;
    let Asked { time, who, command } = options.asked.clone();
    let ago = |age: Duration| time.seconds.saturating_sub_unsigned(age.as_secs());
    let options = FreeOptions {
        forget_before: options.forget.map(ago),
        young_from: ago(options.grace),
        dry_run: options.dry_run,
        limits: Limits::default(),
        stamp: Stamp {
            id: random_bytes(),
            time,
            who,
            command,
            undoes: 0,
        },
    };
    let with = Collector {
        files: &files,
        store: repo.store(),
        job,
    };
    let cache = Cache::open(Some(repo.dmv_dir()), &address.to_string());
    let kept = repo.keep_all()?;
    let freed = free(&with, cache.root(), &options);
    drop(kept);
    Ok(freed.map_err(|e| failed(net_error(address, e)))?)
}

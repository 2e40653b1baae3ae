//! The same for threads that know nothing of tokio. Each call has a runtime of its own.

use super::{
    Confirm, Found, LanService, PairError, PairEvent, PairOptions, Paired, QuicError, lan, pair,
};
use crate::identity::DeviceKey;
use dmv_core::job::Job;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Enough for two announcements of everybody.
const LOOK_TIME: Duration = Duration::from_millis(2500);
/// How often a job that waits looks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// Who serves a repository on the local network. Takes some seconds.
pub fn look_around(job: &Job) -> Result<Vec<Found>, QuicError> {
    let looking = lan::look_around(LanService::Repository, LOOK_TIME);
    run(async {
        tokio::select! {
            found = looking => found,
            () = cancelled(job) => Ok(Vec::new()),
        }
    })?
}

/// Waits for another device with the same code, or looks for it ([`pair::pair`]).
pub fn pair_with(
    key: &DeviceKey,
    options: PairOptions,
    confirm: Confirm,
    event: impl Fn(PairEvent),
    job: &Job,
) -> Result<Paired, PairError> {
    run(pair::pair(key, options, confirm, event, cancelled(job)))?
}

/// A runtime for one call.
pub(super) fn runtime() -> Result<Runtime, QuicError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("dmv-net")
        .enable_all()
        .build()
        .map_err(|e| QuicError::Local(e.to_string()))
}

fn run<T>(work: impl Future<Output = T>) -> Result<T, QuicError> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    // A thread may still wait for somebody at a keyboard.
    runtime.shutdown_background();
    Ok(done)
}

/// Is done when the job is cancelled.
pub(super) async fn cancelled(job: &Job) {
    while !job.is_cancelled() {
        tokio::time::sleep(CANCEL_CHECK).await;
    }
}

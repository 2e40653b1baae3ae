//! Waiting for another command that frees space, as writers wait for each other.

use crate::context::Context;
use dmv_core::locks::{PATIENCE, STOPPED_PATIENCE};
use dmv_core::repo::{BusyError, FreeingLock, Repo, RepoError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Begins to free space, when no other command does.
pub fn free<'r>(context: &Context, repo: &'r Repo) -> Result<FreeingLock<'r>, RepoError> {
    let _watch = context.watch("waiting for another command");
    begin_when_free(context, || repo.begin_to_free())
}

/// Begins `work`, again and again while another command frees space or relies on what is stored: for the
/// usual time, and less if the other one is stopped. Ctrl-C ends the wait.
///
/// `work` must refuse before it does anything.
pub fn begin_when_free<T>(
    context: &Context,
    mut work: impl FnMut() -> Result<T, RepoError>,
) -> Result<T, RepoError> {
    let begin = Instant::now();
    loop {
        let holder = match work() {
            Err(RepoError::Busy(BusyError::Freeing(holder))) => holder,
            done => return done,
        };
        let is_stopped = holder.as_ref().is_some_and(|holder| holder.is_stopped);
        let patience = if is_stopped {
            STOPPED_PATIENCE
        } else {
            PATIENCE
        };
        context.job.check()?;
        if begin.elapsed() >= patience {
            return Err(BusyError::Freeing(holder).into());
        }
        sleep(PAUSE);
    }
}

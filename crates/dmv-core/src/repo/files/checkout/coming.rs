//! A checkout that runs during the transfer that fetches its objects.
//!
//! `dmv-net` uses it for clones.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::layout::RepositoryLocation;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::files::checkout;
use crate::repo::files::checkout::{CheckoutCall, CheckoutOptions, CheckoutReport};
use crate::threads::start_in;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often a waiting thread checks whether the job was cancelled.
const LOOK: Duration = Duration::from_millis(50);

impl Repo {
    /// Writes the files of `commit` while `bring` is still receiving it. Then puts the worktree on
    /// `head`, as [`checkout`](Self::checkout) does.
    ///
    /// `bring` must receive `commit` with everything that it needs. Each file is written as soon as
    /// its content is there. No ref names the commit before `bring` has succeeded. If `bring`
    /// fails, the files that were written stay, with the note that an interrupted checkout leaves.
    /// This note names `go_on`, the command that completes the checkout in the worktree once
    /// `bring` has succeeded.
    pub fn checkout_while<T, E: From<RepoError>>(
        &self,
        (head, commit): (Head, ObjectId),
        go_on: &str,
        options: &CheckoutOptions,
        job: &Job,
        bring: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, CheckoutReport), E> {
        let place = RepositoryLocation {
            dmv: self.dmv.clone(),
            worktree: self.worktree.clone(),
        };
        // The reader has a store of its own, so that the transfer need not wait for its own objects.
        let mut reader = Repo::open_place_on(place, self.vfs.clone())?;
        reader.store.share_blocks_as(&self.store);
        let arrivals = reader.store.follow(&self.store);
        let own_job = Job::default();
        let (tell, told) = channel::<()>();
        let (report, reported) = channel();
        std::thread::scope(|scope| {
            let (reader, own_job) = (&reader, &own_job);
            let started = start_in(scope, move || {
                let is_there = |tx| match told.recv() {
                    Ok(()) => Ok(tx),
                    Err(_) => Err(RepoError::Cancelled),
                };
                let call = CheckoutCall {
                    what: "this checkout",
                    command: go_on,
                    portions: None,
                };
                let done = worktree::lock_worktree(reader).and_then(|lock| {
                    checkout::checkout_locked(
                        reader,
                        &lock,
                        (head, commit),
                        call,
                        options,
                        own_job,
                        is_there,
                    )
                });
                // If `bring` has failed, nobody waits for this result.
                let _ = report.send(done);
            });
            started.map_err(RepoError::from)?;
            let brought = bring();
            // The closure owns `arrivals`, so the waiting ends even if `bring` panics.
            drop(arrivals);
            let brought = match brought {
                Ok(brought) => brought,
                Err(e) => {
                    own_job.cancel();
                    // Whoever wants to know how much room this needs counts the files, too.
                    job.progress.add_total(&own_job.progress);
                    // All files are written. Wait for the result of `bring` before they count.
                    drop(tell);
                    return Err(e);
                }
            };
            let _ = tell.send(());
            // What came is counted. From now on, what is written counts.
            job.begin_part();
            loop {
                match reported.recv_timeout(LOOK) {
                    Ok(report) => return Ok((brought, report?)),
                    Err(RecvTimeoutError::Disconnected) => return Err(RepoError::Cancelled.into()),
                    Err(RecvTimeoutError::Timeout) => pass_on(job, own_job),
                }
            }
        })
    }
}

/// Passes a request to cancel on to a job's second thread, and that thread's progress to the job.
fn pass_on(job: &Job, own_job: &Job) {
    if job.is_cancelled() {
        own_job.cancel();
    }
    job.progress.follow(&own_job.progress);
}

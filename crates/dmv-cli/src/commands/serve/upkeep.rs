//! Repacking beside a server, where a setting allows it.

use crate::context::now;
use crate::prelude::*;
use dmv_core::job::Job;
use dmv_core::repo::{BusyError, RepackOptions, RepackReport, RepositoryLocation};
use dmv_core::threads;
use dmv_core::threads::NoThread;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest run. What is left waits for the next one.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// Repacks a repository a while after the last push. Ends when it is dropped.
pub struct Upkeep {
    wake: Option<Sender<()>>,
    job: Arc<Job>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts it for the repository at `place`: `quiet` is the time since the last push, or since the start,
    /// after which it repacks. `tell` hears what came of each run that changed something.
    pub fn start(
        place: RepositoryLocation,
        quiet: Duration,
        tell: impl Fn(Result<RepackReport, RepoError>) + Send + 'static,
    ) -> Result<Upkeep, NoThread> {
        let (wake, woken) = channel();
        let job = Arc::new(Job::default());
        let own = job.clone();
        let thread = threads::start(move || {
            while is_quiet(&woken, quiet) {
                match repack(&place, &own) {
                    // Another command frees space; the next push wakes this one again.
                    Err(RepoError::Busy(BusyError::Freeing(_)) | RepoError::Cancelled) => {}
                    Ok(done) if done.copied_bytes == 0 => {}
                    done => tell(done),
                }
                if woken.recv().is_err() {
                    return;
                }
            }
        })?;
        Ok(Upkeep {
            wake: Some(wake),
            job,
            thread: Some(thread),
        })
    }

    /// Notes that something was pushed.
    pub fn wake(&self) {
        if let Some(wake) = &self.wake {
            // Nobody listens after a panic, which the end reports.
            let _ = wake.send(());
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.wake = None;
        self.job.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until nothing was pushed for a while. Returns `false` at the end.
fn is_quiet(woken: &Receiver<()>, quiet: Duration) -> bool {
    loop {
        match woken.recv_timeout(quiet) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

fn repack(place: &RepositoryLocation, job: &Job) -> Result<RepackReport, RepoError> {
    let options = RepackOptions {
        now: now(),
        until: Instant::now().checked_add(LONGEST),
        dry_run: false,
    };
    // It has the locks of a command of its own, and sees what the server has stored.
    Repo::open_place(place.clone())?.repack(&options, job)
}

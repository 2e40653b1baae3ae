//! The state of the worktree, found on threads of their own: a page waits for it a moment, and shows
//! the rest of itself if that is too short. Then its script asks for it once more.

use crate::program::{Program, Stop};
use dmv_core::job::Job;
use dmv_core::repo::{Repo, StatusOptions, StatusReport};
use dmv_core::threads;
use dmv_core::worktree::select::Paths;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks that are kept for the script of their page.
const MAX_KEPT: usize = 4;

/// Looks at the worktree that are under way, or wait for the script of their page.
#[derive(Default)]
pub struct Looking(Mutex<(u64, VecDeque<Look>)>);

/// One look at the worktree.
#[derive(Clone)]
pub struct Look {
    /// Names it in the address that the script asks for.
    pub number: u64,
    job: Arc<Job>,
    ended: Arc<(Mutex<End>, Condvar)>,
}

#[derive(Default)]
enum End {
    #[default]
    UnderWay,
    Here(Box<Found>),
    Told,
}

type Found = Result<StatusReport, Stop>;

impl Looking {
    /// Begins a look. Each page has one of its own: an older one may have passed a file before it changed.
    pub fn begin(&self, repo: &Arc<Repo>, program: &dyn Program) -> Result<Look, Stop> {
        let settings = program.settings().map_err(Stop::Told)?;
        let (job, ended) = (Arc::new(Job::default()), Arc::default());
        let look = {
            let mut looks = lock(&self.0);
            looks.0 += 1;
            let look = Look {
                number: looks.0,
                job: job.clone(),
                ended: Arc::clone(&ended),
            };
            looks.1.push_back(look.clone());
            if looks.1.len() > MAX_KEPT
                && let Some(oldest) = looks.1.pop_front()
            {
                oldest.job.cancel();
            }
            look
        };
        let repo = repo.clone();
        threads::start(move || {
            let select = &Paths::default();
            let found = repo.status(&StatusOptions { select, settings }, &job);
            *lock(&ended.0) = End::Here(Box::new(found.map_err(Stop::from)));
            ended.1.notify_all();
        })
        .map_err(dmv_core::RepoError::from)?;
        Ok(look)
    }

    /// The look with a number, unless it is forgotten or was told before.
    pub fn find(&self, number: u64) -> Option<Look> {
        let looks = lock(&self.0);
        looks.1.iter().find(|look| look.number == number).cloned()
    }

    /// Forgets a look that was told.
    pub fn told(&self, number: u64) {
        lock(&self.0).1.retain(|look| look.number != number);
    }

    /// Ends all looks.
    pub fn stop(&self) {
        for look in &lock(&self.0).1 {
            look.job.cancel();
        }
    }
}

impl Look {
    /// What was found, once. `None` if it takes longer than `most`, or was told before.
    pub fn wait(&self, most: Duration) -> Option<Found> {
        let begun = Instant::now();
        let mut end = lock(&self.ended.0);
        while matches!(*end, End::UnderWay) {
            let left = most.checked_sub(begun.elapsed())?;
            let woken = self.ended.1.wait_timeout(end, left);
            end = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        match std::mem::replace(&mut *end, End::Told) {
            End::Here(found) => Some(*found),
            End::UnderWay | End::Told => None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

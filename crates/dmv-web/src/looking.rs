//! The state of the worktree, found on threads of their own: a page waits for it a moment, and shows
//! the rest of itself if that is too short. Then its script asks for it once more.

use crate::program::{Program, ShownFailure, Stop};
use dmv_core::job::Job;
use dmv_core::repo::{Rename, Repo, RepoError, StatusOptions, StatusReport};
use dmv_core::threads;
use dmv_core::worktree::select::Paths;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks that are under way, or kept for the script of their page.
const MAX_KEPT: usize = 4;
/// A look that no page has asked for so long is given up for another one.
const FORGOTTEN: Duration = Duration::from_secs(15);

/// Looks at the worktree that are under way, or wait for the script of their page.
#[derive(Default)]
pub struct WorktreeLooks(Mutex<(u64, VecDeque<Look>)>);

/// One look at the worktree.
#[derive(Clone)]
pub struct Look {
    /// Names it in the address that the script asks for.
    pub number: u64,
    job: Arc<Job>,
    ended: Arc<(Mutex<End>, Condvar)>,
    asked: Instant,
}

#[derive(Default)]
enum End {
    #[default]
    UnderWay,
    Here(Box<LookResult>),
    Told,
}

type LookResult = Result<WorktreeState, Stop>;

/// What a look has found.
pub struct WorktreeState {
    /// The differences between the worktree and its commit.
    pub status: StatusReport,
    /// Which of them are files that were moved.
    pub renames: Vec<Rename>,
}

impl WorktreeState {
    /// Looks at the worktree as `dmv status` does.
    pub fn find(
        repo: &Repo,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<WorktreeState, RepoError> {
        let status = repo.status(options, job)?;
        let renames = repo.renames(&status.changes, job)?.list;
        Ok(WorktreeState { status, renames })
    }
}

impl WorktreeLooks {
    /// Begins a look. Each page has one of its own: an older one may have passed a file before it changed. There are only
    /// some at a time, because each may read large files.
    pub fn begin(&self, repo: &Arc<Repo>, program: &dyn Program) -> Result<Look, Stop> {
        let settings = program.settings().map_err(Stop::Told)?;
        let (job, ended) = (Arc::new(Job::default()), Arc::default());
        let look = {
            let mut looks = lock(&self.0);
            let looks = &mut *looks;
            make_room(&mut looks.1)?;
            looks.0 += 1;
            let look = Look {
                number: looks.0,
                job: job.clone(),
                ended: Arc::clone(&ended),
                asked: Instant::now(),
            };
            looks.1.push_back(look.clone());
            look
        };
        let repo = repo.clone();
        threads::start(move || {
            let select = &Paths::default();
            let options = StatusOptions { select, settings };
            let found = WorktreeState::find(&repo, &options, &job);
            *lock(&ended.0) = End::Here(Box::new(found.map_err(Stop::from)));
            ended.1.notify_all();
        })
        .map_err(RepoError::from)?;
        Ok(look)
    }

    /// The look with a number, unless it is forgotten or was told before.
    pub fn find(&self, number: u64) -> Option<Look> {
        let mut looks = lock(&self.0);
        let look = looks.1.iter_mut().find(|look| look.number == number)?;
        look.asked = Instant::now();
        Some(look.clone())
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

/// Gives up a look for another one: a finished one, or one that no page asks for any more.
fn make_room(looks: &mut VecDeque<Look>) -> Result<(), Stop> {
    if looks.len() < MAX_KEPT {
        return Ok(());
    }
    let is_over = |look: &Look| !matches!(*lock(&look.ended.0), End::UnderWay);
    let spare = looks.iter().position(is_over);
    let spare = spare.or_else(|| {
        let is_forgotten = |look: &Look| look.asked.elapsed() > FORGOTTEN;
        looks.iter().position(is_forgotten)
    });
    let busy = || {
        Stop::Told(ShownFailure {
            code: "busy".to_owned(),
            exit: 11,
            message: "other pages are comparing your files just now; try again when one has ended"
                .to_owned(),
            hint: None,
        })
    };
    let look = spare.and_then(|at| looks.remove(at)).ok_or_else(busy)?;
    look.job.cancel();
    Ok(())
}

impl Look {
    /// How many bytes it has read.
    pub fn bytes(&self) -> u64 {
        self.job.progress.bytes.load(Ordering::Relaxed)
    }

    /// What was found, once. `None` if it takes longer than `most`, or was told before.
    pub fn wait(&self, most: Duration) -> Option<LookResult> {
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

//! A change under way, on a thread of its own: the form waits for it a moment, and then a page tells how far it is.
//! There is one change at a time, and beside it one transfer, so that nobody has to wait for a remote to commit.

use crate::program::ShownFailure;
use dmv_core::job::Job;
use hyper::StatusCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What came of a change.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Whether it failed.
    pub failed: bool,
    /// What happened.
    pub text: String,
    /// More lines: warnings, a hint.
    pub more: Vec<String>,
}

/// What came of a change: a note, or the failure and the status of an answer that has it.
pub type Outcome = Result<Note, (StatusCode, ShownFailure)>;

/// What changes wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Changes of files and branches here.
    Files,
    /// What goes to remotes and comes from them.
    Transfers,
}

impl Lane {
    /// The lane of the form `verb`.
    pub fn of(verb: &str) -> Lane {
        match verb {
            "push" | "fetch" | "pull" | "claim" | "release" => Lane::Transfers,
            _ => Lane::Files,
        }
    }

    /// The page that tells how far its change is.
    pub fn page(self) -> &'static str {
        match self {
            Lane::Files => "/doing",
            Lane::Transfers => "/transfer",
        }
    }

    /// What its changes are called.
    pub fn word(self) -> &'static str {
        match self {
            Lane::Files => "change",
            Lane::Transfers => "transfer",
        }
    }
}

/// The change that is under way, or was the last one.
#[derive(Default)]
pub struct CurrentChange {
    last: Mutex<Option<Change>>,
    ended: Condvar,
}

struct Change {
    number: u64,
    verb: &'static str,
    back: String,
    job: Arc<Job>,
    begun: Instant,
    stopped: bool,
    outcome: Option<Outcome>,
}

/// What a page tells of a change.
pub struct ChangeState {
    /// What the form asked for.
    pub verb: &'static str,
    /// The page to go to when it has ended.
    pub back: String,
    /// Bytes that it has read or written.
    pub bytes: u64,
    /// How many there are; 0 if that is unknown.
    pub total_bytes: u64,
    /// Files that it has read or written.
    pub files: u64,
    /// Since when it has been under way.
    pub time: Duration,
    /// Whether somebody has stopped it. It may go on to the next safe point.
    pub stopped: bool,
    /// What came of it.
    pub outcome: Option<Outcome>,
}

/// The right to make a change. It ends with the change, also if that panics.
pub struct Turn {
    doing: Arc<CurrentChange>,
    /// Names the change.
    pub number: u64,
    /// Its progress.
    pub job: Arc<Job>,
}

impl Turn {
    /// Begins a change. `None`: another one is under way.
    pub fn begin(doing: &Arc<CurrentChange>, verb: &'static str, back: &str) -> Option<Turn> {
        let mut last = doing.lock();
        if last.as_ref().is_some_and(|change| change.outcome.is_none()) {
            return None;
        }
        let number = last.as_ref().map_or(1, |change| change.number + 1);
        let job = Arc::new(Job::default());
        *last = Some(Change {
            number,
            verb,
            back: back.to_owned(),
            job: job.clone(),
            begun: Instant::now(),
            stopped: false,
            outcome: None,
        });
        Some(Turn {
            doing: doing.clone(),
            number,
            job,
        })
    }

    /// Whether somebody has stopped it.
    pub fn is_stopped(&self) -> bool {
        let last = self.doing.lock();
        let own = last.as_ref().filter(|change| change.number == self.number);
        own.is_some_and(|change| change.stopped)
    }

    /// Notes what came of it.
    pub fn end(self, outcome: Outcome) {
        self.doing.note(self.number, outcome);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let told = ShownFailure {
            code: "fault".to_owned(),
            exit: 20,
            message: "the change ended because of a fault in dmv".to_owned(),
            hint: Some("open the overview, which says what has changed".to_owned()),
        };
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        self.doing.note(self.number, Err((status, told)));
    }
}

impl CurrentChange {
    /// Waits for the end of a change, but not longer than `most`.
    pub fn wait(&self, number: u64, most: Duration) -> Option<Outcome> {
        let begun = Instant::now();
        let mut last = self.lock();
        loop {
            let change = last.as_ref().filter(|change| change.number == number)?;
            if let Some(outcome) = &change.outcome {
                return Some(outcome.clone());
            }
            let left = most.checked_sub(begun.elapsed())?;
            let woken = self.ended.wait_timeout(last, left);
            last = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The change that is under way, or was the last one.
    pub fn seen(&self) -> Option<ChangeState> {
        let last = self.lock();
        let change = last.as_ref()?;
        let progress = &change.job.progress;
        Some(ChangeState {
            verb: change.verb,
            back: change.back.clone(),
            bytes: progress.bytes.load(Ordering::Relaxed),
            total_bytes: progress.total_bytes.load(Ordering::Relaxed),
            files: progress.files.load(Ordering::Relaxed),
            time: change.begun.elapsed(),
            stopped: change.stopped,
            outcome: change.outcome.clone(),
        })
    }

    /// Whether a change is under way.
    pub fn is_busy(&self) -> bool {
        let last = self.lock();
        last.as_ref().is_some_and(|change| change.outcome.is_none())
    }

    /// Stops the change that is under way: it ends soon, and says that somebody stopped it.
    pub fn cancel(&self) {
        if let Some(change) = &mut *self.lock()
            && change.outcome.is_none()
        {
            change.stopped = true;
            change.job.cancel();
        }
    }

    /// Waits until no change is under way, but not longer than `most`.
    pub fn rest(&self, most: Duration) {
        let number = self.lock().as_ref().map(|change| change.number);
        if let Some(number) = number {
            let _ = self.wait(number, most);
        }
    }

    fn note(&self, number: u64, outcome: Outcome) {
        if let Some(change) = &mut *self.lock()
            && change.number == number
        {
            change.outcome.get_or_insert(outcome);
        }
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Change>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

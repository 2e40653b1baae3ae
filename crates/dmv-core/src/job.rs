//! Long work: how far it is, and whether it should stop.
//!
//! Workers add to plain counters; whoever draws them looks now and then. Nothing calls back up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A piece of long work, shared by its threads and whoever watches it.
#[derive(Debug, Default)]
pub struct Job {
    cancel: Arc<AtomicBool>,
    probe: Option<Probe>,
    /// What has been done so far.
    pub progress: Progress,
}

/// Counters that only grow, but for the totals, which are estimates.
#[derive(Debug, Default)]
pub struct Progress {
    /// Files and symlinks looked at or written.
    pub files: AtomicU64,
    /// Bytes of content read or written.
    pub bytes: AtomicU64,
    /// Bytes of content that the store did not have yet.
    pub new_bytes: AtomicU64,
    /// Objects that came from a peer or went to one.
    pub objects: AtomicU64,
    /// Files there will be, when known; else 0.
    pub total_files: AtomicU64,
    /// Bytes there will be, when known; else 0.
    pub total_bytes: AtomicU64,
    /// How far that is known, as a [`Bound`].
    total_bound: AtomicU8,
}

/// How far a total is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// It is so much.
    #[default]
    Exact,
    /// It is so much, and may turn out to be more.
    AtLeast,
    /// It is so much, and may turn out to be less.
    AtMost,
}

impl Progress {
    /// Says how many bytes are still to come, besides those that have.
    pub fn foresee(&self, bytes: u64, bound: Bound) {
        let total = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        self.total_bytes.store(total, Ordering::Relaxed);
        self.total_bound.store(bound as u8, Ordering::Relaxed);
    }

    /// How far the total of bytes is known.
    pub fn total_bound(&self) -> Bound {
        let number = self.total_bound.load(Ordering::Relaxed);
        let bounds = [Bound::Exact, Bound::AtLeast, Bound::AtMost];
        let known = bounds.into_iter().find(|bound| *bound as u8 == number);
        known.unwrap_or_default()
    }
}

/// What a test sets to look in between the steps of a change of the worktree.
pub struct Probe {
    /// Files that are planned at a time.
    pub portion: usize,
    /// Called at each moment, on the thread that does the work.
    pub at: Box<dyn Fn(Moment) + Send + Sync>,
}

/// A point between two steps of a change of the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The worktree was compared with its base.
    Scanned,
    /// It is decided that nothing would be lost; nothing is touched yet.
    Checked,
    /// A portion is about to be carried out.
    Portion,
    /// A file or symlink was looked at for the last time, and is about to be replaced or removed.
    Replacing,
    /// Everything is written. What was replaced is about to be removed for good.
    Written,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe")
            .field("portion", &self.portion)
            .finish_non_exhaustive()
    }
}

impl Job {
    /// A job that a test looks into.
    pub fn with_probe(probe: Probe) -> Job {
        Job {
            probe: Some(probe),
            ..Job::default()
        }
    }

    /// Tells a test, if one looks in, how far the work is.
    pub fn reached(&self, moment: Moment) {
        if let Some(probe) = &self.probe {
            (probe.at)(moment);
        }
    }

    /// How many files are planned at a time where `usual` is the usual number.
    pub fn portion(&self, usual: usize) -> usize {
        self.probe.as_ref().map_or(usual, |probe| probe.portion)
    }

    /// Asks the work to stop at the next safe point.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// The flag itself, for rooms that know nothing of jobs.
    pub fn cancel_flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// The same, for what may outlive the job.
    pub fn cancel_handle(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    /// Sets all counters back, for the next part of a job that has several.
    pub fn begin_part(&self) {
        let Progress {
            files,
            bytes,
            new_bytes,
            objects,
            total_files,
            total_bytes,
            total_bound,
        } = &self.progress;
        for counter in [files, bytes, new_bytes, objects, total_files, total_bytes] {
            counter.store(0, Ordering::Relaxed);
        }
        total_bound.store(Bound::Exact as u8, Ordering::Relaxed);
    }

    /// Adds `n` to a counter of [`Progress`].
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

//! Progress counters and the cancel flag of one long task.
//!
//! Workers add to plain counters, and the program reads them from time to time. Nothing calls back
//! up from the library. The module uses no other module. `worktree`, `repo`, `dmv-net` and the
//! program use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A long task, shared by its threads and its observers.
#[derive(Debug, Default)]
pub struct Job {
    cancel: Arc<AtomicBool>,
    totals: AtomicBool,
    probe: Option<Probe>,
    /// What the task has done so far.
    pub progress: Progress,
}

/// A task ends early because it was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Counters of finished work, and totals, which are estimates. Counters only grow.
#[derive(Debug, Default)]
pub struct Progress {
    /// Files and symlinks that were examined or written.
    pub files: AtomicU64,
    /// Bytes of content that were read or written.
    pub bytes: AtomicU64,
    /// Bytes of content that the store did not have before.
    pub new_bytes: AtomicU64,
    /// Objects that were received from or sent to a peer.
    pub objects: AtomicU64,
    /// Files that were written without all of their extended attributes, since the file system refused them.
    pub without_xattrs: AtomicU64,
    /// Expected number of files; 0 if unknown.
    pub total_files: AtomicU64,
    /// Expected number of bytes; 0 if unknown.
    pub total_bytes: AtomicU64,
    /// How exact `total_bytes` is, as a [`Bound`].
    total_bound: AtomicU8,
}

/// How exact a total is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// The total is exact.
    #[default]
    Exact,
    /// The total may turn out to be greater.
    AtLeast,
    /// The total may turn out to be smaller.
    AtMost,
}

impl Progress {
    /// Sets the total to the bytes counted so far plus `bytes` that are still to come.
    pub fn foresee(&self, bytes: u64, bound: Bound) {
        let total = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        self.total_bytes.store(total, Ordering::Relaxed);
        self.total_bound.store(bound as u8, Ordering::Relaxed);
    }

    /// Shows what another job counts: the files and bytes, and their totals.
    pub(crate) fn follow(&self, other: &Progress) {
        for (to, from) in [
            (&self.files, &other.files),
            (&self.bytes, &other.bytes),
            (&self.total_files, &other.total_files),
            (&self.total_bytes, &other.total_bytes),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let bound = other.total_bound() as u8;
        self.total_bound.store(bound, Ordering::Relaxed);
    }

    /// Adds the bytes that another job was to do as well.
    pub(crate) fn add_total(&self, other: &Progress) {
        let bytes = other.total_bytes.load(Ordering::Relaxed);
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Sets the totals to what is counted so far plus `files` and `bytes` that are still to come.
    pub(crate) fn foresee_files(&self, files: u64, bytes: u64) {
        let total = self.files.load(Ordering::Relaxed).saturating_add(files);
        self.total_files.store(total, Ordering::Relaxed);
        self.foresee(bytes, Bound::Exact);
    }

    /// Sets the totals of files and bytes.
    pub fn expect(&self, files: u64, bytes: u64, bound: Bound) {
        self.total_files.store(files, Ordering::Relaxed);
        self.total_bytes.store(bytes, Ordering::Relaxed);
        self.total_bound.store(bound as u8, Ordering::Relaxed);
    }

    /// Returns how exact the total of bytes is.
    pub fn total_bound(&self) -> Bound {
        let number = self.total_bound.load(Ordering::Relaxed);
        let bounds = [Bound::Exact, Bound::AtLeast, Bound::AtMost];
        let known = bounds.into_iter().find(|bound| *bound as u8 == number);
        known.unwrap_or_default()
    }
}

/// A test's hook into the steps of a change of the worktree.
pub struct Probe {
    /// Number of files that are planned at a time.
    pub portion: usize,
    /// A function that is called at each moment, on the thread that does the work.
    pub at: Box<dyn Fn(Moment) + Send + Sync>,
}

/// A point between two steps of a change of the worktree, or of freeing space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The worktree has been compared with its base.
    Scanned,
    /// The check has found that nothing would be lost. No file has been touched yet.
    Checked,
    /// A portion of the files is about to be written.
    Portion,
    /// A file or symlink has been compared for the last time, and is about to be replaced or
    /// removed.
    Replacing,
    /// `gc` knows the places of all objects.
    Mapped,
    /// `gc` has marked everything that must stay.
    Marked,
    /// What stays of a pack has been copied and published.
    Copied,
    /// Packs are about to be taken out of use.
    Condemning,
    /// Packs are out of use, and their files have been removed.
    Unlinked,
    /// All files are written. The replaced files are about to be deleted.
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
    /// Returns a job that calls a test's hook.
    pub fn with_probe(probe: Probe) -> Job {
        Job {
            probe: Some(probe),
            ..Job::default()
        }
    }

    /// Reports `moment` to the test's hook, if there is one.
    pub fn reached(&self, moment: Moment) {
        if let Some(probe) = &self.probe {
            (probe.at)(moment);
        }
    }

    /// Returns how many files to plan at a time: `usual`, unless a test's hook sets another number.
    pub fn portion(&self, usual: usize) -> usize {
        self.probe.as_ref().map_or(usual, |probe| probe.portion)
    }

    /// Asks for totals, even if they cost something to find out.
    pub fn ask_for_totals(&self) {
        self.totals.store(true, Ordering::Relaxed);
    }

    /// Returns whether the caller wants totals that cost something.
    pub(crate) fn wants_totals(&self) -> bool {
        self.totals.load(Ordering::Relaxed)
    }

    /// Asks the task to stop at the next safe point.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Returns whether the task was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Fails if the task was asked to stop.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }

    /// Returns the cancel flag itself, for rooms that know nothing of jobs.
    pub fn cancel_flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// Returns a shared handle of the cancel flag, for owners that may outlive the job.
    pub fn cancel_handle(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    /// Resets all counters, for the next part of a job with several parts.
    pub fn begin_part(&self) {
        let Progress {
            files,
            bytes,
            new_bytes,
            objects,
            total_files,
            total_bytes,
            total_bound,
            // Told when the whole job has ended.
            without_xattrs: _,
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

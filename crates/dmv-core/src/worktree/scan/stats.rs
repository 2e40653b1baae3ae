//! Stats of a directory's entries, in slices that any worker can take.

use super::classify::needs_stat;
use super::{NONE, Pair, lock, wait};
use crate::fsutil::{FileStat, Fingerprint, Listing, SafeDir};
use crate::platform::SystemError;
use crate::worktree::statcache::Section;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Entries that a worker stats at a time if a directory is large enough to be shared.
pub(super) const SLICE: usize = 4096;

/// The stats of a large directory, taken slice by slice.
pub(super) struct StatWork {
    dir: Arc<SafeDir>,
    listing: Arc<Listing>,
    known: Option<Arc<Section>>,
    pairs: Arc<Vec<Pair>>,
    next: AtomicUsize,
    done: Mutex<StatsDone>,
    all_done: Condvar,
}

struct StatsDone {
    slices: Vec<Vec<Stat>>,
    missing: usize,
}

/// The index of a pair, and its stat. Pairs that are known to be unchanged are left out.
pub(super) type Stat = (u32, Result<FileStat, SystemError>);

impl StatWork {
    pub(super) fn new(
        dir: Arc<SafeDir>,
        listing: Arc<Listing>,
        known: Option<Arc<Section>>,
        pairs: Arc<Vec<Pair>>,
    ) -> StatWork {
        let slices = pairs.len().div_ceil(SLICE);
        StatWork {
            dir,
            listing,
            known,
            pairs,
            next: AtomicUsize::new(0),
            done: Mutex::new(StatsDone {
                slices: vec![Vec::new(); slices],
                missing: slices,
            }),
            all_done: Condvar::new(),
        }
    }

    /// Waits until every slice is done. Returns all stats, in order.
    pub(super) fn wait(&self) -> Vec<Stat> {
        let mut done = lock(&self.done);
        while done.missing > 0 {
            done = wait(&self.all_done, done);
        }
        std::mem::take(&mut done.slices).concat()
    }

    /// Returns whether there are slices to take.
    pub(super) fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) * SLICE < self.pairs.len()
    }

    /// Takes slices until none is left.
    pub(super) fn run(&self, cancel: &AtomicBool) {
        loop {
            let slice = self.next.fetch_add(1, Ordering::Relaxed);
            let start = slice * SLICE;
            if start >= self.pairs.len() {
                return;
            }
            let mut finish = FinishSlice {
                work: self,
                slice,
                stats: Vec::new(),
            };
            // A cancelled slice counts as done, so that no thread waits for it. Its owner checks
            // the flag before it uses any.
            if !cancel.load(Ordering::Relaxed) {
                let range = start..(start + SLICE).min(self.pairs.len());
                let known = self.known.as_deref();
                let stats = &mut finish.stats;
                stat_pairs(&self.dir, &self.listing, known, &self.pairs, range, stats);
            }
        }
    }
}

/// Counts a slice as done when it is dropped, even after a panic: the owner waits for it.
struct FinishSlice<'a> {
    work: &'a StatWork,
    slice: usize,
    stats: Vec<Stat>,
}

impl Drop for FinishSlice<'_> {
    fn drop(&mut self) {
        let mut done = lock(&self.work.done);
        done.slices[self.slice] = std::mem::take(&mut self.stats);
        done.missing -= 1;
        if done.missing == 0 {
            self.work.all_done.notify_all();
        }
    }
}

pub(super) fn stat_pairs(
    dir: &SafeDir,
    listing: &Listing,
    known: Option<&Section>,
    pairs: &[Pair],
    range: Range<usize>,
    out: &mut Vec<Stat>,
) {
    for i in range {
        let pair = pairs[i];
        if pair.listed == NONE {
            continue;
        }
        let entry = match known {
            Some(section) if pair.known != NONE => Some(section.get(pair.known as usize)),
            _ => None,
        };
        if !needs_stat(listing.kind(pair.listed as usize), entry.map(|e| e.kind)) {
            continue;
        }
        let listed = listing.fingerprint(pair.listed as usize);
        if listed != Fingerprint::SUSPECT && entry.is_some_and(|e| e.fingerprint == listed) {
            continue;
        }
        let stat = dir.try_stat(listing.name(pair.listed as usize));
        let clean = match (&stat, entry) {
            (Ok(stat), Some(entry)) => {
                entry.fingerprint != Fingerprint::SUSPECT && entry.fingerprint == stat.fingerprint()
            }
            _ => false,
        };
        if !clean {
            out.push((i as u32, stat));
        }
    }
}

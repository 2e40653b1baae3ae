//! Which entries of a worktree may differ from the base commit.
//!
//! Worker threads list directories and stat the known entries. The results reach the caller one
//! directory at a time, depth first. Each directory comes before its subdirectories, and these come
//! in the order of their names, whatever order the workers finish in. A bound limits how far
//! workers may run ahead. The scan opens nothing except directories and ignore files, never follows
//! symlinks, and reads no content. An entry whose stat shows nothing certain is [`State::Suspect`].

mod classify;
mod dirs;
mod inputs;
mod inside;
mod queue;
mod sort;
mod stats;
#[cfg(all(test, unix))]
mod tests;

pub use self::inputs::{BaseEntries, EmptyBase, Everything, Select};

use self::classify::classify;
use self::dirs::{Handle, OpenDirs};
use self::queue::{Job, Queue};
use self::sort::sorted;
use self::stats::{SLICE, Stat, StatWork, stat_pairs};
use super::ignore::{IgnoreFault, IgnoreRules, RuleFiles, Verdict};
use super::statcache::Section;
use super::{Skip, join};
use crate::fsutil::{FileKind, FileStat, Listing, SafeDir};
use crate::limits::{MAX_DIR_ENTRIES, MAX_PATH_BYTES, MAX_PATH_DEPTH};
use crate::object::name::escape;
use crate::object::tree::Kind;
use crate::path::PathError;
use crate::platform::{Cause, cause_of};
use crate::subset::Subset;
use crate::threads::{cores, start_in};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Stands for "absent" in a [`Pair`].
const NONE: u32 = u32::MAX;

/// The input of a scan.
#[derive(Clone, Copy)]
pub struct ScanOptions<'a> {
    /// The entries that should be there.
    pub known: &'a dyn BaseEntries,
    /// The rules above the worktree's root.
    pub ignore: &'a IgnoreRules,
    /// The part to scan.
    pub select: &'a dyn Select,
    /// The subset of the worktree. `known` has no other entries.
    pub subset: &'a Subset,
    /// Whether ignored entries are reported one by one, not only counted.
    pub list_ignored: bool,
    /// Whether to skip directories on other file systems than the root's.
    pub one_file_system: bool,
    /// Number of threads, with the caller's; 0 for one per processor, at least two.
    pub threads: usize,
    /// Ends the scan when it is set.
    pub cancel: &'a AtomicBool,
}

/// Why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The caller cancelled the scan.
    #[error("cancelled")]
    Cancelled,
    /// The known entries could not be read. With the base tree in place of the stat cache the scan
    /// may succeed.
    #[error("cannot read the stored state of directory {}: {source}", escape(dir))]
    Base {
        /// The directory.
        dir: Vec<u8>,
        /// The error of the provider.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// This process may not open more files, or is out of memory.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Whether a directory could be read.
#[derive(Debug)]
pub enum Outcome {
    /// It was read.
    Read,
    /// It was not read. Its known entries may or may not be there.
    Unreadable(PathError),
    /// It existed when its parent was read, but not any more.
    Vanished,
    /// It is on another file system, and was skipped.
    OtherFileSystem,
    /// It is deeper, or its path longer, than DMV's limits.
    TooDeep,
}

/// What a scan reports about an entry that is not known to be unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// In the base commit and on disk, and perhaps changed: the content must be compared.
    Suspect {
        /// Its kind in the base commit.
        kind: Kind,
        /// Its present stat. The executable bit may differ from the base commit's.
        stat: &'a FileStat,
    },
    /// Not in the base commit: a file or a symlink.
    New {
        /// Which of the two it is.
        kind: FileKind,
    },
    /// In the base commit, but not on disk.
    Gone {
        /// Its kind in the base commit. A directory may have more below it.
        kind: Kind,
    },
    /// On disk with another kind than in the base commit. The entries of a directory follow as new
    /// ones.
    TypeChanged {
        /// Its kind in the base commit.
        was: Kind,
        /// Its kind on disk: a file, a symlink or a directory.
        now: FileKind,
    },
    /// A directory. Its own result follows, unless the scan does not enter it.
    Dir {
        /// Whether the base commit has it, too.
        known: bool,
    },
    /// Not in the base commit, and ignored. A directory is not entered.
    Ignored {
        /// Its kind.
        kind: FileKind,
    },
    /// Not in the base commit, and it is unknown whether it is ignored. A directory is not entered.
    Held {
        /// Its kind.
        kind: FileKind,
    },
    /// Outside of the worktree's subset. The scan does not look whether the base commit has it, and
    /// does not enter a directory.
    Outside {
        /// Its kind.
        kind: FileKind,
    },
    /// Skipped.
    Skipped {
        /// The kind that the base commit has at this path, if any.
        known: Option<Kind>,
        /// The reason.
        reason: Skip,
    },
}

/// The result of a scan for one directory.
///
/// Entries whose fingerprints show that they equal the base commit are counted, not listed. A new
/// stat cache takes them from [`known`](Self::known).
#[derive(Debug)]
pub struct DirScan {
    /// The directory.
    pub path: Vec<u8>,
    /// Whether it could be read. If not, there are no entries.
    pub outcome: Outcome,
    /// The entries that should be there; `None` if the base commit has no such directory.
    pub known: Option<Arc<Section>>,
    /// Number of files and symlinks that are known to be unchanged.
    pub clean: usize,
    /// Number of ignored entries.
    pub ignored: usize,
    /// Number of entries of which it is unknown whether they are ignored.
    pub held: usize,
    /// The directory's own stat, taken before it was read, if it has exactly the known names, each
    /// of the known kind. A section's [`set_dir_fingerprint`](Section::set_dir_fingerprint) needs
    /// the trusted fingerprint of this stat.
    pub exact: Option<FileStat>,
    /// Whether the directory itself is missing. Content outside of the subset keeps it in the tree,
    /// so only its known entries count as removed.
    pub absent: bool,
    /// The faults in the directory's ignore files; for the root also in the user's.
    pub faults: Vec<IgnoreFault>,
    /// The ignore rules in the directory, and whether they cover the directory itself.
    rules: (IgnoreRules, bool),
    listing: Arc<Listing>,
    entries: Vec<Entry>,
    stats: Vec<FileStat>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    pair: Pair,
    state: StateWithStat,
}

/// A name on disk and in the base commit: its index in either, or [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Pair {
    listed: u32,
    known: u32,
}

/// A [`State`] with the index of the stat in its place.
#[derive(Clone, Copy, Debug)]
enum StateWithStat {
    Suspect(Kind, u32),
    New(FileKind),
    Gone(Kind),
    TypeChanged(Kind, FileKind),
    Dir(bool),
    Ignored(FileKind),
    Held(FileKind),
    Outside(FileKind),
    Skipped(Option<Kind>, Skip),
}

impl DirScan {
    fn empty(path: Vec<u8>, outcome: Outcome, known: Option<Arc<Section>>) -> DirScan {
        DirScan {
            path,
            outcome,
            known,
            clean: 0,
            ignored: 0,
            held: 0,
            exact: None,
            absent: false,
            faults: Vec::new(),
            rules: Default::default(),
            listing: Arc::default(),
            entries: Vec::new(),
            stats: Vec::new(),
        }
    }

    /// Returns the entries that are not known to be unchanged, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], State<'_>)> {
        self.entries.iter().map(|entry| {
            let name = match (&self.known, entry.pair.listed) {
                (Some(known), NONE) => known.get(entry.pair.known as usize).name,
                (_, listed) => self.listing.name(listed as usize),
            };
            let state = match entry.state {
                StateWithStat::Suspect(kind, index) => State::Suspect {
                    kind,
                    stat: &self.stats[index as usize],
                },
                StateWithStat::New(kind) => State::New { kind },
                StateWithStat::Gone(kind) => State::Gone { kind },
                StateWithStat::TypeChanged(was, now) => State::TypeChanged { was, now },
                StateWithStat::Dir(known) => State::Dir { known },
                StateWithStat::Ignored(kind) => State::Ignored { kind },
                StateWithStat::Held(kind) => State::Held { kind },
                StateWithStat::Outside(kind) => State::Outside { kind },
                StateWithStat::Skipped(known, reason) => State::Skipped { known, reason },
            };
            (name, state)
        })
    }

    /// Returns whether the ignore rules cover the file `name`. They have no effect on a file that the
    /// base commit has.
    pub(crate) fn is_covered(&self, name: &[u8]) -> bool {
        let (rules, is_ignored) = &self.rules;
        let covers = || rules.verdict(&join(&self.path, name), false) == Verdict::Ignored;
        *is_ignored || !rules.is_empty() && covers()
    }

    /// Returns the known directories that the selection leaves out. Nothing is reported about them.
    pub fn left_out(&self, select: &dyn Select) -> Vec<Vec<u8>> {
        let known = self.known.iter().flat_map(|known| known.iter());
        known
            .filter(|e| e.kind == Kind::Directory && !select.takes(&self.path, e.name))
            .map(|e| join(&self.path, e.name))
            .collect()
    }

    /// Returns whether it is a completely empty directory that the base commit does not have.
    pub(crate) fn is_new_and_empty(&self) -> bool {
        self.known.is_none()
            && !self.path.is_empty()
            && matches!(self.outcome, Outcome::Read)
            && self.entries.is_empty()
            && self.ignored == 0
    }
}

/// Scans the worktree at `root`, and passes each directory's result to `consume` on this thread.
///
/// An error of `consume` ends the scan and is returned.
pub fn scan<E: From<ScanError>>(
    root: &SafeDir,
    options: &ScanOptions<'_>,
    mut consume: impl FnMut(DirScan) -> Result<(), E>,
) -> Result<(), E> {
    // What a scan looks at comes from listings.
    let dir = root.any_spelling().map_err(ScanError::Path)?;
    let device = root.stat_self().map_err(ScanError::Path)?.dev;
    let shared = SharedScan::new(options, device, dir);
    let threads = match options.threads {
        0 => cores().max(2),
        n => n,
    };
    std::thread::scope(|scope| {
        // Workers end when the queue says stop, even if `consume` fails or panics.
        let _stop = StopOnDrop(&shared);
        // This thread does the work of one while it waits.
        for _ in 1..threads {
            if start_in(scope, || shared.work()).is_err() {
                // The threads that there are do the work.
                break;
            }
        }
        while let Some(result) = shared.next_result()? {
            consume(result)?;
        }
        Ok(())
    })
}

struct SharedScan<'a> {
    options: &'a ScanOptions<'a>,
    device: u64,
    /// Whether the stat of a directory on the root's device shows that its names are unchanged.
    telling: bool,
    root: Arc<SafeDir>,
    queue: Mutex<Queue>,
    /// Signals that there may be work to take.
    work: Condvar,
    /// Signals that the result at the head may be there.
    ready: Condvar,
    open: OpenDirs,
}

/// What a thread did when it looked for work.
enum Turn<'q> {
    Done(MutexGuard<'q, Queue>),
    /// There is none now.
    Nothing(MutexGuard<'q, Queue>),
    /// The scan has ended with an error.
    Failed,
}

struct StopOnDrop<'a, 'b>(&'a SharedScan<'b>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.stop(None);
    }
}

impl<'a> SharedScan<'a> {
    fn new(options: &'a ScanOptions<'a>, device: u64, root: SafeDir) -> SharedScan<'a> {
        let job = Job {
            parent: None,
            name: Box::default(),
            known: true,
            ignored: false,
            absent: false,
        };
        SharedScan {
            options,
            device,
            telling: root.tells_name_changes(),
            root: Arc::new(root),
            queue: Mutex::new(Queue::new(job)),
            work: Condvar::new(),
            ready: Condvar::new(),
            open: OpenDirs::default(),
        }
    }

    fn stop(&self, error: Option<ScanError>) {
        let mut queue = lock(&self.queue);
        queue.stop = true;
        if queue.error.is_none() {
            queue.error = error;
        }
        self.work.notify_all();
        self.ready.notify_all();
    }

    /// Returns the result of the next directory; `None` after the last.
    fn next_result(&self) -> Result<Option<DirScan>, ScanError> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(error) = queue.error.take() {
                return Err(error);
            }
            if queue.head == NONE || queue.stop {
                return Ok(None);
            }
            if let Some(result) = queue.pop_done() {
                if queue.idle > 0 {
                    self.work.notify_one();
                }
                return Ok(Some(result));
            }
            queue = match self.turn(queue) {
                Turn::Done(queue) => queue,
                Turn::Nothing(mut queue) => {
                    queue.is_awaited = true;
                    queue = wait(&self.ready, queue);
                    queue.is_awaited = false;
                    queue
                }
                Turn::Failed => lock(&self.queue),
            }
        }
    }

    fn work(&self) {
        // A worker that panics must not leave the caller waiting. The scope passes the panic on.
        struct Guard<'a, 'b>(&'a SharedScan<'b>);
        impl Drop for Guard<'_, '_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.stop(None);
                }
            }
        }
        let _guard = Guard(self);
        let mut queue = lock(&self.queue);
        while !queue.stop {
            queue = match self.turn(queue) {
                Turn::Done(queue) => queue,
                Turn::Nothing(mut queue) => {
                    queue.idle += 1;
                    queue = wait(&self.work, queue);
                    queue.idle -= 1;
                    queue
                }
                Turn::Failed => return,
            }
        }
    }

    /// Does one piece of work, if there is any.
    fn turn<'q>(&'q self, mut queue: MutexGuard<'q, Queue>) -> Turn<'q> {
        queue.shared_stats.retain(|work| work.has_more());
        if let Some(work) = queue.shared_stats.first().cloned() {
            drop(queue);
            work.run(self.options.cancel);
            return Turn::Done(lock(&self.queue));
        }
        let Some((node, job)) = queue.take_job() else {
            return Turn::Nothing(queue);
        };
        drop(queue);
        let result = if self.options.cancel.load(Ordering::Relaxed) {
            Err(ScanError::Cancelled)
        } else {
            self.scan_dir(job)
        };
        match result {
            Ok((result, jobs)) => {
                queue = lock(&self.queue);
                let (more, at_head) = (!jobs.is_empty(), queue.head == node);
                queue.put_result(node, result, jobs);
                self.tell(&queue, more, more || at_head);
                Turn::Done(queue)
            }
            Err(error) => {
                self.stop(Some(error));
                Turn::Failed
            }
        }
    }

    /// Wakes the threads that wait: the workers if there is work, and the caller. A signal that nobody waits for would
    /// be a system call, too.
    fn tell(&self, queue: &Queue, work: bool, caller: bool) {
        if work && queue.idle > 0 {
            self.work.notify_all();
        }
        if caller && queue.is_awaited {
            self.ready.notify_one();
        }
    }

    fn scan_dir(&self, job: Job) -> Result<(Box<DirScan>, Vec<Job>), ScanError> {
        let (parent_path, depth, rules) = match &job.parent {
            Some(parent) => (&parent.path[..], parent.depth + 1, &parent.rules),
            None => (&b""[..], 0, self.options.ignore),
        };
        let path = join(parent_path, &job.name);
        let known = if job.known {
            self.known_section(&path)?
        } else {
            None
        };
        let give_up = |path, outcome, known| {
            let result = DirScan::empty(path, outcome, known);
            Ok((Box::new(result), Vec::new()))
        };
        if depth > MAX_PATH_DEPTH || path.len() > MAX_PATH_BYTES {
            return give_up(path, Outcome::TooDeep, known);
        }
        if job.absent {
            return Ok(self.absent_dir(job, path, depth, known));
        }
        let opened = self.open_and_list(&job, known.as_deref());
        let (dir, stat, listing) = match opened {
            Ok((dir, stat, Some(listing))) => (dir, stat, listing),
            Ok((_, _, None)) => return give_up(path, Outcome::OtherFileSystem, known),
            Err(e) => {
                let outcome = match cause_of(&e.source) {
                    Cause::Absent | Cause::NotDirectory | Cause::Symlink => Outcome::Vanished,
                    Cause::TooManyFiles | Cause::NoMemory => return Err(e.into()),
                    _ => Outcome::Unreadable(e),
                };
                return give_up(path, outcome, known);
            }
        };
        let mut result = DirScan::empty(path, Outcome::Read, known);
        result.listing = Arc::new(listing);
        if job.parent.is_none() {
            result.faults.extend_from_slice(rules.faults());
        }
        let rules = self.enter_rules(rules, &dir, &mut result);
        let pairs = Arc::new(self.pair_up(&result));
        let stats = self.stat(&dir, &result, &pairs)?;
        let subdirs = classify(
            self.options,
            &rules,
            job.ignored,
            &pairs,
            stats,
            &mut result,
        );
        result.rules = (rules.clone(), job.ignored);
        if self.telling && stat.dev == self.device && result.is_exact() {
            result.exact = Some(stat);
        }
        if result.entries.is_empty() {
            result.listing = Arc::default();
        }
        if subdirs.is_empty() {
            return Ok((Box::new(result), Vec::new()));
        }
        let handle = self.open.keep(Handle {
            parent: job.parent,
            name: job.name,
            path: result.path.clone(),
            depth,
            rules,
            open: Mutex::new(Some(dir)),
        });
        let jobs = subdirs.into_iter().map(|subdir| subdir.job(handle.clone()));
        Ok((Box::new(result), jobs.collect()))
    }

    /// Returns the known entries of `dir`. Before the first commit even the root is unknown. A
    /// directory that a section names, but about which nothing else is known, counts as new.
    fn known_section(&self, dir: &[u8]) -> Result<Option<Arc<Section>>, ScanError> {
        let section = self.options.known.section(dir);
        let section = section.map_err(|source| ScanError::Base {
            dir: dir.to_vec(),
            source,
        })?;
        Ok(section.map(Arc::new))
    }

    fn open_job(&self, job: &Job) -> Result<Arc<SafeDir>, PathError> {
        match &job.parent {
            None => Ok(self.root.clone()),
            Some(parent) => Ok(Arc::new(self.open.open(parent)?.open_dir(&job.name)?)),
        }
    }

    /// Opens a directory and lists it. Instead of the listing, returns `None` for one on another
    /// file system that is to be skipped.
    fn open_and_list(
        &self,
        job: &Job,
        known: Option<&Section>,
    ) -> Result<(Arc<SafeDir>, FileStat, Option<Listing>), PathError> {
        let dir = self.open_job(job)?;
        let stat = dir.stat_self()?;
        let is_elsewhere = stat.dev != self.device;
        let listing = match known {
            _ if self.options.one_file_system && is_elsewhere => None,
            Some(known)
                if self.telling
                    && !is_elsewhere
                    && known.dir_fingerprint() == stat.fingerprint() =>
            {
                Some(known.as_listing())
            }
            _ => Some(dir.list(MAX_DIR_ENTRIES)?),
        };
        Ok((dir, stat, listing))
    }

    fn enter_rules(&self, rules: &IgnoreRules, dir: &SafeDir, result: &mut DirScan) -> IgnoreRules {
        let listing = result.listing.clone();
        let names = (0..listing.len()).map(|i| listing.name(i));
        let listed: Vec<&[u8]> = names.filter(|name| rules.is_ignore_file(name)).collect();
        let files = RuleFiles {
            dir: Some(dir),
            is_listed: &|name| listed.contains(&name),
            known: self.options.known,
            subset: self.options.subset,
            instead: None,
        };
        rules.enter(&result.path, &files, &mut result.faults)
    }

    /// Returns all wanted names that are on disk or known, in order.
    fn pair_up(&self, result: &DirScan) -> Vec<Pair> {
        let listing = &*result.listing;
        let order = sorted(listing);
        let known_len = result.known.as_ref().map_or(0, |known| known.len());
        let known_name = |i: usize| match &result.known {
            Some(known) if i < known_len => Some(known.get(i).name),
            _ => None,
        };
        let mut pairs = Vec::with_capacity(order.len().max(known_len));
        let wanted = |name: &[u8]| self.options.select.takes(&result.path, name);
        let mut known = 0;
        for listed in order {
            let name = listing.name(listed as usize);
            let mut next = known_name(known);
            while let Some(gone) = next.filter(|next| *next < name) {
                if wanted(gone) {
                    pairs.push(Pair {
                        listed: NONE,
                        known: known as u32,
                    });
                }
                known += 1;
                next = known_name(known);
            }
            let equal = next == Some(name);
            if wanted(name) {
                let known = if equal { known as u32 } else { NONE };
                pairs.push(Pair { listed, known });
            }
            known += usize::from(equal);
        }
        while let Some(gone) = known_name(known) {
            if wanted(gone) {
                pairs.push(Pair {
                    listed: NONE,
                    known: known as u32,
                });
            }
            known += 1;
        }
        pairs
    }

    fn stat(
        &self,
        dir: &Arc<SafeDir>,
        result: &DirScan,
        pairs: &Arc<Vec<Pair>>,
    ) -> Result<Vec<Stat>, ScanError> {
        let mut stats = Vec::new();
        if pairs.len() <= 2 * SLICE {
            let known = result.known.as_deref();
            stat_pairs(
                dir,
                &result.listing,
                known,
                pairs,
                0..pairs.len(),
                &mut stats,
            );
            return Ok(stats);
        }
        let (listing, known) = (result.listing.clone(), result.known.clone());
        let work = Arc::new(StatWork::new(dir.clone(), listing, known, pairs.clone()));
        let mut queue = lock(&self.queue);
        queue.shared_stats.push(work.clone());
        self.tell(&queue, true, true);
        drop(queue);
        work.run(self.options.cancel);
        let stats = work.wait();
        if self.options.cancel.load(Ordering::Relaxed) {
            Err(ScanError::Cancelled)
        } else {
            Ok(stats)
        }
    }
}

impl DirScan {
    /// Returns whether the names on disk are the known ones and of the known kinds.
    fn is_exact(&self) -> bool {
        let control =
            |entry: &Entry| matches!(entry.state, StateWithStat::Skipped(None, Skip::Control));
        // A directory of the subset counts as known where it is missing, too.
        let as_known = |entry: &Entry| {
            let is_known = matches!(
                entry.state,
                StateWithStat::Suspect(..) | StateWithStat::Dir(true)
            );
            is_known && entry.pair.listed != NONE || control(entry)
        };
        let control = self.entries.iter().filter(|entry| control(entry)).count();
        let seen = self.clean + self.entries.len() - control;
        // Entries that the selection leaves out are listed or known, but not counted as seen.
        self.known
            .as_ref()
            .is_some_and(|known| known.len() == seen && self.listing.len() == seen + control)
            && self.entries.iter().all(as_known)
    }

    /// Returns its weight against the bound `AHEAD_ENTRIES` of the queue.
    fn weight(&self) -> usize {
        self.listing.len() + self.known.as_ref().map_or(0, |known| known.len())
    }
}

/// Locks a mutex. It ignores poisoning: a panic of another thread ends the scan anyway, and leaves
/// no value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

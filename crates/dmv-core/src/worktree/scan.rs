//! Which entries of a worktree may differ from the base commit.
//!
//! Worker threads list directories and stat what is known about them; their results reach the
//! caller one directory at a time, depth first, each directory before its subdirectories and those
//! in the order of their names, whatever order the workers finish in. How far workers may run ahead
//! is bounded. Nothing is opened but directories and ignore files, symlinks are never followed, and
//! no content is read: an entry whose stat says nothing certain is [`State::Suspect`].

use super::ignore::{IgnoreRules, IgnoreWarning};
use super::statcache::{Section, StatCache, StatCacheError};
use super::{Skip, join, refused_name};
use crate::fsutil::{FileKind, FileStat, Fingerprint, Listing, PathError, SafeDir};
use crate::limits::{MAX_DIR_ENTRIES, MAX_PATH_BYTES, MAX_PATH_DEPTH};
use crate::object::name::escape;
use crate::object::tree::Kind;
use rayon::slice::ParallelSliceMut;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Directories that workers may have read or be reading before the caller has taken them.
const AHEAD_DIRS: usize = 64;
/// Entries in directories that were read and the caller has not taken.
const AHEAD_ENTRIES: usize = 200_000;
/// Entries that a worker stats at a time when a directory is large enough to be shared.
const SLICE: usize = 4096;
/// Names above which a directory is sorted by all threads.
const PARALLEL_SORT: usize = 64 << 10;
/// Directories kept open for their subdirectories.
const OPEN_DIRS: usize = 128;
/// Stands for "not there" in a [`Pair`].
const NONE: u32 = u32::MAX;

/// What is known about the worktree's entries: the base commit's tree, with fingerprints where the
/// stat cache has them.
pub trait Known: Sync {
    /// All entries that the base commit has in the directory `dir`; `None` when it has no such
    /// directory.
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>>;
}

impl Known for StatCache {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        StatCache::section(self, dir).map_err(|e: StatCacheError| e.into())
    }
}

/// Nothing is known: every entry is new.
pub struct NothingKnown;

impl Known for NothingKnown {
    fn section(
        &self,
        _dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(None)
    }
}

/// Which part of the worktree is looked at. What is left out is not reported in any way.
pub trait Select: Sync {
    /// Whether anything in the directory `dir` may be wanted.
    fn enters(&self, _dir: &[u8]) -> bool {
        true
    }

    /// Whether the entry `name` of `dir` is wanted. A directory that is entered must be.
    fn takes(&self, _dir: &[u8], _name: &[u8]) -> bool {
        true
    }
}

/// Selects the whole worktree.
pub struct Everything;

impl Select for Everything {}

/// What a scan needs to know.
#[derive(Clone, Copy)]
pub struct ScanOptions<'a> {
    /// What should be there.
    pub known: &'a dyn Known,
    /// The rules above the worktree's root.
    pub ignore: &'a IgnoreRules,
    /// The part to look at.
    pub select: &'a dyn Select,
    /// Whether ignored entries are reported one by one, not only counted.
    pub list_ignored: bool,
    /// Whether directories on other file systems than the root's are left alone.
    pub one_file_system: bool,
    /// Worker threads; 0 for one per processor, at least two.
    pub threads: usize,
    /// Ends the scan when set.
    pub cancel: &'a AtomicBool,
}

/// Why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The caller wanted it.
    #[error("cancelled")]
    Cancelled,
    /// What is known could not be read; with the base tree in place of the stat cache the scan may
    /// succeed.
    #[error("cannot tell what {} should hold: {source}", escape(dir))]
    Known {
        /// The directory.
        dir: Vec<u8>,
        /// The provider's answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// This process may not open more files, or has no memory.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Whether a directory could be read.
#[derive(Debug)]
pub enum Outcome {
    /// It was.
    Read,
    /// It was not; its known entries may be there or not.
    Unreadable(PathError),
    /// It was there when its parent was read.
    Vanished,
    /// It is on another file system, and was left alone.
    OtherFileSystem,
    /// It is deeper, or its path longer, than DMV keeps.
    TooDeep,
}

/// What a scan says about an entry that is not known to be unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// In the base commit, there, and perhaps changed: the content must be compared.
    Suspect {
        /// What the base commit has.
        kind: Kind,
        /// The file now. Its executable bit may differ from the base commit's.
        stat: &'a FileStat,
    },
    /// Not in the base commit: a file or a symlink.
    New {
        /// Which of the two.
        kind: FileKind,
    },
    /// In the base commit, but not there.
    Gone {
        /// What the base commit has; a directory may hold more.
        kind: Kind,
    },
    /// There as something else than in the base commit. A directory's entries follow, as new ones.
    TypeChanged {
        /// What the base commit has.
        was: Kind,
        /// What is there: a file, a symlink or a directory.
        now: FileKind,
    },
    /// A directory; its own result follows unless it is not entered.
    Dir {
        /// Whether the base commit has it too.
        known: bool,
    },
    /// Not in the base commit, and ignored: a directory is not entered.
    Ignored {
        /// What it is.
        kind: FileKind,
    },
    /// Left alone.
    Skipped {
        /// What the base commit has there, if anything.
        known: Option<Kind>,
        /// Why.
        reason: Skip,
    },
}

/// What a scan found in one directory.
///
/// Entries that are equal to the base commit by their fingerprint are counted, not listed: what a
/// new stat cache needs of them is in [`known`](Self::known).
#[derive(Debug)]
pub struct DirScan {
    /// The directory.
    pub path: Vec<u8>,
    /// Whether it could be read. Unless it was, there are no entries.
    pub outcome: Outcome,
    /// What should be there; `None` when the base commit has no such directory.
    pub known: Option<Arc<Section>>,
    /// Number of files and symlinks known to be unchanged.
    pub clean: usize,
    /// Number of ignored entries.
    pub ignored: usize,
    /// What is wrong with the directory's ignore files.
    pub warnings: Vec<IgnoreWarning>,
    listing: Arc<Listing>,
    entries: Vec<Entry>,
    stats: Vec<FileStat>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    pair: Pair,
    state: Found,
}

/// A name on disk and in the base commit: its index in either, or [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Pair {
    listed: u32,
    known: u32,
}

/// A [`State`] with the stat's index in its place.
#[derive(Clone, Copy, Debug)]
enum Found {
    Suspect(Kind, u32),
    New(FileKind),
    Gone(Kind),
    TypeChanged(Kind, FileKind),
    Dir(bool),
    Ignored(FileKind),
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
            warnings: Vec::new(),
            listing: Arc::default(),
            entries: Vec::new(),
            stats: Vec::new(),
        }
    }

    /// The entries that are not known to be unchanged, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], State<'_>)> {
        self.entries.iter().map(|entry| {
            let name = match (&self.known, entry.pair.listed) {
                (Some(known), NONE) => known.get(entry.pair.known as usize).name,
                (_, listed) => self.listing.name(listed as usize),
            };
            let state = match entry.state {
                Found::Suspect(kind, index) => State::Suspect {
                    kind,
                    stat: &self.stats[index as usize],
                },
                Found::New(kind) => State::New { kind },
                Found::Gone(kind) => State::Gone { kind },
                Found::TypeChanged(was, now) => State::TypeChanged { was, now },
                Found::Dir(known) => State::Dir { known },
                Found::Ignored(kind) => State::Ignored { kind },
                Found::Skipped(known, reason) => State::Skipped { known, reason },
            };
            (name, state)
        })
    }

    /// Whether everything that the base commit has in this very directory is unchanged, so that
    /// the stat cache's section still holds. There may be new entries.
    pub fn section_holds(&self) -> bool {
        let changed = |entry: &Entry| match entry.state {
            Found::Suspect(..) | Found::Gone(_) | Found::TypeChanged(..) => true,
            Found::Skipped(known, _) => known.is_some(),
            Found::New(_) | Found::Dir(_) | Found::Ignored(_) => false,
        };
        self.known.is_some()
            && matches!(self.outcome, Outcome::Read)
            && !self.entries.iter().any(changed)
    }
}

/// Scans the worktree at `root` and hands each directory's result to `consume`, on this thread.
///
/// An error of `consume` ends the scan and is returned.
pub fn scan<E: From<ScanError>>(
    root: &SafeDir,
    options: &ScanOptions<'_>,
    mut consume: impl FnMut(DirScan) -> Result<(), E>,
) -> Result<(), E> {
    let dir = root.try_clone().map_err(ScanError::Path)?;
    let device = match options.one_file_system {
        true => Some(root.stat_self().map_err(ScanError::Path)?.dev),
        false => None,
    };
    let shared = Shared::new(options, device, dir);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
        n => n,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.work());
        }
        // Workers leave when the queue says stop, also when `consume` fails or panics.
        let _stop = StopOnDrop(&shared);
        while let Some(result) = shared.next_result()? {
            consume(result)?;
        }
        Ok(())
    })
}

/// A directory whose subdirectories are being scanned.
struct Handle {
    parent: Option<Arc<Handle>>,
    name: Box<[u8]>,
    path: Vec<u8>,
    depth: usize,
    rules: IgnoreRules,
    /// Closed when many others were opened since.
    open: Mutex<Option<Arc<SafeDir>>>,
}

/// A directory to be scanned.
struct Job {
    /// `None` for the root.
    parent: Option<Arc<Handle>>,
    name: Box<[u8]>,
    known: bool,
    ignored: bool,
}

/// The directories of a scan in the order of their results, as a linked list, because the
/// subdirectories of one become known while later ones are being read.
struct Queue {
    nodes: Vec<Node>,
    free: Vec<u32>,
    head: u32,
    ahead_dirs: usize,
    ahead_entries: usize,
    /// Large directories that any worker may help with.
    shared_stats: Vec<Arc<StatWork>>,
    stop: bool,
    error: Option<ScanError>,
}

struct Node {
    next: u32,
    slot: Slot,
}

enum Slot {
    Free,
    Waiting(Job),
    Running,
    Done(Box<DirScan>),
}

struct Shared<'a> {
    options: &'a ScanOptions<'a>,
    device: Option<u64>,
    root: Arc<SafeDir>,
    queue: Mutex<Queue>,
    /// There may be work to take.
    work: Condvar,
    /// The result at the head may be there.
    ready: Condvar,
    open: Mutex<VecDeque<Weak<Handle>>>,
}

struct StopOnDrop<'a, 'b>(&'a Shared<'b>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.stop(None);
    }
}

/// The stats of a large directory, to be taken slice by slice.
struct StatWork {
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

/// The index of a pair, and what its stat said. Left out where it is known to be unchanged.
type Stat = (u32, Result<FileStat, Errno>);

impl<'a> Shared<'a> {
    fn new(options: &'a ScanOptions<'a>, device: Option<u64>, root: SafeDir) -> Shared<'a> {
        let job = Job {
            parent: None,
            name: Box::default(),
            known: true,
            ignored: false,
        };
        Shared {
            options,
            device,
            root: Arc::new(root),
            queue: Mutex::new(Queue {
                nodes: vec![Node {
                    next: NONE,
                    slot: Slot::Waiting(job),
                }],
                free: Vec::new(),
                head: 0,
                ahead_dirs: 0,
                ahead_entries: 0,
                shared_stats: Vec::new(),
                stop: false,
                error: None,
            }),
            work: Condvar::new(),
            ready: Condvar::new(),
            open: Mutex::new(VecDeque::new()),
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

    /// The result of the next directory; `None` after the last.
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
                self.work.notify_one();
                return Ok(Some(result));
            }
            queue = wait(&self.ready, queue);
        }
    }

    fn work(&self) {
        // A worker that panics must not leave the caller waiting; the scope hands the panic on.
        struct Guard<'a, 'b>(&'a Shared<'b>);
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
            queue.shared_stats.retain(|work| work.has_more());
            if let Some(work) = queue.shared_stats.first().cloned() {
                drop(queue);
                work.run(self.options.cancel);
                queue = lock(&self.queue);
            } else if let Some((node, job)) = queue.take_job() {
                drop(queue);
                let result = match self.options.cancel.load(Ordering::Relaxed) {
                    true => Err(ScanError::Cancelled),
                    false => self.scan_dir(job),
                };
                match result {
                    Ok((result, jobs)) => {
                        queue = lock(&self.queue);
                        let (more, at_head) = (!jobs.is_empty(), queue.head == node);
                        queue.put_result(node, result, jobs);
                        if more {
                            self.work.notify_all();
                        }
                        if at_head {
                            self.ready.notify_one();
                        }
                    }
                    Err(error) => return self.stop(Some(error)),
                }
            } else {
                queue = wait(&self.work, queue);
            }
        }
    }

    fn scan_dir(&self, job: Job) -> Result<(Box<DirScan>, Vec<Job>), ScanError> {
        let (parent_path, depth, rules) = match &job.parent {
            Some(parent) => (&parent.path[..], parent.depth + 1, &parent.rules),
            None => (&b""[..], 0, self.options.ignore),
        };
        let path = join(parent_path, &job.name);
        let known = match job.known {
            false => None,
            true => self.known_section(&path, job.parent.is_none())?,
        };
        let give_up = |path, outcome, known| {
            let result = DirScan::empty(path, outcome, known);
            Ok((Box::new(result), Vec::new()))
        };
        if depth > MAX_PATH_DEPTH || path.len() > MAX_PATH_BYTES {
            return give_up(path, Outcome::TooDeep, known);
        }
        let opened = self.open_job(&job).and_then(|dir| {
            let other = match self.device {
                Some(device) => dir.stat_self()?.dev != device,
                None => false,
            };
            let listing = match other {
                true => None,
                false => Some(dir.list(MAX_DIR_ENTRIES)?),
            };
            Ok((dir, listing))
        });
        let (dir, listing) = match opened {
            Ok((dir, Some(listing))) => (dir, listing),
            Ok((_, None)) => return give_up(path, Outcome::OtherFileSystem, known),
            Err(e) => {
                let outcome = match Errno::from_io_error(&e.source) {
                    Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Outcome::Vanished,
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => return Err(e.into()),
                    _ => Outcome::Unreadable(e),
                };
                return give_up(path, outcome, known);
            }
        };
        let mut result = DirScan::empty(path, Outcome::Read, known);
        result.listing = Arc::new(listing);
        let rules = self.enter_rules(rules, &dir, &mut result);
        let pairs = Arc::new(self.pair_up(&result));
        let stats = self.stat(&dir, &result, &pairs)?;
        let subdirs = self.classify(&pairs, stats, &rules, job.ignored, &mut result);
        if result.entries.is_empty() {
            result.listing = Arc::default();
        }
        if subdirs.is_empty() {
            return Ok((Box::new(result), Vec::new()));
        }
        let handle = self.keep_open(Handle {
            parent: job.parent,
            name: job.name,
            path: result.path.clone(),
            depth,
            rules,
            open: Mutex::new(Some(dir)),
        });
        let jobs = subdirs.into_iter().map(|(name, known, ignored)| Job {
            parent: Some(handle.clone()),
            name,
            known,
            ignored,
        });
        Ok((Box::new(result), jobs.collect()))
    }

    fn known_section(&self, dir: &[u8], root: bool) -> Result<Option<Arc<Section>>, ScanError> {
        let fail = |source| ScanError::Known {
            dir: dir.to_vec(),
            source,
        };
        match self.options.known.section(dir).map_err(fail)? {
            Some(section) => Ok(Some(Arc::new(section))),
            // Before the first commit even the root is unknown.
            None if root => Ok(None),
            None => Err(fail("there is no such directory".into())),
        }
    }

    fn open_job(&self, job: &Job) -> Result<Arc<SafeDir>, PathError> {
        match &job.parent {
            None => Ok(self.root.clone()),
            Some(parent) => Ok(Arc::new(self.reopen(parent)?.open_dir(&job.name)?)),
        }
    }

    fn keep_open(&self, handle: Handle) -> Arc<Handle> {
        let handle = Arc::new(handle);
        if handle.parent.is_some() {
            self.count_open(&handle);
        }
        handle
    }

    /// Puts `handle` among the open ones, and closes the longest open one if they are too many: in
    /// a walk depth first it is the one needed last.
    fn count_open(&self, handle: &Arc<Handle>) {
        let mut open = lock(&self.open);
        if open.len() >= OPEN_DIRS {
            open.retain(|handle| handle.strong_count() > 0);
        }
        if open.len() >= OPEN_DIRS
            && let Some(oldest) = open.pop_front().and_then(|handle| handle.upgrade())
        {
            *lock(&oldest.open) = None;
        }
        open.push_back(Arc::downgrade(handle));
    }

    /// The directory of `handle`, opened again from the nearest open one above if it was closed.
    fn reopen(&self, handle: &Arc<Handle>) -> Result<Arc<SafeDir>, PathError> {
        let mut closed = Vec::new();
        let mut above = handle;
        let mut dir = loop {
            if let Some(dir) = lock(&above.open).clone() {
                break dir;
            }
            closed.push(above);
            match &above.parent {
                Some(parent) => above = parent,
                None => break self.root.clone(),
            }
        };
        for below in closed.iter().rev() {
            dir = Arc::new(dir.open_dir(&below.name)?);
        }
        if !closed.is_empty() {
            *lock(&handle.open) = Some(dir.clone());
            self.count_open(handle);
        }
        Ok(dir)
    }

    fn enter_rules(&self, rules: &IgnoreRules, dir: &SafeDir, result: &mut DirScan) -> IgnoreRules {
        let listing = result.listing.clone();
        let files: Vec<&[u8]> = (0..listing.len())
            .map(|i| listing.name(i))
            .filter(|name| rules.is_ignore_file(name))
            .collect();
        match files.is_empty() {
            true => rules.clone(),
            false => rules.enter(dir, &result.path, &files, &mut result.warnings),
        }
    }

    /// All wanted names that are on disk or known, in order.
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
        let slices = pairs.len().div_ceil(SLICE);
        let work = Arc::new(StatWork {
            dir: dir.clone(),
            listing: result.listing.clone(),
            known: result.known.clone(),
            pairs: pairs.clone(),
            next: AtomicUsize::new(0),
            done: Mutex::new(StatsDone {
                slices: vec![Vec::new(); slices],
                missing: slices,
            }),
            all_done: Condvar::new(),
        });
        lock(&self.queue).shared_stats.push(work.clone());
        self.work.notify_all();
        work.run(self.options.cancel);
        let mut done = lock(&work.done);
        while done.missing > 0 {
            done = wait(&work.all_done, done);
        }
        if self.options.cancel.load(Ordering::Relaxed) {
            return Err(ScanError::Cancelled);
        }
        for slice in &mut done.slices {
            stats.append(slice);
        }
        Ok(stats)
    }

    /// Makes entries of the pairs that are not clean; returns the directories to enter.
    fn classify(
        &self,
        pairs: &[Pair],
        stats: Vec<Stat>,
        rules: &IgnoreRules,
        ignored_above: bool,
        result: &mut DirScan,
    ) -> Vec<(Box<[u8]>, bool, bool)> {
        let listing = result.listing.clone();
        let known_section = result.known.clone();
        let mut subdirs = Vec::new();
        let mut stats = stats.into_iter().peekable();
        let mut path = match &result.path[..] {
            b"" => Vec::new(),
            dir => [dir, b"/"].concat(),
        };
        let dir_len = path.len();
        for (i, pair) in pairs.iter().enumerate() {
            let entry = match &known_section {
                Some(section) if pair.known != NONE => Some(section.get(pair.known as usize)),
                _ => None,
            };
            let known = entry.map(|entry| entry.kind);
            let mut push = |state| result.entries.push(Entry { pair: *pair, state });
            if pair.listed == NONE {
                push(Found::Gone(known.expect("a pair has one side at least")));
                continue;
            }
            let name = listing.name(pair.listed as usize);
            if let Some(reason) = refused_name(name) {
                push(Found::Skipped(known, reason));
                continue;
            }
            let mut kind = listing.kind(pair.listed as usize);
            let mut stat = None;
            if needs_stat(kind, known) {
                match stats.next_if(|(index, _)| *index as usize == i) {
                    None => {
                        result.clean += 1;
                        continue;
                    }
                    Some((_, Ok(found))) => (kind, stat) = (found.kind, Some(found)),
                    Some((_, Err(Errno::NOENT))) => {
                        if let Some(known) = known {
                            push(Found::Gone(known));
                        }
                        continue;
                    }
                    Some((_, Err(errno))) => {
                        let reason = Skip::Unreadable(errno.raw_os_error());
                        push(Found::Skipped(known, reason));
                        continue;
                    }
                }
            }
            if !matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Dir) {
                push(Found::Skipped(known, Skip::Special(kind)));
                continue;
            }
            let is_dir = kind == FileKind::Dir;
            let mut ignored = ignored_above;
            if !ignored && !rules.is_empty() && (known.is_none() || is_dir) {
                path.truncate(dir_len);
                path.extend_from_slice(name);
                ignored = rules.ignores(&path, is_dir);
            }
            let state = match (known, stat) {
                (None, _) if ignored => {
                    result.ignored += 1;
                    if self.options.list_ignored {
                        push(Found::Ignored(kind));
                    }
                    continue;
                }
                (None, _) if is_dir => Found::Dir(false),
                (None, _) => Found::New(kind),
                (Some(Kind::Directory), _) if is_dir => Found::Dir(true),
                (Some(known), Some(stat)) if fits(known, kind) => {
                    result.stats.push(stat);
                    // MAX_DIR_ENTRIES is below 2^32.
                    Found::Suspect(known, result.stats.len() as u32 - 1)
                }
                (Some(known), _) => Found::TypeChanged(known, kind),
            };
            push(state);
            if is_dir {
                path.truncate(dir_len);
                path.extend_from_slice(name);
                if self.options.select.enters(&path) {
                    subdirs.push((name.into(), known == Some(Kind::Directory), ignored));
                }
            }
        }
        subdirs
    }
}

impl Queue {
    fn take_job(&mut self) -> Option<(u32, Job)> {
        let mut at = self.head;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            if matches!(node.slot, Slot::Waiting(_)) {
                // The first one is taken always, or the bounds could stop everything.
                let room = self.ahead_dirs < AHEAD_DIRS && self.ahead_entries < AHEAD_ENTRIES;
                if at != self.head && !room {
                    return None;
                }
                let Slot::Waiting(job) = std::mem::replace(&mut node.slot, Slot::Running) else {
                    unreachable!("looked at above");
                };
                self.ahead_dirs += 1;
                return Some((at, job));
            }
            at = node.next;
        }
        None
    }

    fn put_result(&mut self, at: u32, result: Box<DirScan>, jobs: Vec<Job>) {
        self.ahead_entries += result.weight();
        let mut last = at;
        for job in jobs {
            let slot = Slot::Waiting(job);
            let next = self.nodes[last as usize].next;
            let node = Node { next, slot };
            let new = match self.free.pop() {
                Some(index) => {
                    self.nodes[index as usize] = node;
                    index
                }
                None => {
                    self.nodes.push(node);
                    // Each takes more than 32 bytes: memory ends before the numbers do.
                    (self.nodes.len() - 1) as u32
                }
            };
            self.nodes[last as usize].next = new;
            last = new;
        }
        self.nodes[at as usize].slot = Slot::Done(result);
    }

    fn pop_done(&mut self) -> Option<DirScan> {
        let node = &mut self.nodes[self.head as usize];
        match std::mem::replace(&mut node.slot, Slot::Free) {
            Slot::Done(result) => {
                self.free.push(self.head);
                self.head = node.next;
                self.ahead_dirs -= 1;
                self.ahead_entries -= result.weight();
                Some(*result)
            }
            other => {
                node.slot = other;
                None
            }
        }
    }
}

impl DirScan {
    /// What it counts against [`AHEAD_ENTRIES`].
    fn weight(&self) -> usize {
        self.listing.len() + self.known.as_ref().map_or(0, |known| known.len())
    }
}

impl StatWork {
    fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) * SLICE < self.pairs.len()
    }

    fn run(&self, cancel: &AtomicBool) {
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
            // A cancelled slice counts as done, so that nobody waits for it; its owner looks at
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

/// Counts a slice as done when dropped, after a panic too: its owner waits for it.
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

fn stat_pairs(
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
        let stat = dir.stat_errno(listing.name(pair.listed as usize));
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

/// Whether the directory's own word on an entry's kind is not enough.
fn needs_stat(listed: FileKind, known: Option<Kind>) -> bool {
    match known {
        None => listed == FileKind::Unknown,
        Some(known) => listed == FileKind::Unknown || fits(known, listed),
    }
}

/// Whether an entry of the base commit can be this kind of file. Directories need no comparison.
fn fits(known: Kind, kind: FileKind) -> bool {
    match known {
        Kind::File | Kind::Executable => kind == FileKind::File,
        Kind::Symlink => kind == FileKind::Symlink,
        Kind::Conflict => matches!(kind, FileKind::File | FileKind::Symlink),
        Kind::Directory => false,
    }
}

/// The listing's indices in the order of the names.
fn sorted(listing: &Listing) -> Vec<u32> {
    // A listing holds at most MAX_DIR_ENTRIES names, fewer than 2^32.
    let len = listing.len() as u32;
    let name = |i: u32| listing.name(i as usize);
    if (1..len).all(|i| name(i - 1) < name(i)) {
        return (0..len).collect();
    }
    // Names in one directory begin alike; eight bytes from where they differ decide most
    // comparisons. Names hold no NUL, so padding with it keeps the order.
    let common = (1..len).fold(name(0), |common, i| {
        let equal = common.iter().zip(name(i)).take_while(|(a, b)| a == b);
        &common[..equal.count()]
    });
    let mut keys: Vec<(u64, u32)> = (0..len)
        .map(|i| {
            let rest = &name(i)[common.len()..];
            let mut key = [0; 8];
            let used = rest.len().min(8);
            key[..used].copy_from_slice(&rest[..used]);
            // Compared as a number, so the first byte must weigh most.
            (key.iter().fold(0, |k, b| k << 8 | u64::from(*b)), i)
        })
        .collect();
    let order =
        |a: &(u64, u32), b: &(u64, u32)| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1)));
    if keys.len() > PARALLEL_SORT {
        keys.par_sort_unstable_by(order);
    } else {
        keys.sort_unstable_by(order);
    }
    keys.into_iter().map(|(_, i)| i).collect()
}

/// A panic of another thread ends the scan anyway, and no value here is left half changed by one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::LazyLock;

    type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
    type Sections = BTreeMap<Vec<u8>, Section>;

    impl Known for Sections {
        fn section(
            &self,
            dir: &[u8],
        ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
            Ok(self.get(dir).cloned())
        }
    }

    fn options<'a>() -> ScanOptions<'a> {
        static RULES: LazyLock<IgnoreRules> = LazyLock::new(IgnoreRules::default);
        static GO_ON: AtomicBool = AtomicBool::new(false);
        ScanOptions {
            known: &NothingKnown,
            ignore: &RULES,
            select: &Everything,
            list_ignored: true,
            one_file_system: true,
            threads: 3,
            cancel: &GO_ON,
        }
    }

    /// Everything a scan of `root` reports, one line per entry.
    fn lines(root: &Path, options: ScanOptions<'_>) -> Result<Vec<String>> {
        let mut out = Vec::new();
        scan::<ScanError>(&SafeDir::open_root(root)?, &options, |result| {
            let mut line = format!("[{}]", result.path.escape_ascii());
            match result.outcome {
                Outcome::Read => {}
                _ => write!(line, " {:?}", result.outcome).expect("to a string"),
            }
            out.push(line);
            for (name, state) in result.entries() {
                let state = match state {
                    State::Suspect { kind, .. } => format!("Suspect {kind:?}"),
                    other => format!("{other:?}"),
                };
                out.push(format!("{} {state}", name.escape_ascii()));
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn known_kind(path: &Path) -> Result<Kind> {
        let stat = std::fs::symlink_metadata(path)?;
        Ok(if stat.is_dir() {
            Kind::Directory
        } else if stat.is_symlink() {
            Kind::Symlink
        } else {
            Kind::File
        })
    }

    /// The sections that say that everything in `root` is unchanged.
    fn remember(root: &Path, dir: &[u8], out: &mut Sections) -> Result {
        let path = root.join(crate::fsutil::os_str(dir));
        let handle = SafeDir::open_root(&path)?;
        let mut section = Section::default();
        for name in names(&path)? {
            let kind = known_kind(&path.join(crate::fsutil::os_str(&name)))?;
            match kind {
                Kind::Directory => {
                    section.push(&name, kind, Fingerprint::SUSPECT);
                    remember(root, &join(dir, &name), out)?;
                }
                _ => section.push(&name, kind, handle.stat(&name)?.fingerprint()),
            }
        }
        out.insert(dir.to_vec(), section);
        Ok(())
    }

    fn names(path: &Path) -> Result<BTreeSet<Vec<u8>>> {
        std::fs::read_dir(path)?
            .map(|entry| Ok(entry?.file_name().as_bytes().to_vec()))
            .collect()
    }

    /// What a scan should report, told the simple way.
    fn model(root: &Path, dir: &[u8], known: Option<&Sections>, out: &mut Vec<String>) -> Result {
        let path = root.join(crate::fsutil::os_str(dir));
        let handle = SafeDir::open_root(&path)?;
        let empty = Section::default();
        let section = known.map_or(&empty, |known| &known[dir]);
        let expected: BTreeMap<&[u8], _> = section.iter().map(|e| (e.name, e)).collect();
        let on_disk = names(&path)?;
        let expected_names = expected.keys().map(|name| name.to_vec());
        let all: BTreeSet<Vec<u8>> = on_disk.iter().cloned().chain(expected_names).collect();
        out.push(format!("[{}]", dir.escape_ascii()));
        let mut subdirs = Vec::new();
        for name in &all {
            let entry = expected.get(&name[..]);
            let mut line = |state: String| out.push(format!("{} {state}", name.escape_ascii()));
            if !on_disk.contains(name) {
                let kind = entry.expect("on one side").kind;
                line(format!("Gone {{ kind: {kind:?} }}"));
                continue;
            }
            let now = handle.stat(name)?;
            match entry.map(|e| e.kind) {
                None if now.kind == FileKind::Dir => line("Dir { known: false }".into()),
                None => line(format!("New {{ kind: {:?} }}", now.kind)),
                Some(Kind::Directory) if now.kind == FileKind::Dir => {
                    line("Dir { known: true }".into());
                }
                Some(Kind::File) if now.kind == FileKind::File => {
                    if entry.expect("known").fingerprint != now.fingerprint() {
                        line("Suspect File".into());
                    }
                }
                Some(Kind::Symlink) if now.kind == FileKind::Symlink => {
                    if entry.expect("known").fingerprint != now.fingerprint() {
                        line("Suspect Symlink".into());
                    }
                }
                Some(was) => line(format!(
                    "TypeChanged {{ was: {was:?}, now: {:?} }}",
                    now.kind
                )),
            }
            if now.kind == FileKind::Dir {
                subdirs.push((name, entry.is_some_and(|e| e.kind == Kind::Directory)));
            }
        }
        for (name, was_known) in subdirs {
            model(root, &join(dir, name), known.filter(|_| was_known), out)?;
        }
        Ok(())
    }

    /// Puts something at `path`, in place of whatever is there; a parent may turn out to be a file.
    fn put(path: &Path, what: u8) {
        let _ = std::fs::remove_dir_all(path);
        let _ = std::fs::remove_file(path);
        if let Some(parent) = path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        let _ = match what {
            0 => std::fs::create_dir_all(path),
            1 => symlink("a", path),
            2 => Ok(()),
            n => std::fs::write(path, vec![b'x'; n.into()]),
        };
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn scan_says_what_a_simple_walk_says(
            before in prop::collection::vec(("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 0u8..8), 0..30),
            after in prop::collection::vec(("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 0u8..8), 0..10),
        ) {
            let temp = tempfile::tempdir().expect("a directory");
            let root = temp.path();
            before.iter().for_each(|(path, what)| put(&root.join(path), *what));
            let mut known = Sections::new();
            remember(root, b"", &mut known).expect("reads");
            after.iter().for_each(|(path, what)| put(&root.join(path), *what));
            let mut want = Vec::new();
            model(root, b"", Some(&known), &mut want).expect("reads");
            let got = lines(root, ScanOptions { known: &known, ..options() }).expect("scans");
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn what_is_unchanged_is_counted_only() -> Result {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir_all(temp.path().join("a/b"))?;
        std::fs::write(temp.path().join("a/b/f"), "x")?;
        std::fs::write(temp.path().join("a/f"), "x")?;
        symlink("nowhere", temp.path().join("a/l"))?;
        let mut known = Sections::new();
        remember(temp.path(), b"", &mut known)?;
        let got = lines(
            temp.path(),
            ScanOptions {
                known: &known,
                ..options()
            },
        )?;
        let want = [
            "[]",
            "a Dir { known: true }",
            "[a]",
            "b Dir { known: true }",
            "[a/b]",
        ];
        assert_eq!(got, want);
        // Zero says "read it", even if a stat should come out as zero.
        let mut section = Section::default();
        section.push(b"f", Kind::File, Fingerprint::SUSPECT);
        known.insert(b"a/b".to_vec(), section);
        let got = lines(
            temp.path(),
            ScanOptions {
                known: &known,
                ..options()
            },
        )?;
        assert_eq!(got[5..], ["f Suspect File"]);
        Ok(())
    }

    #[test]
    fn a_large_directory_is_shared_among_workers() -> Result {
        let temp = tempfile::tempdir()?;
        let total = 3 * SLICE;
        for i in 0..total {
            std::fs::write(temp.path().join(format!("f{i}")), "")?;
        }
        let mut known = Sections::new();
        remember(temp.path(), b"", &mut known)?;
        std::fs::write(temp.path().join("f7"), "changed")?;
        std::fs::remove_file(temp.path().join("f5000"))?;
        std::fs::write(temp.path().join(format!("f{}", total - 1)), "changed")?;
        let got = lines(
            temp.path(),
            ScanOptions {
                known: &known,
                ..options()
            },
        )?;
        let last = format!("f{} Suspect File", total - 1);
        let mut want = ["f5000 Gone { kind: File }", "f7 Suspect File", &last];
        want.sort_unstable();
        assert_eq!(got[1..], want);
        Ok(())
    }

    #[test]
    fn depth_beyond_open_files_and_path_lengths_is_reached() -> Result {
        let temp = tempfile::tempdir()?;
        let name = [b'n'; 60];
        let depth = OPEN_DIRS * 3;
        let mut here = SafeDir::open_root(temp.path())?;
        for _ in 0..depth {
            here.create_dir(&name)?;
            here.create_dir(b"z")?;
            here = here.open_dir(&name)?;
        }
        let got = lines(temp.path(), options())?;
        assert_eq!(got.len(), (depth + 1) + depth * 2 + depth);
        assert_eq!(got.last().map(String::as_str), Some("[z]"));
        assert!(!got.iter().any(|line| line.contains("] ")));
        Ok(())
    }

    #[test]
    fn many_directories_pass_the_look_ahead_in_order() -> Result {
        let temp = tempfile::tempdir()?;
        for i in 0..3 * AHEAD_DIRS {
            std::fs::create_dir_all(temp.path().join(format!("d{i:04}/s")))?;
        }
        let mut want = Vec::new();
        model(temp.path(), b"", None, &mut want)?;
        for threads in [0, 1, 2, 7] {
            let got = lines(
                temp.path(),
                ScanOptions {
                    threads,
                    ..options()
                },
            )?;
            assert_eq!(got, want);
        }
        Ok(())
    }

    #[test]
    fn ignored_entries_are_left_out_and_known_ones_are_not() -> Result {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir_all(temp.path().join("out/deep"))?;
        std::fs::create_dir_all(temp.path().join("tmp"))?;
        for name in ["out/known", "a.o", "known.o"] {
            std::fs::write(temp.path().join(name), "")?;
        }
        let mut known = Sections::new();
        let mut root = Section::default();
        root.push(b"known.o", Kind::File, Fingerprint::SUSPECT);
        root.push(b"out", Kind::Directory, Fingerprint::SUSPECT);
        let mut out = Section::default();
        out.push(b"known", Kind::File, Fingerprint::SUSPECT);
        known.insert(b"".to_vec(), root);
        known.insert(b"out".to_vec(), out);
        std::fs::write(temp.path().join("out/new"), "")?;
        std::fs::write(temp.path().join(".dmvignore"), "*.o\nout/\ntmp\n")?;
        let got = lines(
            temp.path(),
            ScanOptions {
                known: &known,
                ..options()
            },
        )?;
        let want = [
            "[]",
            ".dmvignore New { kind: File }",
            "a.o Ignored { kind: File }",
            "known.o Suspect File",
            "out Dir { known: true }",
            "tmp Ignored { kind: Dir }",
            "[out]",
            "deep Ignored { kind: Dir }",
            "known Suspect File",
            "new Ignored { kind: File }",
        ];
        assert_eq!(got, want);
        Ok(())
    }

    #[test]
    fn only_what_is_selected_is_reported() -> Result {
        struct OnlyB;
        impl Select for OnlyB {
            fn enters(&self, dir: &[u8]) -> bool {
                dir == b"b"
            }
            fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
                dir == b"b" || name == b"b"
            }
        }
        let temp = tempfile::tempdir()?;
        for dir in ["a", "b", "c"] {
            std::fs::create_dir(temp.path().join(dir))?;
            std::fs::write(temp.path().join(dir).join("f"), "")?;
        }
        let mut known = Sections::new();
        remember(temp.path(), b"", &mut known)?;
        std::fs::remove_dir_all(temp.path().join("a"))?;
        std::fs::remove_file(temp.path().join("b/f"))?;
        let got = lines(
            temp.path(),
            ScanOptions {
                known: &known,
                select: &OnlyB,
                ..options()
            },
        )?;
        let want = [
            "[]",
            "b Dir { known: true }",
            "[b]",
            "f Gone { kind: File }",
        ];
        assert_eq!(got, want);
        Ok(())
    }

    #[test]
    fn what_no_tree_may_hold_is_skipped() -> Result {
        let temp = tempfile::tempdir()?;
        for dir in [".dmv", ".GIT", "sub/.git"] {
            std::fs::create_dir_all(temp.path().join(dir))?;
        }
        std::fs::write(temp.path().join(".dmv-tmp-0123456789abcdef"), "")?;
        let dir = SafeDir::open_root(temp.path())?;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(&dir, "pipe", mode)?;
        let got = lines(temp.path(), options())?;
        let want = [
            "[]",
            ".GIT Skipped { known: None, reason: BadName(Control) }",
            ".dmv Skipped { known: None, reason: Control }",
            ".dmv-tmp-0123456789abcdef Skipped { known: None, reason: Temporary }",
            "pipe Skipped { known: None, reason: Special(Fifo) }",
            "sub Dir { known: false }",
            "[sub]",
            ".git Skipped { known: None, reason: Control }",
        ];
        assert_eq!(got, want);
        Ok(())
    }

    #[test]
    fn a_scan_ends_when_told_to() -> Result {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir_all(temp.path().join("a/b/c"))?;
        let cancel = AtomicBool::new(true);
        let error = lines(
            temp.path(),
            ScanOptions {
                cancel: &cancel,
                ..options()
            },
        )
        .expect_err("cancelled");
        assert_eq!(error.to_string(), "cancelled");
        let root = SafeDir::open_root(temp.path())?;
        let mut seen = 0;
        let stopped: Result<(), Box<dyn std::error::Error>> = scan(&root, &options(), |_| {
            seen += 1;
            Err("enough".into())
        });
        assert_eq!(stopped.expect_err("stopped").to_string(), "enough");
        assert_eq!(seen, 1);
        Ok(())
    }

    #[test]
    fn a_known_directory_without_a_section_is_an_error() -> Result {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir(temp.path().join("a"))?;
        let mut known = Sections::new();
        remember(temp.path(), b"", &mut known)?;
        known.remove(&b"a"[..]);
        assert!(
            lines(
                temp.path(),
                ScanOptions {
                    known: &known,
                    ..options()
                }
            )
            .is_err()
        );
        Ok(())
    }

    #[test]
    fn an_unreadable_directory_says_nothing_about_its_entries() -> Result {
        use std::os::unix::fs::PermissionsExt;
        if rustix::process::geteuid().is_root() {
            return Ok(()); // Nothing is unreadable then.
        }
        let temp = tempfile::tempdir()?;
        let closed = temp.path().join("closed");
        let no_stat = temp.path().join("no_stat");
        for dir in [&closed, &no_stat] {
            std::fs::create_dir(dir)?;
            std::fs::write(dir.join("f"), "")?;
        }
        let mut known = Sections::new();
        remember(temp.path(), b"", &mut known)?;
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        };
        set_mode(&closed, 0o000)?;
        set_mode(&no_stat, 0o444)?;
        let options = ScanOptions {
            known: &known,
            ..options()
        };
        let got = lines(temp.path(), options);
        set_mode(&closed, 0o755)?;
        set_mode(&no_stat, 0o755)?;
        let got = got?;
        assert!(got[3].starts_with("[closed] Unreadable"), "{}", got[3]);
        let skipped = "f Skipped { known: Some(File), reason: Unreadable(13) }";
        assert_eq!(got[4..], ["[no_stat]", skipped]);
        Ok(())
    }

    #[test]
    fn names_are_sorted_by_bytes() -> Result {
        let mut listing = Listing::default();
        let names = [
            "pre",
            "prefix-aaaaaaaab",
            "prefix-aaaaaaaaa",
            "prefix",
            "pre\u{e9}",
            "prea",
        ];
        for name in names {
            listing.push(name.as_bytes(), FileKind::File)?;
        }
        let got: Vec<&[u8]> = sorted(&listing)
            .into_iter()
            .map(|i| listing.name(i as usize))
            .collect();
        let mut want: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        want.sort_unstable();
        assert_eq!(got, want);
        assert!(sorted(&Listing::default()).is_empty());
        Ok(())
    }
}

//! From files to a tree: scans the worktree, reads changed content into the store, and builds the
//! directories that differ from the base tree.
//!
//! A directory is finished as soon as its files and subdirectories are; only unfinished directories
//! are in memory. A directory without changes keeps its id and is not read.

mod changes;
mod merged;
mod portable;

use self::changes::Changes;
use super::base::{dir_tree, has_content};
use super::cacheupdate::CacheUpdate;
use super::entry_stats::EntryStats;
use super::ignore::{IgnoreFault, RuleReport};
use super::ingest::{
    Failure, Ingest, IngestError, IngestResult, TASK_FILES, Task, TaskFile, with_ingest,
};
use super::not_kept::NotKept;
use super::outlook::while_looking;
use super::properties::{AttributeFiles, KeptProperties, Properties, PropertyRules};
use super::scan::{DirScan, Outcome, ScanError, ScanOptions, State, scan};
use super::statcache::{Section, trusted_fingerprint};
use super::{Skip, join};
use crate::fsutil::{FileKind, FileStat, FileTime, Fingerprint, SafeDir};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::tree::{Kind, TreeSummary};
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use crate::path::{DiskPath, PathError};
use crate::platform::HAS_EXECUTABLE_BIT;
use crate::store::{MetaWriter, StoreError, StoreWriter};
use crate::subset::Extent;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The input of a snapshot.
pub struct SnapshotInput<'a> {
    /// The worktree.
    pub root: &'a SafeDir,
    /// Reads the base tree.
    pub reader: &'a dyn ObjectRead,
    /// The base tree; `None` before the first commit.
    pub base: Option<ObjectId>,
    /// What to scan, and how.
    pub scan: ScanOptions<'a>,
    /// The start of the scan on the clock of the worktree's file system.
    pub started: FileTime,
    /// Whether names that some systems refuse are left out.
    pub portable: bool,
    /// What is kept of files besides their content.
    pub properties: &'a PropertyRules,
    /// Paths that a switch could not make equal to the base. The user has not changed them.
    pub unwritten: &'a BTreeSet<Vec<u8>>,
    /// A new file of more bytes ends the snapshot before it is read.
    pub most_new: Option<u64>,
}

/// A file that is not in the snapshot as it is on disk, and why.
#[derive(Debug)]
pub struct Problem {
    /// Its path.
    pub path: DiskPath,
    /// The reason, as a clause.
    pub why: String,
}

impl Problem {
    /// Returns the problem of the file at `path`.
    pub fn new(path: impl Into<DiskPath>, why: impl Into<String>) -> Problem {
        let (path, why) = (path.into(), why.into());
        Problem { path, why }
    }

    /// Returns what is wrong with an ignore file, and what follows from that.
    pub(crate) fn of_rules(fault: &IgnoreFault) -> Problem {
        let why = match fault.line {
            Some(_) => fault.to_string(),
            None => format!(
                "its rules cannot be used: {fault}; until you mend it, new files in its directory \
                 and below stay out of commits"
            ),
        };
        Problem::new(fault.path.clone(), why)
    }
}

/// The result of a snapshot.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The tree; `None` if it is equal to the base.
    pub tree: Option<TreeSummary>,
    /// Number of files with new content or kind.
    pub changed_files: u64,
    /// Files that could not be read in. The tree keeps the base's versions, if any.
    pub problems: Vec<Problem>,
    /// Entries that were left out on purpose and should be reported: special files, errors in
    /// ignore files.
    pub warnings: Vec<Problem>,
    /// The paths among the problems that a switch could not write.
    pub unwritten: Vec<Vec<u8>>,
    /// Properties of files that were read in and that a commit does not keep.
    pub not_kept: NotKept,
    /// Files with new content that the base has and that ignore rules cover: their number and the
    /// first path.
    pub tracked_ignored: (u64, Vec<u8>),
    /// Control directories (`.git`) that were skipped.
    pub control: Vec<Vec<u8>>,
    /// Entries on disk outside of the worktree's subset. They are left out, and the tree keeps its
    /// own entries there.
    pub outside: Vec<Vec<u8>>,
}

/// Why a snapshot failed completely.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The worktree could not be walked.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// Content could not be read in.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A base object could not be read, or a new object could not be made.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The stat cache could not be written.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A new file is larger than the input allows.
    #[error("{0} is a large new file")]
    Large(DiskPath),
}

/// Stores the worktree's state.
pub fn snapshot(
    input: &SnapshotInput<'_>,
    writer: &StoreWriter<'_>,
    cache: &mut CacheUpdate<'_>,
    job: &Job,
) -> Result<Snapshot, SnapshotError> {
    let mut meta = MetaWriter::new(writer);
    let mut failure = None;
    let made = while_looking(input, job, || {
        with_ingest(input.root, writer, job, |ingest| {
            let result = build(input, ingest, &mut meta, cache);
            result.map_err(|e| match e {
                SnapshotError::Ingest(e) => e,
                other => {
                    failure = Some(other);
                    IngestError::Cancelled
                }
            })
        })
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let made = made?;
    meta.flush()?;
    Ok(made)
}

fn build(
    input: &SnapshotInput<'_>,
    ingest: &mut Ingest<'_>,
    meta: &mut MetaWriter<'_>,
    cache: &mut CacheUpdate<'_>,
) -> Result<Snapshot, SnapshotError> {
    let mut tree = Builder {
        input,
        cache,
        dirs: Vec::new(),
        free: Vec::new(),
        stack: Vec::new(),
        root: None,
        failed: None,
        covered: BTreeSet::new(),
        rules: RuleReport::default(),
        out: Snapshot::default(),
    };
    scan(
        input.root,
        &input.scan,
        |dir| -> Result<(), SnapshotError> {
            let number = tree.enter(&dir, meta)?;
            let path: Arc<[u8]> = dir.path.as_slice().into();
            tree.note(number, &dir);
            // Tasks are made as they are taken. In a directory of a million files, all of them
            // together would be the largest item in memory.
            let mut files = Vec::new();
            let mut stats = EntryStats::new(input.root, &dir.path);
            let mut entries = dir.entries();
            loop {
                let entry = entries.next();
                let is_last = entry.is_none();
                if let Some((name, state)) = entry
                    && let Some(kind) = tree.take(number, &path, name, state)
                {
                    if let Some(most) = input.most_new
                        && stats.is_new_above(most, name, state)?
                    {
                        return Err(SnapshotError::Large(join(&path, name).into()));
                    }
                    if matches!(state, State::Suspect { .. }) && dir.is_covered(name) {
                        tree.covered.insert(join(&path, name));
                    }
                    files.push(TaskFile {
                        name: name.into(),
                        kind,
                        properties: tree.properties(&path, name, kind),
                    });
                }
                if files.len() == TASK_FILES || (is_last && !files.is_empty()) {
                    let task = Task {
                        dir: number,
                        path: path.clone(),
                        files: std::mem::take(&mut files),
                    };
                    let on_done = &mut |done, meta: &mut dyn ObjectWrite| tree.done(done, meta);
                    let submitted = ingest.submit(task, meta, on_done);
                    tree.check()?;
                    submitted?;
                }
                if is_last {
                    return Ok(());
                }
            }
        },
    )?;
    tree.leave_to(0, meta)?;
    let finished = ingest.finish(meta, &mut |done, meta| tree.done(done, meta));
    tree.check()?;
    finished?;
    tree.out.tree = tree.root;
    tree.out.warnings.extend(input.properties.faults());
    tree.rules
        .finish(&mut tree.out.problems, &mut tree.out.warnings);
    Ok(tree.out)
}

/// A directory whose tree is not made yet.
struct Dir {
    path: Arc<[u8]>,
    parent: usize,
    known: Option<Arc<Section>>,
    changes: Changes<EntryChange>,
    /// Number of files being read and of subdirectories that are not finished.
    waiting: usize,
    /// Whether more subdirectories may come.
    open: bool,
    /// Whether it is a new empty directory, which counts as content, too. Any other new directory
    /// without entries is left out.
    is_content: bool,
    /// The directory's own stat, if the scan found exactly the known names in it.
    exact: Option<FileStat>,
    /// Whether the directory is missing: see [`DirScan::absent`].
    absent: bool,
}

/// What a commit does to an entry of a directory.
enum EntryChange {
    Gone,
    File {
        kind: Kind,
        is_list: bool,
        id: ObjectId,
        size: u64,
        /// Whether only its owner may read it; `None` if its permissions do not tell.
        private: Option<bool>,
        /// What else is kept of it.
        kept: Option<Box<KeptProperties>>,
        fingerprint: Fingerprint,
    },
    Dir(Box<TreeSummary>),
}

/// The reason for leaving out a path that a switch could not write.
const UNWRITTEN: &str = "it is of another commit, since a command could not write it";

/// Stands for "no parent".
const NO_DIR: usize = usize::MAX;

struct Builder<'a, 'c> {
    input: &'a SnapshotInput<'a>,
    cache: &'a mut CacheUpdate<'c>,
    dirs: Vec<Option<Dir>>,
    /// Numbers of finished directories, for reuse.
    free: Vec<usize>,
    /// The directories from the root to the one being scanned.
    stack: Vec<usize>,
    root: Option<TreeSummary>,
    failed: Option<SnapshotError>,
    /// Files of the base that may have changed and that ignore rules cover.
    covered: BTreeSet<Vec<u8>>,
    rules: RuleReport,
    out: Snapshot,
}

impl Builder<'_, '_> {
    /// Begins the directory of a scan result. Ends the directories that it is not below first.
    fn enter(
        &mut self,
        scan: &DirScan,
        meta: &mut dyn ObjectWrite,
    ) -> Result<usize, SnapshotError> {
        let depth = match scan.path.as_slice() {
            b"" => 0,
            path => 1 + path.iter().filter(|b| **b == b'/').count(),
        };
        self.leave_to(depth, meta)?;
        let parent = self.stack.last().copied().unwrap_or(NO_DIR);
        if let Some(Some(parent)) = self.dirs.get_mut(parent) {
            parent.waiting += 1;
        }
        let dir = Dir {
            path: scan.path.as_slice().into(),
            parent,
            known: scan.known.clone(),
            changes: Changes::default(),
            waiting: 0,
            open: true,
            is_content: false,
            exact: scan.exact,
            absent: scan.absent,
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.dirs.push(None);
            self.dirs.len() - 1
        });
        self.dirs[number] = Some(dir);
        self.stack.push(number);
        Ok(number)
    }

    /// Ends the directories at `depth` and below: they get no more subdirectories.
    fn leave_to(&mut self, depth: usize, meta: &mut dyn ObjectWrite) -> Result<(), SnapshotError> {
        while self.stack.len() > depth {
            let number = self.stack.pop().expect("the stack is longer than depth");
            if let Some(dir) = self.dirs[number].as_mut() {
                dir.open = false;
            }
            self.finish_from(number, meta)?;
        }
        Ok(())
    }

    /// Records what a scan found about a directory as a whole.
    fn note(&mut self, number: usize, scan: &DirScan) {
        let unread = unread(&scan.outcome);
        if let Some(why) = unread {
            self.out.problems.push(Problem::new(scan.path.clone(), why));
            self.cache.keep_all_under(scan.path.clone());
        } else {
            for dir in scan.left_out(self.input.scan.select) {
                self.cache.keep_all_under(dir);
            }
        }
        self.rules.note(scan);
        // An empty directory outside of the subset needs no warning: no content is left out with
        // it.
        let is_content =
            scan.is_new_and_empty() && self.input.scan.subset.includes(&scan.path, true);
        let dir = self.dirs[number].as_mut().expect("entered just before");
        dir.is_content = is_content;
    }

    /// Records one entry. Returns its kind if its content is wanted; the directory then waits for
    /// that.
    fn take(
        &mut self,
        number: usize,
        path: &[u8],
        name: &[u8],
        state: State<'_>,
    ) -> Option<FileKind> {
        if self.is_unwritten(path, name, state) {
            return None;
        }
        let wanted = match state {
            State::Suspect { stat, .. } => Some(stat.kind),
            State::New { kind } => self.admit(path, name).then_some(kind),
            State::Gone { .. } => {
                self.dir(number).changes.push(name, EntryChange::Gone);
                None
            }
            State::TypeChanged { was, .. } if self.holds_more(path, name, was) => {
                let why = "it replaced a directory that has files outside of the subset";
                self.out
                    .problems
                    .push(Problem::new(join(path, name), why.to_owned()));
                None
            }
            State::TypeChanged { now, .. } => {
                self.dir(number).changes.push(name, EntryChange::Gone);
                (now != FileKind::Dir).then_some(now)
            }
            State::Dir { known } => {
                let child = join(path, name);
                if known && !self.input.scan.select.enters(&child) {
                    self.cache.keep_all_under(child);
                }
                None
            }
            State::Ignored { .. } | State::Held { .. } => None,
            State::Outside { .. } => {
                self.out.outside.push(join(path, name));
                None
            }
            State::Skipped { known, reason } => {
                if self.skip(path, name, known, reason) {
                    self.dir(number).changes.push(name, EntryChange::Gone);
                }
                None
            }
        };
        self.dir(number).waiting += usize::from(wanted.is_some());
        wanted
    }

    /// Returns what is kept of a file besides its content.
    fn properties(&self, dir: &[u8], name: &[u8], kind: FileKind) -> Properties {
        let ScanOptions { known, subset, .. } = self.input.scan;
        let files = AttributeFiles {
            root: Some(self.input.root),
            known,
            subset,
        };
        match kind {
            FileKind::File => self.input.properties.of(&files, dir, name),
            _ => Properties::default(),
        }
    }

    /// Returns whether an entry differs only because a switch could not write it, and reports it
    /// then.
    fn is_unwritten(&mut self, dir: &[u8], name: &[u8], state: State<'_>) -> bool {
        let unwritten = self.input.unwritten;
        if unwritten.is_empty() {
            return false;
        }
        let path = join(dir, name);
        let below = [&path[..], b"/"].concat();
        let found: Vec<&Vec<u8>> = match state {
            State::Suspect { .. } | State::New { .. } | State::TypeChanged { .. } => {
                unwritten.get(&path).into_iter().collect()
            }
            State::Gone {
                kind: Kind::Directory,
            } => {
                let all = unwritten.range(below.clone()..);
                all.take_while(|path| path.starts_with(&below)).collect()
            }
            State::Gone { .. } => unwritten.get(&path).into_iter().collect(),
            _ => Vec::new(),
        };
        for path in &found {
            let (path, why) = (path.to_vec(), UNWRITTEN.to_owned());
            self.out.unwritten.push(path.clone());
            self.out.problems.push(Problem::new(path, why));
        }
        !found.is_empty()
    }

    /// Returns whether a directory is there only because a switch could not remove it.
    fn is_left_over(&self, dir: &Dir) -> bool {
        dir.known.is_none()
            && dir.changes.is_empty()
            && self.input.unwritten.contains(&dir.path[..])
    }

    /// Returns the directory being scanned.
    fn dir(&mut self, number: usize) -> &mut Dir {
        self.dirs[number]
            .as_mut()
            .expect("it stays until it is left")
    }

    /// Returns whether the base commit has a directory there that the subset includes only in part.
    fn holds_more(&self, dir: &[u8], name: &[u8], was: Kind) -> bool {
        was == Kind::Directory && self.input.scan.subset.extent(&join(dir, name)) == Extent::Part
    }

    /// Reports a skipped entry. Returns whether the base's entry of that name is removed.
    fn skip(&mut self, dir: &[u8], name: &[u8], known: Option<Kind>, reason: Skip) -> bool {
        let path = join(dir, name);
        match reason {
            Skip::Control => self.out.control.push(path),
            Skip::Temporary => {}
            Skip::BadName(why) => {
                let why = format!("its name cannot be stored: {why}");
                self.out.problems.push(Problem::new(path, why));
            }
            Skip::Special(kind) => {
                let why = format!("a {} cannot be committed", special_word(kind));
                self.out.warnings.push(Problem::new(path, why));
                return known.is_some();
            }
            Skip::Unreadable(errno) => {
                let why = std::io::Error::from_raw_os_error(errno).to_string();
                self.out.problems.push(Problem::new(path, why));
            }
        }
        false
    }

    /// Accepts the result for one file.
    fn done(&mut self, done: IngestResult, meta: &mut dyn ObjectWrite) -> Result<(), IngestError> {
        let dir = self.dirs[done.dir]
            .as_mut()
            .expect("a directory waits for its files");
        dir.waiting -= 1;
        match done.result {
            Ok(stored) => {
                if stored.stat.kind == FileKind::File {
                    let path = join(&dir.path, &done.name);
                    let known = dir.known.as_deref();
                    let is_new = || known.is_none_or(|known| known.position(&done.name).is_none());
                    self.out.not_kept.note(&path, &stored, is_new);
                }
                let was = dir.known.as_deref().and_then(|known| {
                    let at = known.position(&done.name)?;
                    Some(known.get(at).kind)
                });
                let what = EntryChange::File {
                    kind: entry_kind(&stored.stat, was),
                    is_list: stored.blob.is_list,
                    id: stored.blob.id,
                    size: stored.blob.size,
                    private: stored.stat.privacy(),
                    kept: stored.kept,
                    fingerprint: trusted_fingerprint(&stored.stat, self.input.started),
                };
                dir.changes.push(&done.name, what);
            }
            Err(failure) => {
                // The file may also be listed as removed. Nothing certain is known, so drop that.
                dir.changes.drop_all(&done.name);
                let path = join(&dir.path, &done.name);
                let input = self.input;
                match failure {
                    // It is as it was when its content was purged.
                    Failure::Purged(id) if has_content(input.reader, input.base, &path, &id)? => {}
                    failure => self.out.problems.push(Problem::new(path, reason(&failure))),
                }
            }
        }
        if let Err(e) = self.finish_from(done.dir, meta) {
            // The pipeline carries only its own errors. `check` returns this one.
            self.failed.get_or_insert(e);
            return Err(IngestError::Cancelled);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), SnapshotError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Makes the trees of `number` and its parents, as far as they are complete.
    fn finish_from(
        &mut self,
        mut number: usize,
        meta: &mut dyn ObjectWrite,
    ) -> Result<(), SnapshotError> {
        while number != NO_DIR {
            if self.dirs[number]
                .as_ref()
                .is_none_or(|d| d.open || d.waiting > 0)
            {
                return Ok(());
            }
            let dir = self.dirs[number].take().expect("looked at just above");
            self.free.push(number);
            let (parent, absent) = (dir.parent, dir.absent);
            let name: Box<[u8]> = dir.path.rsplit(|b| *b == b'/').next().unwrap_or(b"").into();
            let made = if self.is_left_over(&dir) {
                None
            } else {
                self.make(dir, meta)?
            };
            match (self.dirs.get_mut(parent), made) {
                (Some(Some(parent)), made) => {
                    parent.waiting -= 1;
                    if let Some(tree) = made {
                        let what = if absent && tree.entries == 0 {
                            EntryChange::Gone
                        } else {
                            EntryChange::Dir(Box::new(tree))
                        };
                        parent.changes.push(&name, what);
                    }
                }
                (_, made) => self.root = made,
            }
            number = parent;
        }
        Ok(())
    }

    /// Returns the directory's new tree; `None` if it is equal to the base.
    fn make(
        &mut self,
        dir: Dir,
        meta: &mut dyn ObjectWrite,
    ) -> Result<Option<TreeSummary>, SnapshotError> {
        if let (true, Some(known)) = (dir.changes.is_empty(), &dir.known) {
            let none = std::iter::empty();
            self.cache
                .refresh(dir.path, known, none, dir.exact, self.input.started)?;
            return Ok(None);
        }
        if dir.changes.is_empty() && !dir.is_content && dir.parent != NO_DIR {
            return Ok(None);
        }
        let mut order = dir.changes.in_order();
        let base = match (&dir.known, self.input.base) {
            (Some(_), Some(root)) => dir_tree(self.input.reader, &root, &dir.path)?,
            _ => None,
        };
        if self.input.portable {
            self.leave_out_unportable(base, &dir, &mut order)?;
            let is_empty = order.is_empty() && base.is_none() && !dir.is_content;
            if is_empty && dir.parent != NO_DIR {
                return Ok(None);
            }
        }
        let changes = || order.iter().map(|i| dir.changes.get(*i));
        let made = self.merge(base, &dir.path, changes(), meta)?;
        let unknown = Section::default();
        let known = dir.known.as_deref().unwrap_or(&unknown);
        // What the commit has in place of a refused name is outside of the subset.
        let taken = changes().filter(|(name, _)| !made.refused.contains(name));
        let section = known.updated(taken.map(|(name, what)| {
            let row = match what {
                EntryChange::Gone => None,
                EntryChange::Dir(_) => Some((Kind::Directory, Fingerprint::SUSPECT)),
                EntryChange::File {
                    kind, fingerprint, ..
                } => Some((*kind, *fingerprint)),
            };
            (name, row)
        }));
        // In a large directory, each of these is large.
        let (path, is_new) = (dir.path.clone(), base.is_none());
        let (summary, changed) = (made.summary, made.changed);
        drop(made.refused);
        drop((order, dir));
        self.cache.replace(&path, &section)?;
        Ok((changed || is_new).then_some(summary))
    }
}

/// Returns the kind of entry for a file, which was one of the kind `was` before.
pub(crate) fn entry_kind(stat: &FileStat, was: Option<Kind>) -> Kind {
    match (stat.kind, stat.exec) {
        (FileKind::Symlink, _) => Kind::Symlink,
        (_, true) => Kind::Executable,
        // The system cannot tell, so nobody has changed it.
        (_, false) if !HAS_EXECUTABLE_BIT && was == Some(Kind::Executable) => Kind::Executable,
        (_, false) => Kind::File,
    }
}

/// Returns why a directory's entries are not known, as a clause; `None` if they are.
pub fn unread(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Read => None,
        Outcome::Unreadable(e) => Some(e.why()),
        Outcome::Vanished => Some("it was deleted while dmv read it".to_owned()),
        Outcome::OtherFileSystem => Some("it is on another file system".to_owned()),
        Outcome::TooDeep => Some("it is nested too deeply, or its path is too long".to_owned()),
    }
}

fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Path(e) if e.kind() == std::io::ErrorKind::NotFound => {
            "it was deleted before dmv could read it".to_owned()
        }
        Failure::Path(e) => e.why(),
        other => other.to_string(),
    }
}

/// Returns the word for a special file.
pub(crate) fn special_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Fifo => "named pipe",
        FileKind::Socket => "socket",
        FileKind::Device => "device",
        _ => "special file",
    }
}

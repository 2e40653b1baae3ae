//! Writes files into a worktree and removes files from it, according to a plan.
//!
//! This module follows no symlink, guesses nothing and overwrites nothing without a request. It
//! opens each directory without symlinks. Each entry to be removed must still be what the plan saw,
//! and each new entry must find its name free. A path that fails these conditions is refused and
//! reported, and the rest continues. The caller decides what to do.
//!
//! Replacing an entry: the new entry is written beside the old one, both exchange their names in
//! one step, and the old one is compared again with what was seen just before. It stays aside until
//! everything is done (`aside`), so that a program that was about to write to it loses nothing.
//! Removed entries wait in the same way.
//!
//! Moving a file: an unchanged file whose content another path gets goes there (`moves`), and is
//! compared again when it is there. It keeps its time of last change.
//!
//! Order: everything that leaves its place leaves before anything takes a place. So entries may
//! exchange their names in any way, and files may become directories and the reverse.
//!
//! Naming a file: in a directory that this run has created, the file is created under its name.
//! Elsewhere it is written under a temporary name and renamed, so that a reader sees either the old
//! file or the new one. The first way is half as fast again as the second (59,000 against 38,000
//! files of 3 KB per second, ext4, two threads; unnamed files that are linked afterwards reach
//! 43,000). A killed run may leave one incomplete file per thread in a directory that it has
//! created.
//!
//! Nothing is synced: the caller does that once, for everything
//! (`sync_filesystem`).

mod meeting;
mod moves;
mod piece;
mod replaced;

pub use self::moves::Move;
pub(crate) use self::moves::{Departure, MovingFile, arrive, leave};
pub use self::piece::{Content, Piece, Sink};
pub(crate) use self::replaced::ReplacedEntries;

use self::meeting::{respell, why_refused};
use self::piece::Target;
use self::replaced::give_back;
use super::properties::set_xattrs;
use super::statcache::trusted_fingerprint;
use super::{refused_name, split_path};
use crate::fsutil::{
    FileKind, FileStat, FileTime, Fingerprint, Inode, SafeDir, mark_time, set_permissions,
};
use crate::object::tree::Xattrs;
use crate::path::PathError;
use crate::platform::{Cause, HAS_EXECUTABLE_BIT, cause_of, set_modified};
use crate::threads::{cores, start_in};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Entries of one directory that a thread handles at a time.
const BATCH: usize = 1024;

use self::piece::BoxError;
/// The steps to carry out, in this order. Each list is sorted by directory.
#[derive(Clone, Debug)]
pub struct Plan<B> {
    /// Files and symlinks to remove.
    pub remove: Vec<Removal>,
    /// Directories to remove if they are empty then. A directory comes before those in it.
    pub remove_dirs: Vec<Vec<u8>>,
    /// Directories to create. A directory comes before those in it.
    pub make_dirs: Vec<Vec<u8>>,
    /// Files to write.
    pub files: Vec<NewFile<B>>,
    /// Symlinks to create. They come last, so that no file can be written through one.
    pub symlinks: Vec<NewSymlink>,
    /// Whether files are renamed to their names in new directories, too.
    pub rename_always: bool,
    /// Directories that only their owner may read, if the plan creates them; and files of commits that do
    /// not say it.
    pub private: Arc<BTreeSet<Vec<u8>>>,
    /// Directories that stay although they are empty, because the user is in them.
    pub in_use: Arc<[Inode]>,
    /// Directories that were to go and are not empty. One that the file system takes for a new directory gets
    /// the new name.
    pub stayed: Arc<BTreeSet<Vec<u8>>>,
}

impl<B> Default for Plan<B> {
    fn default() -> Plan<B> {
        Plan {
            remove: Vec::new(),
            remove_dirs: Vec::new(),
            make_dirs: Vec::new(),
            files: Vec::new(),
            symlinks: Vec::new(),
            rename_always: false,
            private: Arc::default(),
            in_use: Arc::default(),
            stayed: Arc::default(),
        }
    }
}

/// A file or symlink to remove.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Its path.
    pub path: Vec<u8>,
    /// The fingerprint that it must still have.
    pub expected: Fingerprint,
}

/// A file to write.
#[derive(Clone, Debug)]
pub struct NewFile<B> {
    /// Its path.
    pub path: Vec<u8>,
    /// Whether it is executable.
    pub exec: bool,
    /// Whether only its owner may read it.
    pub private: bool,
    /// When its content was changed for the last time; `None` if the commit does not say it.
    pub modified: Option<FileTime>,
    /// Its extended attributes, as far as the commit says.
    pub xattrs: Xattrs,
    /// Who may write to it.
    pub access: WriteAccess,
    /// Its content.
    pub blob: B,
    /// The fingerprint of the entry that it replaces; with `None` the name must be free.
    pub replaces: Option<Fingerprint>,
}

/// Who may write to a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAccess {
    /// Those who may write to the file that it replaces; without one, those whom the umask lets.
    Usual,
    /// The same, and its owner.
    Owner,
    /// Nobody.
    ReadOnly,
}

impl WriteAccess {
    fn apply(self, mode: u32) -> u32 {
        match self {
            WriteAccess::Usual => mode,
            WriteAccess::Owner => mode | 0o200,
            WriteAccess::ReadOnly => mode & !0o222,
        }
    }
}

/// A symlink to create.
#[derive(Clone, Debug)]
pub struct NewSymlink {
    /// Its path.
    pub path: Vec<u8>,
    /// Its target: any bytes.
    pub target: Vec<u8>,
    /// The fingerprint of the entry that it replaces; with `None` the name must be free.
    pub replaces: Option<Fingerprint>,
}

/// The result of a plan.
#[derive(Debug, Default)]
pub struct Report {
    /// The result for each file of the plan; `None` if it was refused.
    pub files: Vec<Option<PlacedEntry>>,
    /// The result for each symlink of the plan; `None` if it was refused.
    pub symlinks: Vec<Option<PlacedEntry>>,
    /// Number of files and symlinks that were removed.
    pub removed: u64,
    /// The steps that were not carried out.
    pub refused: Vec<RefusedPath>,
}

/// A file or symlink that was written.
#[derive(Clone, Copy, Debug)]
pub struct PlacedEntry {
    /// Its stat.
    pub stat: FileStat,
    /// Whether another program has written to it already.
    pub touched: bool,
    /// Whether it did not get all of its extended attributes.
    pub lacks_xattrs: bool,
}

impl PlacedEntry {
    /// Returns the fingerprint for the stat cache after a run that ended at `ended`.
    pub fn fingerprint(&self, ended: FileTime) -> Fingerprint {
        if self.touched {
            Fingerprint::SUSPECT
        } else {
            trusted_fingerprint(&self.stat, ended)
        }
    }
}

/// A path that was not changed.
#[derive(Debug)]
pub struct RefusedPath {
    /// The path.
    pub path: Vec<u8>,
    /// The reason.
    pub why: Refusal,
}

/// Why a path was not changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// An entry is there that the plan does not know.
    #[error("another file is in the way")]
    Occupied,
    /// The file system takes the name for that of another entry, which stays. This is its path.
    #[error("this file system takes its name for that of {}", crate::object::name::escape(.0))]
    Meets(Vec<u8>),
    /// The entry there is not the one that the plan saw.
    #[error("it has changed in the meantime")]
    Changed,
    /// Like [`Changed`](Self::Changed), and the new entry was changed, too. This is the path of the
    /// former version.
    #[error("it has changed twice in the meantime; the other version is in {}", crate::object::name::escape(.0))]
    Twice(Vec<u8>),
    /// A directory to be removed is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A directory to be removed is in use: see [`Plan::in_use`].
    #[error("it is the current directory")]
    InUse,
    /// The system makes no symlinks.
    #[error("no symlinks can be made here")]
    NoSymlinks,
    /// No file may have this name.
    #[error("the name is not allowed")]
    BadName,
    /// The content could not be read.
    #[error("{0}")]
    Content(BoxError),
    /// The system returned an error.
    #[error(transparent)]
    Path(PathError),
}

/// Why a run ended early. Everything that it did before stays.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// The caller cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// The disk is full or cannot be written to, so no other step would succeed.
    #[error(transparent)]
    Disk(PathError),
}

/// Carries out `plan` in the worktree at `root`.
///
/// `threads` is the number of threads; 0 for one per processor, at least two. Replaced and removed
/// entries wait among `replaced`.
pub(crate) fn apply_plan<B: Sync>(
    root: &SafeDir,
    plan: &Plan<B>,
    content: &dyn Content<B>,
    threads: usize,
    cancel: &AtomicBool,
    replaced: &ReplacedEntries<'_>,
) -> Result<Report, CheckoutError> {
    let threads = match threads {
        0 => cores().max(2),
        n => n,
    };
    let run = Run {
        root,
        threads,
        cancel,
    };
    let mut report = Report::default();
    let refused = &mut report.refused;
    let place = EntryWriter {
        content,
        replaced,
        private: &plan.private,
    };
    let removed = run.each(
        &plan.remove,
        |r| &r.path,
        refused,
        |dir, name, removal| place.remove(dir, name, removal),
    )?;
    report.removed = removed.iter().flatten().count() as u64;
    for path in plan.remove_dirs.iter().rev() {
        let removed = split(path).and_then(|place| remove_dir(root, place, &plan.in_use));
        if let Err(why) = removed {
            refused.push(refuse(path, why)?);
        }
    }
    let made = run.make_dirs(plan, refused)?;
    report.files = run.each(
        &plan.files,
        |f| &f.path,
        refused,
        |dir, name, file| {
            let fresh =
                !plan.rename_always && dir_of(&file.path).is_some_and(|dir| made.contains(dir));
            place.write_file(dir, name, file, fresh, cancel)
        },
    )?;
    report.symlinks = run.each(
        &plan.symlinks,
        |l| &l.path,
        refused,
        |dir, name, link| place.make_symlink(dir, name, link),
    )?;
    Ok(report)
}

struct Run<'a> {
    root: &'a SafeDir,
    threads: usize,
    cancel: &'a AtomicBool,
}

impl Run<'_> {
    fn check_cancel(&self) -> Result<(), CheckoutError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(CheckoutError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Returns the directories that did not exist before.
    fn make_dirs<'p, B>(
        &self,
        plan: &'p Plan<B>,
        refused: &mut Vec<RefusedPath>,
    ) -> Result<HashSet<&'p [u8]>, CheckoutError> {
        let mut made = HashSet::new();
        let mut parent: Option<(&[u8], SafeDir)> = None;
        for path in &plan.make_dirs {
            self.check_cancel()?;
            let result = split(path).and_then(|(dir, name)| {
                if parent.as_ref().is_none_or(|(open, _)| *open != dir) {
                    parent = Some((dir, self.root.open_dir(dir)?));
                }
                let (_, parent) = parent.as_ref().expect("set above");
                make_dir(parent, name, plan.private.contains(path))
                    .or_else(|why| respell(self.root, path, &plan.stayed).ok_or(why))
            });
            match result {
                Ok(true) => {
                    made.insert(&path[..]);
                }
                Ok(false) => {}
                Err(why) => refused.push(refuse(path, why_refused(self.root, path, why))?),
            }
        }
        Ok(made)
    }

    /// Applies `action` to each of `items` in its directory. Returns the results in order.
    fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        path: impl Fn(&T) -> &[u8] + Sync,
        refused: &mut Vec<RefusedPath>,
        action: impl Fn(&SafeDir, &[u8], &T) -> Result<R, Refusal> + Sync,
    ) -> Result<Vec<Option<R>>, CheckoutError> {
        let batches: Vec<&[T]> = items
            .chunk_by(|a, b| dir_of(path(a)) == dir_of(path(b)))
            .flat_map(|same_dir| same_dir.chunks(BATCH))
            .collect();
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let results = Mutex::new(Vec::with_capacity(batches.len()));
        let work = || {
            while !failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(batch) = batches.get(index) else {
                    break;
                };
                let mut done = Vec::with_capacity(batch.len());
                let mut refused = Vec::new();
                let result = self.batch(batch, &path, &action, &mut done, &mut refused);
                if result.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                let mut results = results.lock().expect("no thread panics while it holds it");
                results.push((index, done, refused, result));
            }
        };
        std::thread::scope(|scope| {
            let others = self.threads.min(batches.len()).saturating_sub(1);
            for _ in 0..others {
                // Without a further thread, the others do the work.
                let _ = start_in(scope, work);
            }
            work();
        });
        let mut results = results
            .into_inner()
            .expect("no thread panics while it holds it");
        results.sort_unstable_by_key(|(index, ..)| *index);
        let mut all = Vec::with_capacity(items.len());
        for (_, done, mut batch_refused, result) in results {
            result?;
            all.extend(done);
            refused.append(&mut batch_refused);
        }
        Ok(all)
    }

    fn batch<T, R>(
        &self,
        batch: &[T],
        path: &(impl Fn(&T) -> &[u8] + Sync),
        action: &(impl Fn(&SafeDir, &[u8], &T) -> Result<R, Refusal> + Sync),
        done: &mut Vec<Option<R>>,
        refused: &mut Vec<RefusedPath>,
    ) -> Result<(), CheckoutError> {
        let mut open: Option<SafeDir> = None;
        for item in batch {
            self.check_cancel()?;
            let result = split(path(item)).and_then(|(dir, name)| {
                if open.is_none() {
                    open = Some(self.root.open_dir(dir)?);
                }
                action(open.as_ref().expect("set above"), name, item)
            });
            match result {
                Ok(value) => done.push(Some(value)),
                Err(why) => {
                    done.push(None);
                    self.check_cancel()?;
                    let why = why_refused(self.root, path(item), why);
                    refused.push(refuse(path(item), why)?);
                }
            }
        }
        Ok(())
    }
}

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Refusal {
        Refusal::Path(error)
    }
}

/// Returns the directory and name of `path`, if a worktree may contain these names.
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let allowed = |name: &&[u8]| !name.is_empty() && refused_name(name).is_none();
    split_path(path)
        .filter(|_| path.split(|b| *b == b'/').all(|name| allowed(&name)))
        .ok_or(Refusal::BadName)
}

fn dir_of(path: &[u8]) -> Option<&[u8]> {
    split_path(path).map(|(dir, _)| dir)
}

/// Returns the refusal of one path, or an error if all others would fail in the same way.
fn refuse(path: &[u8], why: Refusal) -> Result<RefusedPath, CheckoutError> {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match why {
        Refusal::Path(e)
            if matches!(e.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem) =>
        {
            Err(CheckoutError::Disk(e))
        }
        why => Ok(RefusedPath {
            path: path.to_vec(),
            why,
        }),
    }
}

fn remove_dir(
    root: &SafeDir,
    (dir, name): (&[u8], &[u8]),
    in_use: &[Inode],
) -> Result<(), Refusal> {
    let parent = match root.open_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        // This run did not create the present entry.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(Refusal::Changed),
        parent => parent?,
    };
    if !in_use.is_empty() {
        let stat = parent.stat_opt(name)?;
        if stat.is_some_and(|stat| in_use.contains(&stat.inode())) {
            return Err(Refusal::InUse);
        }
    }
    match parent.remove_dir(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Err(Refusal::NotEmpty),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Err(Refusal::Changed),
        removed => Ok(removed?),
    }
}

/// Creates a directory. Returns whether it did not exist before.
fn make_dir(parent: &SafeDir, name: &[u8], private: bool) -> Result<bool, Refusal> {
    match parent.create_dir(name, private) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match parent.stat_opt(name)? {
            Some(stat) if stat.kind == FileKind::Dir => Ok(false),
            _ => Err(Refusal::Occupied),
        },
        Err(e) => Err(e.into()),
    }
}

/// Puts single entries in place.
struct EntryWriter<'a, B> {
    content: &'a dyn Content<B>,
    replaced: &'a ReplacedEntries<'a>,
    private: &'a BTreeSet<Vec<u8>>,
}

impl<B> EntryWriter<'_, B> {
    fn remove(&self, dir: &SafeDir, name: &[u8], removal: &Removal) -> Result<(), Refusal> {
        let Some(seen) = dir.stat_opt(name)? else {
            return Ok(()); // Another program has removed it.
        };
        if seen.fingerprint() != removal.expected {
            return Err(Refusal::Changed);
        }
        self.content.replacing();
        let root = self.replaced.root();
        let temp = match dir.move_aside(name, root) {
            Ok(Some(temp)) => temp,
            Ok(None) => return Ok(dir.unlink(name)?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let now = root.stat_opt(&temp).ok().flatten();
        if now.is_some_and(|now| now.untouched() != seen.untouched()) {
            let kept = self.replaced.bring_back(root, &temp, &removal.path)?;
            return Err(kept.map_or(Refusal::Changed, Refusal::Twice));
        }
        self.replaced.take_removed(&removal.path, temp, &seen);
        Ok(())
    }

    fn write_file(
        &self,
        dir: &SafeDir,
        name: &[u8],
        new: &NewFile<B>,
        fresh: bool,
        cancel: &AtomicBool,
    ) -> Result<PlacedEntry, Refusal> {
        // What was there lends the new file its mode, where there are modes. Later it is looked at anyway.
        let before = if HAS_EXECUTABLE_BIT {
            check_replaced(dir, name, new.replaces)?
        } else {
            None
        };
        // A file that only grows can share no blocks.
        let direct = fresh && new.replaces.is_none() && !self.content.may_share(&new.blob);
        let (file, created) = if direct {
            (
                dir.create_growing(name, new.exec).map_err(occupied)?,
                name.to_vec(),
            )
        } else {
            dir.create_temp(new.exec)?
        };
        let (mut ours, mut is_placed) = (None, false);
        let mut finish = || {
            let stat = |file: &File| dir.stat_open(file).map_err(|e| dir.error("stat", name, e));
            let before = before.filter(|before| before.kind == FileKind::File);
            let is_private = new.private || self.private.contains(&new.path);
            // A private file that is replaced by one that others may read gets the usual permissions.
            let before = before.filter(|before| is_private || before.privacy() != Some(true));
            if is_private {
                // Before the file has any content.
                let mode = if new.exec { 0o700 } else { 0o600 };
                set_permissions(&file, mode)
                    .map_err(|e| dir.error("set permissions of", name, e))?;
            }
            let lacks_xattrs = !set_xattrs(&file, &new.xattrs);
            ours = Some(stat(&file)?);
            let target = Target {
                dir,
                name,
                file: &file,
                grows: direct,
            };
            let written = target.fill(&new.blob, self.content, cancel)?;
            let mut complete = stat(&file)?;
            if complete.size != written {
                return Err(Refusal::Changed);
            }
            let kept = match before {
                Some(before) if is_private => Some(before.mode & 0o700),
                Some(before) => Some(before.mode),
                None => (new.access != WriteAccess::Usual).then_some(complete.mode),
            };
            if let Some(kept) = kept {
                keep_permissions(&file, &mut complete, new.access.apply(kept), new.exec)
                    .map_err(|e| dir.error("set permissions of", name, e))?;
            }
            let marked = match new.modified.filter(|time| *time < complete.mtime) {
                // A later write cannot have this time. A file system may round it.
                Some(time) => restore_time(dir, &file, time),
                None => mark_time(&file, &complete, odd()),
            };
            // If this fails, a write in the same tick of the clock cannot be detected.
            if let Ok(marked) = marked {
                complete.mtime = marked;
            }
            if !direct {
                is_placed = true;
                self.put_in_place(dir, &created, name, &new.path, new.replaces, &complete)?;
            }
            // Taken after the rename, which counts as a change.
            let stat = stat(&file)?;
            let touched = stat.untouched() != complete.untouched();
            Ok(PlacedEntry {
                stat,
                touched,
                lacks_xattrs,
            })
        };
        finish().inspect_err(|why| match (direct, ours) {
            (false, _) if !is_placed => discard(dir, &created),
            // If another program has written into it or replaced it, it is not this run's to
            // remove.
            (true, Some(ours))
                if !matches!(why, Refusal::Changed) && dir.is_same_file(name, &ours) =>
            {
                discard(dir, name);
            }
            _ => {}
        })
    }

    fn make_symlink(
        &self,
        dir: &SafeDir,
        name: &[u8],
        link: &NewSymlink,
    ) -> Result<PlacedEntry, Refusal> {
        check_replaced(dir, name, link.replaces)?;
        let temp = dir
            .symlink_temp(&link.target)
            .map_err(|e| match cause_of(&e.source) {
                Cause::Unsupported => Refusal::NoSymlinks,
                _ => e.into(),
            })?;
        let ours = dir.stat(&temp).inspect_err(|_| discard(dir, &temp))?;
        self.put_in_place(dir, &temp, name, &link.path, link.replaces, &ours)?;
        let stat = dir.stat(name)?;
        let touched = stat.untouched() != ours.untouched();
        Ok(PlacedEntry {
            stat,
            touched,
            lacks_xattrs: false,
        })
    }

    /// Renames the finished entry `temp`, whose stat is `ours`, to its name; or removes it.
    fn put_in_place(
        &self,
        dir: &SafeDir,
        temp: &[u8],
        name: &[u8],
        path: &[u8],
        replaces: Option<Fingerprint>,
        ours: &FileStat,
    ) -> Result<(), Refusal> {
        let exchange = || {
            // Writing may have taken long, so compare again.
            let seen = check_replaced(dir, name, replaces)?;
            self.content.replacing();
            if seen.is_none() {
                dir.rename_noreplace(temp, name).map_err(occupied)?;
                return Ok(None);
            }
            match dir.exchange(temp, name) {
                Ok(true) => Ok(seen),
                Ok(false) => Ok(dir.rename(temp, name).map(|()| None)?),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Refusal::Changed),
                Err(e) => Err(e.into()),
            }
        };
        let Some(seen) = exchange().inspect_err(|_| discard(dir, temp))? else {
            return Ok(());
        };
        let out = dir.stat_opt(temp).ok().flatten();
        if out.is_some_and(|out| out.untouched() != seen.untouched()) {
            let kept = give_back(dir, temp, name, ours.untouched())?;
            return Err(kept.map_or(Refusal::Changed, Refusal::Twice));
        }
        let (temp, ours) = (temp.to_vec(), ours.untouched());
        self.replaced.take_replaced(path, temp, &seen, ours);
        Ok(())
    }
}

/// Gives a new file, whose stat is `new`, the permissions of the file that it replaces, except for
/// the executable bit.
fn keep_permissions(file: &File, new: &mut FileStat, before: u32, exec: bool) -> io::Result<()> {
    let mode = if exec {
        before | 0o100 | (before & 0o444) >> 2
    } else {
        before & !0o111
    };
    if mode & 0o777 != new.mode & 0o777 {
        set_permissions(file, mode)?;
        (new.mode, new.exec) = (mode & 0o777, exec);
    }
    Ok(())
}

/// Sets the time of a file's last change, and returns what the file system has made of it.
fn restore_time(dir: &SafeDir, file: &File, time: FileTime) -> io::Result<FileTime> {
    set_modified(file, time)?;
    Ok(dir.stat_open(file)?.mtime)
}

/// Returns a different number each time.
fn odd() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    COUNT.fetch_add(619, Ordering::Relaxed)
}

/// Returns the stat of the entry to be replaced. Fails if it is not as expected.
fn check_replaced(
    dir: &SafeDir,
    name: &[u8],
    replaces: Option<Fingerprint>,
) -> Result<Option<FileStat>, Refusal> {
    let Some(expected) = replaces else {
        return Ok(None);
    };
    match dir.stat_opt(name)? {
        Some(stat) if stat.fingerprint() == expected => Ok(Some(stat)),
        _ => Err(Refusal::Changed),
    }
}

fn occupied(error: PathError) -> Refusal {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Refusal::Occupied,
        _ => Refusal::Path(error),
    }
}

fn discard(dir: &SafeDir, name: &[u8]) {
    // The error that led here matters more than this one. Scans recognise temporary names.
    let _ = dir.unlink(name);
}

#[cfg(all(test, unix))]
mod tests;

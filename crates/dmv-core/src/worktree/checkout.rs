//! Puts files into a worktree and takes them out, after a plan.
//!
//! Nothing is followed, guessed or overwritten unasked: each directory is opened without symlinks,
//! each entry that goes away must still be what the plan saw, and each new one finds its name free.
//! A path where that does not hold is refused and reported, and the rest goes on. What to do is
//! the caller's decision; here it is only done.
//!
//! How a file gets its name: in a directory that this very run has made, it is created under it;
//! elsewhere it is written under a temporary name and renamed, so that a reader sees the old file or
//! the new one. The first way is half as fast again as the second (59,000 against 38,000 files of
//! 3 KB per second, ext4, two threads; unnamed files that are linked afterwards reach 43,000). A
//! run that is killed may leave an incomplete file in a directory it has made, one per thread.
//!
//! Nothing is synced: the caller does that once, for everything
//! ([`sync_filesystem`](crate::fsutil::sync_filesystem)).

use super::{refused_name, split_path};
use crate::fsutil::{FileKind, FileStat, Fingerprint, PathError, SafeDir, stat_file};
use crate::vfs::start_writeback;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Entries of one directory that a thread does at a time.
const BATCH: usize = 1024;

/// Bytes of a file after which the system is asked to start writing to the medium.
const WRITEBACK_BYTES: u64 = 8 << 20;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Gives the content of files. `B` names one.
pub trait Content<B: ?Sized>: Sync {
    /// Hands the content of `blob` to `sink`, in order. An error of `sink` must end it.
    fn write_blob(
        &self,
        blob: &B,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), BoxError>;
}

/// What is to be done, in this order. Each list is sorted by directory.
#[derive(Clone, Debug)]
pub struct Plan<B> {
    /// Files and symlinks that go away.
    pub remove: Vec<Removal>,
    /// Directories that go away if they are empty then; a directory before those in it.
    pub remove_dirs: Vec<Vec<u8>>,
    /// Directories that are needed; a directory before those in it.
    pub make_dirs: Vec<Vec<u8>>,
    /// Files that are written.
    pub files: Vec<NewFile<B>>,
    /// Symlinks that are made. They come last, so that no file can be written through one.
    pub symlinks: Vec<NewSymlink>,
    /// Whether files get their names by renaming in new directories, too.
    pub rename_always: bool,
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
        }
    }
}

/// A file or symlink that goes away.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Where it is.
    pub path: Vec<u8>,
    /// What it must still be.
    pub expected: Fingerprint,
}

/// A file that is written.
#[derive(Clone, Debug)]
pub struct NewFile<B> {
    /// Where to.
    pub path: Vec<u8>,
    /// Whether it is executable.
    pub exec: bool,
    /// Its content.
    pub blob: B,
    /// What it replaces; with `None` the name must be free.
    pub replaces: Option<Fingerprint>,
}

/// A symlink that is made.
#[derive(Clone, Debug)]
pub struct NewSymlink {
    /// Where.
    pub path: Vec<u8>,
    /// What it points to: any bytes.
    pub target: Vec<u8>,
    /// What it replaces; with `None` the name must be free.
    pub replaces: Option<Fingerprint>,
}

/// How a plan went.
#[derive(Debug, Default)]
pub struct Report {
    /// For each file of the plan what it is now; `None` if it was refused.
    ///
    /// For the stat cache, take [`trusted_fingerprint`](super::statcache::trusted_fingerprint) of
    /// it and of the time at the end of the run.
    pub files: Vec<Option<FileStat>>,
    /// The same for each symlink.
    pub symlinks: Vec<Option<FileStat>>,
    /// What was not done.
    pub refused: Vec<Refused>,
}

/// A path that was left as it was.
#[derive(Debug)]
pub struct Refused {
    /// The path.
    pub path: Vec<u8>,
    /// Why.
    pub why: Refusal,
}

/// Why a path was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Something is there that the plan does not know of.
    #[error("something else is there")]
    Occupied,
    /// What is there is not what the plan saw.
    #[error("it was changed meanwhile")]
    Changed,
    /// A directory that was to be removed holds something.
    #[error("the directory is not empty")]
    NotEmpty,
    /// No file may have this name.
    #[error("the name is not allowed")]
    BadName,
    /// The content could not be had.
    #[error("{0}")]
    Content(BoxError),
    /// The system refused.
    #[error(transparent)]
    Path(PathError),
}

/// Why a run ended early. What was done until then stays.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// The caller wanted it.
    #[error("cancelled")]
    Cancelled,
    /// The disk is full or cannot be written to, so nothing else would work either.
    #[error(transparent)]
    Disk(PathError),
}

/// Carries out `plan` in the worktree at `root`, with `threads` threads; 0 for one per processor,
/// at least two.
pub fn materialize<B: Sync>(
    root: &SafeDir,
    plan: &Plan<B>,
    content: &dyn Content<B>,
    threads: usize,
    cancel: &AtomicBool,
) -> Result<Report, CheckoutError> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
        n => n,
    };
    let run = Run {
        root,
        threads,
        cancel,
    };
    let mut report = Report::default();
    let refused = &mut report.refused;
    run.each(
        &plan.remove,
        |r| &r.path,
        refused,
        |dir, name, removal| remove(dir, name, removal.expected),
    )?;
    for path in plan.remove_dirs.iter().rev() {
        if let Err(why) = split(path).and_then(|(dir, name)| remove_dir(root, dir, name)) {
            refused.push(refuse(path, why)?);
        }
    }
    let made = run.make_dirs(&plan.make_dirs, refused)?;
    report.files = run.each(
        &plan.files,
        |f| &f.path,
        refused,
        |dir, name, file| {
            let fresh =
                !plan.rename_always && dir_of(&file.path).is_some_and(|dir| made.contains(dir));
            write_file(dir, name, file, content, fresh, cancel)
        },
    )?;
    report.symlinks = run.each(&plan.symlinks, |l| &l.path, refused, make_symlink)?;
    Ok(report)
}

struct Run<'a> {
    root: &'a SafeDir,
    threads: usize,
    cancel: &'a AtomicBool,
}

impl Run<'_> {
    fn check_cancel(&self) -> Result<(), CheckoutError> {
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(CheckoutError::Cancelled),
            false => Ok(()),
        }
    }

    /// Returns the directories that were not there before.
    fn make_dirs<'p>(
        &self,
        paths: &'p [Vec<u8>],
        refused: &mut Vec<Refused>,
    ) -> Result<HashSet<&'p [u8]>, CheckoutError> {
        let mut made = HashSet::new();
        let mut parent: Option<(&[u8], SafeDir)> = None;
        for path in paths {
            self.check_cancel()?;
            let result = split(path).and_then(|(dir, name)| {
                if parent.as_ref().is_none_or(|(open, _)| *open != dir) {
                    parent = Some((dir, self.root.open_dir(dir)?));
                }
                let (_, parent) = parent.as_ref().expect("set above");
                make_dir(parent, name)
            });
            match result {
                Ok(true) => {
                    made.insert(&path[..]);
                }
                Ok(false) => {}
                Err(why) => refused.push(refuse(path, why)?),
            }
        }
        Ok(made)
    }

    /// Does `action` for each of `items` in its directory; returns what came of each, in order.
    fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        path: impl Fn(&T) -> &[u8] + Sync,
        refused: &mut Vec<Refused>,
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
                scope.spawn(work);
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
        refused: &mut Vec<Refused>,
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

/// The directory and name of `path`, if a worktree may hold that name.
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let allowed = |name: &&[u8]| !name.is_empty() && refused_name(name).is_none();
    split_path(path)
        .filter(|_| path.split(|b| *b == b'/').all(|name| allowed(&name)))
        .ok_or(Refusal::BadName)
}

fn dir_of(path: &[u8]) -> Option<&[u8]> {
    split_path(path).map(|(dir, _)| dir)
}

/// One path's failure, unless it is one that all others will share.
fn refuse(path: &[u8], why: Refusal) -> Result<Refused, CheckoutError> {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match why {
        Refusal::Path(e)
            if matches!(e.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem) =>
        {
            Err(CheckoutError::Disk(e))
        }
        why => Ok(Refused {
            path: path.to_vec(),
            why,
        }),
    }
}

fn remove(dir: &SafeDir, name: &[u8], expected: Fingerprint) -> Result<(), Refusal> {
    match dir.stat_opt(name)? {
        // Somebody was faster.
        None => Ok(()),
        Some(stat) if stat.fingerprint() == expected => Ok(dir.unlink(name)?),
        Some(_) => Err(Refusal::Changed),
    }
}

fn remove_dir(root: &SafeDir, dir: &[u8], name: &[u8]) -> Result<(), Refusal> {
    let removed = root.open_dir(dir).and_then(|dir| dir.remove_dir(name));
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Err(Refusal::NotEmpty),
        // What is there now was not made by us.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Err(Refusal::Changed),
        other => Ok(other?),
    }
}

/// Whether the directory was not there before.
fn make_dir(parent: &SafeDir, name: &[u8]) -> Result<bool, Refusal> {
    match parent.create_dir(name) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match parent.stat(name)?.kind {
            FileKind::Dir => Ok(false),
            _ => Err(Refusal::Occupied),
        },
        Err(e) => Err(e.into()),
    }
}

fn write_file<B>(
    dir: &SafeDir,
    name: &[u8],
    new: &NewFile<B>,
    content: &dyn Content<B>,
    fresh: bool,
    cancel: &AtomicBool,
) -> Result<FileStat, Refusal> {
    check_replaced(dir, name, new.replaces)?;
    let direct = fresh && new.replaces.is_none();
    let (mut file, created) = match direct {
        true => (
            dir.create_new(name, new.exec).map_err(occupied)?,
            name.to_vec(),
        ),
        false => dir.create_temp(new.exec)?,
    };
    let mut finish = || {
        fill(dir, name, &mut file, &new.blob, content, cancel)?;
        if !direct {
            put_in_place(dir, &created, name, new.replaces)?;
        }
        // After the rename, which counts as a change.
        stat_file(&file).map_err(|e| dir.error("stat", name, e).into())
    };
    finish().inspect_err(|_| discard(dir, &created))
}

fn fill<B>(
    dir: &SafeDir,
    name: &[u8],
    file: &mut File,
    blob: &B,
    content: &dyn Content<B>,
    cancel: &AtomicBool,
) -> Result<(), Refusal> {
    let mut failed = None;
    let (mut written, mut begun) = (0u64, 0u64);
    let result = content.write_blob(blob, &mut |bytes| {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // A final sync then finds little left to do. What was written last stays out of it, so that
        // small files never pay.
        if written - begun >= WRITEBACK_BYTES {
            start_writeback(file, begun, written - begun);
            begun = written;
        }
        written += bytes.len() as u64;
        file.write_all(bytes).map_err(|e| {
            let kind = e.kind();
            failed = Some(e);
            kind.into()
        })
    });
    match failed {
        Some(e) => Err(dir.error("write", name, e).into()),
        None => result.map_err(Refusal::Content),
    }
}

fn make_symlink(dir: &SafeDir, name: &[u8], link: &NewSymlink) -> Result<FileStat, Refusal> {
    check_replaced(dir, name, link.replaces)?;
    if link.replaces.is_none() {
        dir.symlink(&link.target, name).map_err(occupied)?;
    } else {
        let temp = dir.symlink_temp(&link.target)?;
        put_in_place(dir, &temp, name, link.replaces).inspect_err(|_| discard(dir, &temp))?;
    }
    Ok(dir.stat(name)?)
}

/// Gives the finished entry `temp` its name.
fn put_in_place(
    dir: &SafeDir,
    temp: &[u8],
    name: &[u8],
    replaces: Option<Fingerprint>,
) -> Result<(), Refusal> {
    match replaces {
        None => dir.rename_noreplace(temp, name).map_err(occupied),
        Some(_) => {
            // Writing may have taken long, so look again.
            check_replaced(dir, name, replaces)?;
            Ok(dir.rename(temp, name)?)
        }
    }
}

fn check_replaced(
    dir: &SafeDir,
    name: &[u8],
    replaces: Option<Fingerprint>,
) -> Result<(), Refusal> {
    let Some(expected) = replaces else {
        return Ok(());
    };
    match dir.stat_opt(name)? {
        Some(stat) if stat.fingerprint() == expected => Ok(()),
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
    // The error that led here matters more than this one; scans know temporary names.
    let _ = dir.unlink(name);
}

#[cfg(test)]
mod tests;

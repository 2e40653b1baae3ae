//! Locks between processes: taking one with a bounded wait, and finding out which process holds it.
//!
//! A lock is one of the system's on a file that exists only for it. The system releases it when its process
//! dies. The module knows nothing of repositories. `refs` and `repo` use it.

pub use crate::platform::Holder;
pub(crate) use crate::platform::holder_of;

use crate::platform::{OwnAccess, open_own, try_lock_at, try_lock_dir};
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a command waits for another command.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a command waits for a stopped process, which only a person can continue.
pub const STOPPED_PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause between two attempts. Pauses are short and random, so that each of several
/// waiting processes gets its turn.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        if self.is_stopped {
            write!(
                f,
                "process {pid} is stopped ('kill -CONT {pid}' continues it)"
            )
        } else {
            write!(f, "process {pid} is running")
        }
    }
}

/// Returns the part of a message that names the holder; empty if the holder is unknown.
pub fn told(holder: &Option<Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": {holder}"))
}

/// Opens the lock file at `path`, and creates it if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // An existing file can be locked without the right to write to it.
    open_own(path, OwnAccess::Create).or_else(|e| open_own(path, OwnAccess::Read).map_err(|_| e))
}

/// Tries to take the exclusive lock of the file at `path`, and creates the file if it is missing.
///
/// Returns `None` if another process holds the lock. Closing the returned handle releases it.
pub(crate) fn try_take(path: &Path) -> io::Result<Option<File>> {
    try_lock_at(open(path)?, path)
}

/// Takes the lock like `try_take`, and waits for up to `patience`. The inner `Err` is the holder,
/// if it is known.
pub fn take(path: &Path, patience: Duration) -> io::Result<Result<File, Option<Holder>>> {
    wait(&[path], patience, || try_take(path))
}

/// Takes the lock of the directory `dir` like [`take`], for a directory in which no lock file is to lie.
pub fn take_dir(dir: &Path, patience: Duration) -> io::Result<Result<File, Option<Holder>>> {
    // The user may have put a symlink in its place.
    let dir = &std::fs::canonicalize(dir)?;
    wait(&[dir], patience, || try_lock_dir(dir))
}

/// How much of the time between two attempts counts as waiting, at most.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// Calls `try_it` until it returns a value, for up to `patience`. The wait is shorter if the holder
/// of a lock on `files` is stopped.
///
/// The inner `Err` is the holder, if it is known.
pub fn wait<T>(
    files: &[&Path],
    patience: Duration,
    mut try_it: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<Result<T, Option<Holder>>> {
    let mut last = Instant::now();
    let mut waited = Duration::ZERO;
    let mut pause = Duration::from_millis(1);
    let mut asked = Duration::ZERO;
    loop {
        if let Some(done) = try_it()? {
            return Ok(Ok(done));
        }
        // A pause longer than this means that this process itself was stopped. That time does not
        // count; otherwise it would give up as soon as it continues.
        waited += last.elapsed().min(LONGEST_STEP);
        last = Instant::now();
        if waited >= patience {
            return Ok(Err(holder_of(files)));
        }
        if waited >= STOPPED_PATIENCE && waited - asked >= STOPPED_PATIENCE / 4 {
            asked = waited;
            let stopped = holder_of(files).filter(|holder| holder.is_stopped);
            if stopped.is_some() {
                return Ok(Err(stopped));
            }
        }
        std::thread::sleep((pause / 2 + jitter(pause)).min(patience - waited));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns a random duration up to half of `pause`.
fn jitter(pause: Duration) -> Duration {
    let random = std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish();
    pause / 2 * (random % 64) as u32 / 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(windows, ignore = "the system does not tell who has a lock")]
    fn who_waits_is_told_who_has_the_lock() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("lock");
        let held = take(&path, Duration::ZERO)?.expect("nobody has it");
        let begin = Instant::now();
        let refused = take(&path, Duration::from_millis(50))?.expect_err("it is held");
        assert!(begin.elapsed() >= Duration::from_millis(50));
        let own = Holder {
            pid: std::process::id(),
            is_stopped: false,
        };
        assert_eq!(refused, Some(own));
        drop(held);
        assert!(take(&path, Duration::ZERO)?.is_ok());
        Ok(())
    }

    #[test]
    fn of_many_who_wait_each_gets_its_turn() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("lock");
        // Each thread holds the lock for longer than the others pause.
        let wait = |_| {
            take(&path, PATIENCE).map(|file| {
                file.map(|file| {
                    std::thread::sleep(Duration::from_millis(20));
                    drop(file);
                })
            })
        };
        let all: Vec<io::Result<Result<(), _>>> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..10).map(|n| scope.spawn(move || wait(n))).collect();
            all.into_iter()
                .map(|one| one.join().expect("it runs"))
                .collect()
        });
        assert!(all.into_iter().all(|one| one.is_ok_and(|one| one.is_ok())));
        Ok(())
    }

    #[test]
    fn a_lock_file_that_was_removed_locks_nobody_out() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("lock");
        let _held = try_take(&path)?.expect("nobody has it");
        std::fs::remove_file(&path)?;
        assert!(try_take(&path)?.is_some());
        Ok(())
    }
}

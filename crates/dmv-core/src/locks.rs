//! Locks between processes: taking one with a bounded wait, and finding out which process holds it.
//!
//! A lock is an `flock` on a file that exists only for it. The system releases it when its process
//! dies. The module knows nothing of repositories. `refs` and `repo` use it.

use std::fmt;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a command waits for another command.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a command waits for a stopped process, which only a person can continue.
const STOPPED_PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause between two attempts. Pauses are short and random, so that each of several
/// waiting processes gets its turn.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// The process that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Whether the process is stopped (Ctrl-Z, SIGSTOP).
    pub is_stopped: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        match self.is_stopped {
            true => write!(
                f,
                "process {pid} is stopped ('kill -CONT {pid}' continues it)"
            ),
            false => write!(f, "process {pid} is running"),
        }
    }
}

/// Returns the part of a message that names the holder; empty if the holder is unknown.
pub fn told(holder: &Option<Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": {holder}"))
}

/// Tries to take the exclusive lock of the file at `path`, and creates the file if it is missing.
///
/// Returns `None` if another process holds the lock. Closing the returned handle releases it.
pub fn try_take(path: &Path) -> io::Result<Option<File>> {
    let opened = File::options().create(true).append(true).open(path);
    // An existing file can be locked without the right to write to it.
    let file = opened.or_else(|e| File::open(path).map_err(|_| e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    // A file that was removed meanwhile excludes no other process.
    let is_there = std::fs::metadata(path).is_ok_and(|now| {
        file.metadata()
            .is_ok_and(|own| (own.dev(), own.ino()) == (now.dev(), now.ino()))
    });
    Ok(is_there.then_some(file))
}

/// Takes the lock like [`try_take`], and waits for up to `patience`. The inner `Err` is the holder,
/// if it is known.
pub fn take(path: &Path, patience: Duration) -> io::Result<Result<File, Option<Holder>>> {
    wait(&[path], patience, || try_take(path))
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

/// Returns the process that holds a lock on one of `files`, from `/proc/locks`.
///
/// An exclusive lock is preferred to a shared one, and another process to this one. Returns `None`
/// if the system does not show it.
pub fn holder_of(files: &[&Path]) -> Option<Holder> {
    let known = std::fs::read_to_string("/proc/locks").ok()?;
    let inodes: Vec<(u64, u64)> = files
        .iter()
        .filter_map(|file| std::fs::metadata(file).ok())
        .map(|stat| (stat.dev(), stat.ino()))
        .collect();
    let mut found: Vec<(bool, bool, u32)> = known
        .lines()
        .filter_map(Held::parse)
        .filter(|held| inodes.iter().any(|(dev, ino)| held.is_on(*dev, *ino)))
        .map(|held| (held.pid == std::process::id(), !held.is_write, held.pid))
        .collect();
    found.sort_unstable();
    let (_, _, pid) = *found.first()?;
    let is_stopped = is_stopped(pid);
    Some(Holder { pid, is_stopped })
}

/// One line of `/proc/locks`.
struct Held {
    is_write: bool,
    pid: u32,
    dev: (u64, u64),
    ino: u64,
}

impl Held {
    /// Parses a line like `1: FLOCK  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF`. Lines of waiting
    /// processes have an arrow and give `None`.
    fn parse(line: &str) -> Option<Held> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
        if kind == "->" {
            return None;
        }
        let pid = words.next()?.parse().ok()?;
        let mut place = words.next()?.split(':');
        let mut hex = || u64::from_str_radix(place.next()?, 16).ok();
        let dev = (hex()?, hex()?);
        let ino = place.next()?.parse().ok()?;
        let is_write = access == "WRITE";
        Some(Held {
            is_write,
            pid,
            dev,
            ino,
        })
    }

    fn is_on(&self, dev: u64, ino: u64) -> bool {
        let major = ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff);
        let minor = (dev & 0xff) | ((dev >> 12) & 0xffff_ff00);
        self.ino == ino && self.dev == (major, minor)
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name in front is in parentheses and may contain anything.
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
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

    #[test]
    fn the_systems_list_is_understood() {
        let line = "2: POSIX  ADVISORY  WRITE 3568 fd:01:2531452 120 120";
        let held = Held::parse(line).expect("a line");
        assert!(held.is_write && held.pid == 3568 && held.is_on(0xfd01, 2_531_452));
        assert!(!held.is_on(0xfd02, 2_531_452));
        assert!(Held::parse("2: -> FLOCK  ADVISORY  WRITE 9 fd:01:5 0 EOF").is_none());
        assert!(Held::parse("").is_none());
    }
}

//! Replacing one entry with another without losing either of them on the way.
//!
//! `worktree` uses these operations when it writes files.

use super::{FileKind, FileStat, FileTime, PathError, SafeDir, component};
use rustix::fs::{AtFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// The parts of a stat that a rename does not change.
///
/// A rename changes the ctime, so it also changes the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untouched {
    kind: FileKind,
    exec: bool,
    size: u64,
    mtime: FileTime,
    ino: u64,
    dev: u64,
}

impl FileStat {
    /// Returns the parts of the stat that a rename does not change.
    pub fn untouched(&self) -> Untouched {
        Untouched {
            kind: self.kind,
            exec: self.exec,
            size: self.size,
            mtime: self.mtime,
            ino: self.ino,
            dev: self.dev,
        }
    }
}

impl SafeDir {
    /// Exchanges the names of the entries `a` and `b` in one step. Returns `false` if this file
    /// system cannot.
    pub fn exchange(&self, a: &[u8], b: &[u8]) -> Result<bool, PathError> {
        let exchange = || {
            component(a)?;
            component(b)?;
            rustix::fs::renameat_with(&self.fd, a, &self.fd, b, RenameFlags::EXCHANGE)
        };
        match exchange() {
            Ok(()) => Ok(true),
            Err(Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(e) => Err(self.error("exchange", b, e)),
        }
    }

    /// Moves the entry `name` to `dir` under an unpredictable temporary name, and returns that
    /// name. Returns `None` if this is impossible in one step.
    pub fn move_aside(&self, name: &[u8], dir: &SafeDir) -> Result<Option<Vec<u8>>, PathError> {
        component(name).map_err(|e| self.error("move", name, e))?;
        let moved = dir.with_temp_name("move", |temp| {
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.fd, name, &dir.fd, temp, flags) {
                Ok(()) => Ok(true),
                Err(Errno::NOSYS | Errno::INVAL | Errno::XDEV) => Ok(false),
                Err(e) => Err(e),
            }
        });
        match moved {
            Ok((true, temp)) => Ok(Some(temp)),
            Ok((false, _)) => Ok(None),
            Err(e) => Err(self.error("move", name, e.source)),
        }
    }

    /// Moves the entry `name` to `dir` as `to`. Fails with `EEXIST` if that name is in use.
    pub fn move_to(&self, name: &[u8], dir: &SafeDir, to: &[u8]) -> Result<(), PathError> {
        let flags = RenameFlags::NOREPLACE;
        component(name)
            .and_then(|()| component(to))
            .and_then(|()| rustix::fs::renameat_with(&self.fd, name, &dir.fd, to, flags))
            .map_err(|e| dir.error("rename to", to, e))
    }

    /// Creates the file `name`, which must not exist, for appending. It is executable if `exec` is
    /// set, within the umask.
    pub fn create_growing(&self, name: &[u8], exec: bool) -> Result<File, PathError> {
        let file = self.create_new(name, exec)?;
        // Appending does not overwrite bytes that another process writes into the file meanwhile.
        let append = rustix::fs::fcntl_getfl(&file)
            .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::APPEND));
        match append {
            Ok(()) => Ok(file),
            Err(e) => Err(self.error("open", name, e)),
        }
    }

    /// Returns whether the entry `name` is still the file (inode and device) that `stat` describes.
    pub fn is_same_file(&self, name: &[u8], stat: &FileStat) -> bool {
        let at = component(name)
            .and_then(|()| rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))
            .map(|stat| FileStat::from_stat(&stat));
        at.is_ok_and(|at| (at.ino, at.dev) == (stat.ino, stat.dev))
    }
}

/// Sets the mtime of a file to a time that a write by another program would not produce, and
/// returns it.
///
/// The new time is that of `stat` with other digits below one microsecond, chosen by `odd`.
pub fn mark_time(file: &File, stat: &FileStat, odd: u64) -> io::Result<FileTime> {
    let (whole, part) = (stat.mtime.nanos / 1_000 * 1_000, stat.mtime.nanos % 1_000);
    let odd = 1 + (odd % 998) as u32;
    let mtime = FileTime {
        seconds: stat.mtime.seconds,
        // From 1 to 999, and different from `part`.
        nanos: whole + odd + u32::from(odd >= part),
    };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT as _,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds as _,
            tv_nsec: mtime.nanos as _,
        },
    };
    rustix::fs::futimens(file, &times)?;
    Ok(mtime)
}

/// Gives a file the permissions `mode`, without setuid, setgid and sticky bits.
pub fn set_permissions(file: &File, mode: u32) -> io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(mode & 0o777);
    Ok(rustix::fs::fchmod(file, mode)?)
}

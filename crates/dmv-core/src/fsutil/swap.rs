//! Replacing one entry with another without losing either of them on the way.
//!
//! `worktree` uses these operations when it writes files.

use super::{FileKind, FileStat, FileTime, SafeDir, component};
use crate::path::PathError;
use crate::platform::{self, Cause};
use std::fs::File;
use std::io;

/// The parts of a stat that a rename does not change.
///
/// A rename changes the ctime, so it also changes the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastingStat {
    kind: FileKind,
    exec: bool,
    size: u64,
    mtime: FileTime,
    ino: u64,
    dev: u64,
}

impl FileStat {
    /// Returns the parts of the stat that a rename does not change.
    pub fn untouched(&self) -> LastingStat {
        LastingStat {
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
            self.handle.exchange(a, b)
        };
        match exchange() {
            Ok(()) => Ok(true),
            Err(e) if e.cause() == Cause::Unsupported => Ok(false),
            Err(e) => Err(self.error("exchange", b, e)),
        }
    }

    /// Moves the entry `name` to `dir` under an unpredictable temporary name, and returns that
    /// name. Returns `None` if this is impossible in one step.
    pub(crate) fn move_aside(
        &self,
        name: &[u8],
        dir: &SafeDir,
    ) -> Result<Option<Vec<u8>>, PathError> {
        component(name).map_err(|e| self.error("move", name, e))?;
        let is_impossible = |why| matches!(why, Cause::Unsupported | Cause::OtherFileSystem);
        let moved = dir.with_temp_name("move", |temp| {
            match self.handle.rename_new(name, &dir.handle, temp) {
                Ok(()) => Ok(true),
                Err(e) if is_impossible(e.cause()) => Ok(false),
                Err(e) => Err(e),
            }
        });
        match moved {
            Ok((true, temp)) => {
                self.note_gone(name);
                Ok(Some(temp))
            }
            Ok((false, _)) => Ok(None),
            Err(e) => Err(self.error("move", name, e.source)),
        }
    }

    /// Moves the entry `name` to `dir` as `to`. Fails with `EEXIST` if that name is in use.
    pub fn move_to(&self, name: &[u8], dir: &SafeDir, to: &[u8]) -> Result<(), PathError> {
        component(name)
            .and_then(|()| component(to))
            .and_then(|()| self.handle.rename_new(name, &dir.handle, to))
            .map_err(|e| self.move_error(name, dir, to, e))?;
        self.note_gone(name);
        dir.note_new(to);
        Ok(())
    }

    /// Moves an entry as [`move_to`](Self::move_to), also on a file system that cannot do it in one step. There,
    /// a file that appears under the name at the same moment would be replaced.
    pub(crate) fn move_to_anywhere(
        &self,
        name: &[u8],
        dir: &SafeDir,
        to: &[u8],
    ) -> Result<(), PathError> {
        let moved = component(name).and_then(|()| component(to)).and_then(|()| {
            match self.handle.rename_new(name, &dir.handle, to) {
                Err(e) if e.cause() == Cause::Unsupported => match dir.try_stat(to) {
                    Err(e) if e.cause() == Cause::Absent => {
                        self.handle.rename_to(name, &dir.handle, to)
                    }
                    Err(e) => Err(e),
                    Ok(_) => Err(e),
                },
                other => other,
            }
        });
        moved.map_err(|e| self.move_error(name, dir, to, e))
    }

    /// Creates the file `name`, which must not exist, for appending. It is executable if `exec` is
    /// set, within the umask.
    pub(crate) fn create_growing(&self, name: &[u8], exec: bool) -> Result<File, PathError> {
        // Appending does not overwrite bytes that another process writes into the file meanwhile.
        let file = component(name)
            .and_then(|()| self.handle.create_growing(name, exec))
            .map_err(|e| self.error("create", name, e))?;
        self.note_new(name);
        Ok(file)
    }

    /// Returns whether the entry `name` is still the file (inode and device) that `stat` describes.
    pub(crate) fn is_same_file(&self, name: &[u8], stat: &FileStat) -> bool {
        self.try_stat(name)
            .is_ok_and(|at| at.inode() == stat.inode())
    }
}

/// Sets the mtime of a file to a time that a write by another program would not produce, and
/// returns it.
///
/// The new time is that of `stat` with other digits below a thousand of the system's smallest steps, chosen by
/// `odd`.
pub(crate) fn mark_time(file: &File, stat: &FileStat, odd: u64) -> io::Result<FileTime> {
    const STEP: u32 = platform::TIME_STEP_NANOS;
    let steps = stat.mtime.nanos / STEP;
    let (whole, part) = (steps / 1_000 * 1_000, steps % 1_000);
    let odd = 1 + (odd % 998) as u32;
    let mtime = FileTime {
        seconds: stat.mtime.seconds,
        // From 1 to 999, and different from `part`.
        nanos: (whole + odd + u32::from(odd >= part)) * STEP,
    };
    platform::set_modified(file, mtime)?;
    Ok(mtime)
}

//! Replaced and removed entries, kept until no other program can be writing to them any more.
//!
//! Between the last comparison of a file and the rename that replaces it, another program may write
//! to the file. A program that opened it before may write to it even afterwards. So the file is not
//! removed at once: it gets a temporary name, is compared again right then, and once more before
//! its final removal, when everything else is done. If it has changed, it returns to its place.

use super::{Refusal, RefusedPath};
use crate::fsutil::{FileStat, LastingStat, SafeDir};
use crate::path::PathError;
use crate::worktree::{join, split_path};
use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Most entries that are kept aside at a time.
const MAX_ASIDE: usize = 4096;
/// Most bytes of files that are kept aside at a time: the extra space that replacing files needs.
const MAX_ASIDE_BYTES: u64 = 256 << 20;

/// Entries that were moved aside in the worktree at `root`. Dropping this removes them like
/// [`finish`](Self::finish).
pub(crate) struct ReplacedEntries<'a> {
    root: &'a SafeDir,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ReplacedEntry>,
    bytes: u64,
    refused: Vec<RefusedPath>,
}

/// An entry that was moved aside.
struct ReplacedEntry {
    /// Its former path.
    path: Vec<u8>,
    /// Its present directory and name.
    dir: Vec<u8>,
    temp: Vec<u8>,
    /// Its stat at that time.
    was: LastingStat,
    bytes: u64,
    /// The entry in its former place; `None` if it was only to be removed.
    ours: Option<LastingStat>,
}

impl<'a> ReplacedEntries<'a> {
    /// Returns an empty set.
    pub fn new(root: &'a SafeDir) -> ReplacedEntries<'a> {
        ReplacedEntries {
            root,
            state: Mutex::default(),
        }
    }

    /// Returns the directory in which entries from removed directories wait.
    pub(super) fn root(&self) -> &SafeDir {
        self.root
    }

    /// Takes over the entry `temp` in the directory of `path`, which `ours` has replaced there.
    pub(super) fn take_replaced(
        &self,
        path: &[u8],
        temp: Vec<u8>,
        was: &FileStat,
        ours: LastingStat,
    ) {
        let dir = split_path(path).map_or(&b""[..], |(dir, _)| dir).to_vec();
        self.push(path, dir, temp, was, Some(ours));
    }

    /// Takes over the entry `temp` in the root, which was at `path`.
    pub(super) fn take_removed(&self, path: &[u8], temp: Vec<u8>, was: &FileStat) {
        self.push(path, Vec::new(), temp, was, None);
    }

    fn push(
        &self,
        path: &[u8],
        dir: Vec<u8>,
        temp: Vec<u8>,
        was: &FileStat,
        ours: Option<LastingStat>,
    ) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += was.size;
        state.waiting.push_back(ReplacedEntry {
            path: path.to_vec(),
            dir,
            temp,
            was: was.untouched(),
            bytes: was.size,
            ours,
        });
        let mut due = Vec::new();
        if state.waiting.len() > MAX_ASIDE || state.bytes > MAX_ASIDE_BYTES {
            // The last one stays, however large: other programs have had no time to write to it.
            while state.waiting.len() > 1
                && (state.waiting.len() > MAX_ASIDE / 2 || state.bytes > MAX_ASIDE_BYTES / 2)
            {
                let Some(entry) = state.waiting.pop_front() else {
                    break;
                };
                state.bytes -= entry.bytes;
                due.push(entry);
            }
        }
        drop(state);
        self.remove(due);
    }

    /// Removes the entries that are unchanged, and puts the others back. Returns those that were
    /// put back.
    pub fn finish(&self) -> Vec<RefusedPath> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let due = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        drop(state);
        self.remove(due.into());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.refused)
    }

    fn remove(&self, mut due: Vec<ReplacedEntry>) {
        due.sort_by(|a, b| a.dir.cmp(&b.dir));
        let mut refused = Vec::new();
        for group in due.chunk_by(|a, b| a.dir == b.dir) {
            // If the directory was moved, its entries moved along. A later command removes them.
            let Ok(dir) = self.root.open_dir(&group[0].dir) else {
                continue;
            };
            for entry in group {
                let gone = match dir.stat_opt(&entry.temp) {
                    Ok(Some(now)) if now.untouched() == entry.was => dir.unlink(&entry.temp),
                    Ok(Some(_)) => {
                        refused.push(self.put_back(&dir, entry));
                        Ok(())
                    }
                    Ok(None) => Ok(()),
                    Err(e) => Err(e),
                };
                // If it stays, it is a temporary file, which a later command removes.
                let _: Result<(), PathError> = gone;
            }
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.refused.append(&mut refused);
    }

    fn put_back(&self, dir: &SafeDir, entry: &ReplacedEntry) -> RefusedPath {
        let place = split_path(&entry.path).unwrap_or((b"", &entry.path));
        let put = match entry.ours {
            Some(ours) => give_back(dir, &entry.temp, place.1, ours),
            None => self.bring_back(dir, &entry.temp, &entry.path),
        };
        RefusedPath {
            path: entry.path.clone(),
            why: match put {
                Ok(None) => Refusal::Changed,
                Ok(Some(kept)) => Refusal::Twice(join(&entry.dir, &kept)),
                Err(e) => Refusal::Path(e),
            },
        }
    }

    /// Moves the entry `temp` in the root back to `path`.
    pub(super) fn bring_back(
        &self,
        root: &SafeDir,
        temp: &[u8],
        path: &[u8],
    ) -> Result<Option<Vec<u8>>, PathError> {
        let (dir, name) = split_path(path).unwrap_or((b"", path));
        let back = self
            .root
            .open_dir(dir)
            .and_then(|dir| root.move_to(temp, &dir, name));
        match back {
            Ok(()) => Ok(None),
            // The name is in use, or its directory is gone.
            Err(_) => keep_beside(root, temp, name).map(Some),
        }
    }
}

impl Drop for ReplacedEntries<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Gives `name` back to the entry that is called `temp` now and has changed since `ours` replaced
/// it.
///
/// If `ours` was changed as well, both are kept, and the new name of `temp` is returned.
pub(super) fn give_back(
    dir: &SafeDir,
    temp: &[u8],
    name: &[u8],
    ours: LastingStat,
) -> Result<Option<Vec<u8>>, PathError> {
    match dir.exchange(temp, name) {
        Ok(true) => {}
        // `ours` was removed.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return match dir.rename_noreplace(temp, name) {
                Ok(()) => Ok(None),
                Err(_) => keep_beside(dir, temp, name).map(Some),
            };
        }
        Ok(false) | Err(_) => return keep_beside(dir, temp, name).map(Some),
    }
    match dir.stat_opt(temp) {
        Ok(None) => Ok(None),
        Ok(Some(stat)) if stat.untouched() == ours => dir.unlink(temp).map(|()| None),
        _ => {
            // The latest version belongs in its place. If that fails, both are still there.
            let _ = dir.exchange(temp, name);
            keep_beside(dir, temp, name).map(Some)
        }
    }
}

/// Gives another program's file, which is called `temp`, a visible name beside `name`.
fn keep_beside(dir: &SafeDir, temp: &[u8], name: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut number = 1;
    loop {
        let suffix = format!(".kept-{number}");
        let room = crate::limits::MAX_NAME_BYTES - suffix.len();
        let kept = [&name[..name.len().min(room)], suffix.as_bytes()].concat();
        match dir.rename_noreplace(temp, &kept) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            other => return other.map(|()| kept),
        }
    }
}

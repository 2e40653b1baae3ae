//! What was replaced or removed, until nobody can be writing to it any more.
//!
//! Between the last look at a file and the rename that replaces it somebody may write to it, and
//! whoever opened it before may write to it afterwards. So it is not removed at once: it gets a
//! temporary name, is looked at again right then, and once more before it is removed for good, when
//! all else is done. If it has changed, it goes back to its place.

use super::{Refusal, Refused};
use crate::fsutil::{FileStat, PathError, SafeDir, Untouched};
use crate::worktree::{join, split_path};
use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Entries that are kept aside at a time.
const MAX_ASIDE: usize = 4096;
/// Bytes of files that are kept aside at a time: what replacing files needs beside them.
const MAX_ASIDE_BYTES: u64 = 256 << 20;

/// Entries that were moved aside in the worktree at `root`. When dropped, they are removed as by
/// [`finish`](Self::finish).
pub struct Asides<'a> {
    root: &'a SafeDir,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Aside>,
    bytes: u64,
    refused: Vec<Refused>,
}

/// An entry that was moved aside.
struct Aside {
    /// Where it was.
    path: Vec<u8>,
    /// Its directory and name now.
    dir: Vec<u8>,
    temp: Vec<u8>,
    /// What it was then.
    was: Untouched,
    bytes: u64,
    /// What took its place; `None` for one that was to be removed.
    ours: Option<Untouched>,
}

impl<'a> Asides<'a> {
    /// None yet.
    pub fn new(root: &'a SafeDir) -> Asides<'a> {
        Asides {
            root,
            state: Mutex::default(),
        }
    }

    /// Where what is removed from directories that go away waits.
    pub(super) fn root(&self) -> &SafeDir {
        self.root
    }

    /// Takes over what is `temp` in the directory of `path`, and gave way to `ours` there.
    pub(super) fn replaced(&self, path: &[u8], temp: Vec<u8>, was: &FileStat, ours: Untouched) {
        let dir = split_path(path).map_or(&b""[..], |(dir, _)| dir).to_vec();
        self.push(path, dir, temp, was, Some(ours));
    }

    /// Takes over what is `temp` in the root, and was at `path`.
    pub(super) fn removed(&self, path: &[u8], temp: Vec<u8>, was: &FileStat) {
        self.push(path, Vec::new(), temp, was, None);
    }

    fn push(
        &self,
        path: &[u8],
        dir: Vec<u8>,
        temp: Vec<u8>,
        was: &FileStat,
        ours: Option<Untouched>,
    ) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += was.size;
        state.waiting.push_back(Aside {
            path: path.to_vec(),
            dir,
            temp,
            was: was.untouched(),
            bytes: was.size,
            ours,
        });
        let mut due = Vec::new();
        if state.waiting.len() > MAX_ASIDE || state.bytes > MAX_ASIDE_BYTES {
            // The last one stays, however large: nobody has had time to write to it.
            while state.waiting.len() > 1
                && (state.waiting.len() > MAX_ASIDE / 2 || state.bytes > MAX_ASIDE_BYTES / 2)
            {
                let Some(aside) = state.waiting.pop_front() else {
                    break;
                };
                state.bytes -= aside.bytes;
                due.push(aside);
            }
        }
        drop(state);
        self.remove(due);
    }

    /// Removes for good what is still as it was, and puts the rest back; says what was put back.
    pub fn finish(&self) -> Vec<Refused> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let due = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        drop(state);
        self.remove(due.into());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.refused)
    }

    fn remove(&self, mut due: Vec<Aside>) {
        due.sort_by(|a, b| a.dir.cmp(&b.dir));
        let mut refused = Vec::new();
        for group in due.chunk_by(|a, b| a.dir == b.dir) {
            // A directory that somebody has moved takes them along; a later command removes them.
            let Ok(dir) = self.root.open_dir(&group[0].dir) else {
                continue;
            };
            for aside in group {
                let gone = match dir.stat_opt(&aside.temp) {
                    Ok(Some(now)) if now.untouched() == aside.was => dir.unlink(&aside.temp),
                    Ok(Some(_)) => {
                        refused.push(self.put_back(&dir, aside));
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

    fn put_back(&self, dir: &SafeDir, aside: &Aside) -> Refused {
        let place = split_path(&aside.path).unwrap_or((b"", &aside.path));
        let put = match aside.ours {
            Some(ours) => give_back(dir, &aside.temp, place.1, ours),
            None => self.bring_back(dir, &aside.temp, &aside.path),
        };
        Refused {
            path: aside.path.clone(),
            why: match put {
                Ok(None) => Refusal::Changed,
                Ok(Some(kept)) => Refusal::Twice(join(&aside.dir, &kept)),
                Err(e) => Refusal::Path(e),
            },
        }
    }

    /// Moves what is `temp` in the root back to `path`.
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
            // The place is taken, or its directory is gone.
            Err(_) => keep_beside(root, temp, name).map(Some),
        }
    }
}

impl Drop for Asides<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Gives `name` back to what is `temp` now, which has changed since `ours` took its place. If
/// somebody has changed that as well, both are kept: the name that `temp` has then is returned.
pub(super) fn give_back(
    dir: &SafeDir,
    temp: &[u8],
    name: &[u8],
    ours: Untouched,
) -> Result<Option<Vec<u8>>, PathError> {
    match dir.exchange(temp, name) {
        Ok(true) => {}
        // Somebody has removed ours.
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
            // What came last belongs in its place. If that fails, both are there all the same.
            let _ = dir.exchange(temp, name);
            keep_beside(dir, temp, name).map(Some)
        }
    }
}

/// Gives a file of somebody's that is called `temp` a name to be seen by, beside `name`.
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

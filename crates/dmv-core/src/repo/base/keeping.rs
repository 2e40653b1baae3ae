//! The locks of commands that free space, and of those that need everything to stay
//! (docs/format/layout.md, "Removing packs").
//!
//! Commands that rely on objects without naming them lock the file `keeping` shared. A command that
//! frees content although refs need it locks it exclusively. Every command that takes packs out of
//! use locks the file `freeing` exclusively, so there is one at a time. No command waits for these
//! locks, except [`keep_unopened`], which waits a few seconds. The system releases the locks of a
//! process that died. So if two repositories drop content at the same time and each relies on the
//! other, at least one of them finds the other busy.
//!
//! An undo locks the file `reaching` shared, and `op expire` locks it exclusively: what an undo can
//! reach when it begins stays within reach until it ends. Both wait a few seconds.
//!
//! The order of all locks: that of a worktree, `keeping`, `reaching`, `freeing`, those of packs,
//! `refs.lock`.

use crate::locks::{self, Holder};
use crate::path::{PathContext, PathError};
use crate::platform::{OwnAccess, open_own, try_lock, try_lock_shared, unlock};
use crate::repo::base::error::{BusyError, RepoError};
use crate::repo::base::layout::Whose;
use crate::repo::base::relying::Reliance;
use crate::repo::base::repo::Repo;
use crate::repo::base::{relying, reserve};
use std::fs::{File, TryLockError};
use std::path::Path;

const KEEPING_FILE: &str = "keeping";
const FREEING_FILE: &str = "freeing";
const REACHING_FILE: &str = "reaching";

/// The open file of a lock, which is unlocked when this is dropped.
///
/// Closing the file is not enough: a thread may be starting another program, which has the file open until it
/// begins.
pub struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If this fails, the end of the process unlocks it.
        let _ = unlock(&self.0);
    }
}

/// A shared lock: while it exists, no content that refs need is freed. Its owner relies on what it finds
/// stored.
pub struct KeepingLock {
    _locks: Vec<LockedFile>,
    _relying: Option<Reliance>,
}

/// An exclusive lock: while it exists, no other command relies on the objects of this repository
/// without naming them.
pub struct Exclusive {
    _lock: LockedFile,
}

/// The right to take packs out of use. Only one command has it.
pub struct RightToFree {
    _lock: LockedFile,
}

/// Returns the right to take packs out of use. Fails with [`BusyError::Freeing`] if another command
/// has it.
pub fn free_alone(repo: &Repo) -> Result<RightToFree, RepoError> {
    repo.check_own()?;
    let path = repo.dmv_dir().join(FREEING_FILE);
    let file = lock_file(&path, repo.whose)?;
    locked(try_lock(&file), &path)?;
    Ok(RightToFree {
        _lock: LockedFile(file),
    })
}

impl Repo {
    /// Prevents all objects of this repository from being freed until the returned value is
    /// dropped.
    ///
    /// Fails with [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing
    /// space.
    pub fn keep_all(&self) -> Result<KeepingLock, RepoError> {
        let path = self.dmv_dir().join(KEEPING_FILE);
        let file = lock_file(&path, self.whose)?;
        locked(try_lock_shared(&file), &path)?;
        // What was freed before this moment must not count as stored.
        Ok(KeepingLock {
            _locks: vec![LockedFile(file)],
            _relying: Some(relying::rely(self)?),
        })
    }
}

/// Returns the right to free content that refs need. Fails with [`BusyError::Freeing`] if another
/// command has it or relies on the objects of this repository.
pub fn keep_exclusively(repo: &Repo) -> Result<Exclusive, RepoError> {
    repo.check_own()?;
    let path = repo.dmv_dir().join(KEEPING_FILE);
    let file = lock_file(&path, repo.whose)?;
    locked(try_lock(&file), &path)?;
    reserve::give(repo);
    Ok(Exclusive {
        _lock: LockedFile(file),
    })
}

/// Keeps everything within the reach of undo that is there now, until the returned value is dropped.
pub fn reach(repo: &Repo) -> Result<LockedFile, RepoError> {
    reaching(repo, try_lock_shared)
}

/// Returns the right to put operations out of the reach of undo. Waits a few seconds for running undos.
pub fn reach_alone(repo: &Repo) -> Result<LockedFile, RepoError> {
    reaching(repo, try_lock)
}

fn reaching(
    repo: &Repo,
    try_lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<LockedFile, RepoError> {
    let path = repo.dmv_dir().join(REACHING_FILE);
    let file = lock_file(&path, repo.whose)?;
    wait_for(&path, || try_lock(&file))?.map_err(BusyError::Reaching)?;
    Ok(LockedFile(file))
}

/// Tries for a few seconds to get a lock on the file at `path`. The inner result is an error if
/// another process keeps it.
fn wait_for(
    path: &Path,
    try_lock: impl Fn() -> Result<(), TryLockError>,
) -> Result<Result<(), Option<Holder>>, RepoError> {
    let taken = locks::wait(&[path], locks::PATIENCE, || match try_lock() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    });
    taken.context("lock", path).map_err(RepoError::Io)
}

/// Prevents everything in the repository at `dmv` from being freed, and any pack from being taken out
/// of use. The repository may be one that cannot be opened. Waits a few seconds for commands that do
/// so.
pub fn keep_unopened(dmv: &Path) -> Result<KeepingLock, RepoError> {
    let mut locks = Vec::new();
    for name in [KEEPING_FILE, FREEING_FILE] {
        let path = dmv.join(name);
        let file = lock_file(&path, Whose::Own)?;
        wait_for(&path, || try_lock_shared(&file))?.map_err(BusyError::Freeing)?;
        locks.push(LockedFile(file));
    }
    Ok(KeepingLock {
        _locks: locks,
        _relying: None,
    })
}

/// Prevents everything in the repository at `dmv` from being freed, without waiting. The inner
/// result is an error if another command is freeing content.
pub fn try_keep(dmv: &Path) -> Result<Result<KeepingLock, RepoError>, RepoError> {
    let path = dmv.join(KEEPING_FILE);
    let file = lock_file(&path, Whose::Own)?;
    let tried = locked(try_lock_shared(&file), &path);
    Ok(tried.map(|()| KeepingLock {
        _locks: vec![LockedFile(file)],
        _relying: None,
    }))
}

fn lock_file(path: &Path, whose: Whose) -> Result<File, RepoError> {
    let opened = match whose {
        Whose::Own => locks::open(path),
        Whose::Foreign => open_own(path, OwnAccess::Read),
    };
    opened.context("open", path).map_err(RepoError::Io)
}

fn locked(tried: Result<(), TryLockError>, path: &Path) -> Result<(), RepoError> {
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let holder = locks::holder_of(&[path]);
            Err(BusyError::Freeing(holder).into())
        }
        Err(TryLockError::Error(source)) => {
            Err(RepoError::Io(PathError::new("lock", path, source)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_another_program_is_being_started() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lock");
        let lock = LockedFile(open_own(&path, OwnAccess::Create)?);
        try_lock(&lock.0)?;
        // What a child has between its creation and its own program.
        let inherited = lock.0.try_clone()?;
        let other = open_own(&path, OwnAccess::Read)?;
        assert!(try_lock(&other).is_err());
        drop(lock);
        try_lock(&other)?;
        drop(inherited);
        Ok(())
    }
}

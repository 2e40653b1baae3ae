//! The lock that prevents everything in a repository from being freed.
//!
//! The lock is on the file `keeping` (docs/format/layout.md). Commands that need everything to stay
//! lock it shared. Commands that free space lock it exclusively. No command waits for the lock,
//! except [`keep_unopened`], which waits a few seconds. The system releases the locks of a process
//! that died. So if two repositories drop content at the same time and each relies on the other, at
//! least one of them finds the other busy.

use crate::locks;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::layout::Whose;
use std::fs::{File, TryLockError};
use std::path::Path;

const KEEPING_FILE: &str = "keeping";

/// A shared lock: while it exists, nothing in this repository is freed.
pub struct Kept {
    _lock: File,
}

/// An exclusive lock: while it exists, no other command frees space in this repository, and none
/// relies on its objects.
pub(in crate::repo) struct Exclusive {
    _lock: File,
}

/// Prevents all objects of this repository from being freed until the returned value is dropped.
/// Fails with [`RepoError::Freeing`] if another command is freeing space.
pub(in crate::repo) fn keep_all(repo: &Handle) -> Result<Kept, RepoError> {
    let file = keeping_file(repo)?;
    locked(file.try_lock_shared(), repo.dmv_dir())?;
    // What was freed before this moment must not count as stored.
    repo.store.refresh()?;
    Ok(Kept { _lock: file })
}

/// Returns the right to free space. Fails with [`RepoError::Freeing`] if another command is freeing
/// space or relies on the objects of this repository.
pub(in crate::repo) fn keep_exclusively(repo: &Handle) -> Result<Exclusive, RepoError> {
    repo.check_own()?;
    let file = keeping_file(repo)?;
    locked(file.try_lock(), repo.dmv_dir())?;
    Ok(Exclusive { _lock: file })
}

fn keeping_file(repo: &Handle) -> Result<File, RepoError> {
    keeping_file_of(repo.dmv_dir(), repo.whose)
}

/// Prevents everything in the repository at `dmv` from being freed. The repository may be one that
/// cannot be opened. Waits a few seconds for a command that is freeing space.
pub(in crate::repo) fn keep_unopened(dmv: &Path) -> Result<Kept, RepoError> {
    let path = dmv.join(KEEPING_FILE);
    let file = keeping_file_of(dmv, Whose::Own)?;
    let taken = locks::wait(&[&path], locks::PATIENCE, || match file.try_lock_shared() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    });
    let io = |source| RepoError::Io {
        action: "lock",
        path: path.clone(),
        source,
    };
    taken.map_err(io)?.map_err(RepoError::Freeing)?;
    Ok(Kept { _lock: file })
}

/// Prevents everything in the repository at `dmv` from being freed, without waiting. The inner
/// result is an error if another command is freeing space.
pub(in crate::repo) fn try_keep(dmv: &Path) -> Result<Result<Kept, RepoError>, RepoError> {
    let file = keeping_file_of(dmv, Whose::Own)?;
    Ok(locked(file.try_lock_shared(), dmv).map(|()| Kept { _lock: file }))
}

fn keeping_file_of(dmv: &Path, whose: Whose) -> Result<File, RepoError> {
    let path = dmv.join(KEEPING_FILE);
    let opened = match whose {
        Whose::Own => File::options().create(true).append(true).open(&path),
        Whose::Foreign => File::open(&path),
    };
    // Locking an existing file needs no write permission.
    opened
        .or_else(|e| File::open(&path).map_err(|_| e))
        .map_err(|source| RepoError::Io {
            action: "open",
            path,
            source,
        })
}

fn locked(tried: Result<(), TryLockError>, dmv: &Path) -> Result<(), RepoError> {
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let holder = locks::holder_of(&[&dmv.join(KEEPING_FILE)]);
            Err(RepoError::Freeing(holder))
        }
        Err(TryLockError::Error(source)) => Err(RepoError::Io {
            action: "lock",
            path: dmv.join(KEEPING_FILE),
            source,
        }),
    }
}

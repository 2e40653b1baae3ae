//! The lock that keeps everything in a repository from being freed.
//!
//! The file `keeping` (docs/format/layout.md) is locked shared by commands that need everything to stay,
//! and exclusively by commands that free space. No command waits for it, and the system releases the
//! locks of a process that died. So if two repositories drop at the same time, and each counts on the
//! other, at least one finds the other busy.

use crate::locks;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::layout::Whose;
use std::fs::{File, TryLockError};
use std::path::Path;

const KEEPING_FILE: &str = "keeping";

/// As long as this lives, nothing is freed here.
pub struct Kept {
    _lock: File,
}

/// As long as this lives, nobody else frees anything here, and nobody counts on that nothing is
/// freed.
pub(in crate::repo) struct Exclusive {
    _lock: File,
}

/// Keeps everything that is here until what is returned is dropped. [`RepoError::Freeing`]:
/// somebody is freeing space.
pub(in crate::repo) fn keep_all(repo: &Handle) -> Result<Kept, RepoError> {
    let file = keeping_file(repo)?;
    locked(file.try_lock_shared(), repo.dmv_dir())?;
    Ok(Kept { _lock: file })
}

/// The right to free. [`RepoError::Freeing`]: somebody else frees, or counts on what is here.
pub(in crate::repo) fn keep_exclusively(repo: &Handle) -> Result<Exclusive, RepoError> {
    repo.check_own()?;
    let file = keeping_file(repo)?;
    locked(file.try_lock(), repo.dmv_dir())?;
    Ok(Exclusive { _lock: file })
}

fn keeping_file(repo: &Handle) -> Result<File, RepoError> {
    keeping_file_of(repo.dmv_dir(), repo.whose)
}

/// Keeps everything in the repository at `dmv`, which need not be one that opens; waits some seconds
/// for whoever frees.
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

/// Keeps everything in the repository at `dmv`, without waiting. `Err` within: somebody frees.
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
    // A lock needs no right to write, where the file is there.
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

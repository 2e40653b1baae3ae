//! Packs that leave: taking them out of use, and removing their files (docs/format/layout.md,
//! "Removing packs").
//!
//! The database names a pack that leaves until its file is durably gone. So a crash leaves no file
//! that a later job would take for that of a killed command.

use crate::path::PathContext;
use crate::platform::stat_at;
use crate::refs::{CondemnResult, SeenOperation};
use crate::repo::base::error::RepoError;
use crate::repo::base::keeping::{RightToFree, free_alone};
use crate::repo::base::level::{catch_up, open_log};
use crate::repo::base::repo::Repo;
use crate::store::{IndexId, PackId, PackRow, SegmentRow, StoreError};
use crate::vfs::{OpenMode, VfsFile};
use std::io;
use std::sync::Arc;

/// A pack, and the lock of its file.
pub type LockedPack = (PackRow, Arc<dyn VfsFile>);

/// What became of packs that were to go.
#[derive(Debug, Default)]
pub struct Gone {
    /// The bytes of the removed files, without those that have another name.
    pub bytes: u64,
    /// The bytes of removed files that have another name, in another repository or a backup. They still
    /// take space.
    pub linked_bytes: u64,
    /// Why the packs stay in use.
    pub why_not: Option<String>,
    /// Why a file is still there although its pack is out of use. A later command removes it.
    pub why_left: Option<String>,
}

/// Locks the file of a pack. Returns `None` if another process writes to the pack.
pub fn lock_pack(repo: &Repo, row: PackRow) -> Result<Option<LockedPack>, RepoError> {
    let path = repo.store.pack_path(row.id);
    let file = repo
        .vfs
        .open(&path, OpenMode::Append)
        .context("open", &path)
        .map_err(StoreError::Io)?;
    let is_locked = file
        .try_lock()
        .context("lock", &path)
        .map_err(StoreError::Io)?;
    Ok(is_locked.then_some((row, file)))
}

/// Returns whether the file of a pack has another name, mostly in another repository on this file system.
/// Its removal frees no space.
pub fn is_linked(repo: &Repo, pack: PackId) -> bool {
    let stat = stat_at(&repo.store.pack_path(pack));
    stat.is_ok_and(|stat| stat.nlink > 1)
}

/// Takes packs out of use and removes their files.
///
/// Returns `None` and changes nothing if there is another newest operation than `seen`, or if a pack
/// has grown: the caller must find out again what is needed. Afterwards the caller merges tables. It
/// should not merge them between copying objects out of a pack and this call: the merged index could
/// hide the copies, and would have to go out of use with the pack.
pub fn free_packs(
    repo: &Repo,
    _: &RightToFree,
    packs: &[LockedPack],
    seen: SeenOperation,
) -> Result<Option<Gone>, RepoError> {
    if packs.is_empty() {
        return Ok(Some(Gone::default()));
    }
    let store = &repo.store;
    let rows: Vec<PackRow> = packs.iter().map(|(row, _)| *row).collect();
    let indexes = match condemn(repo, &rows, seen)? {
        CondemnEnd::Done(indexes) => indexes,
        CondemnEnd::Changed => return Ok(None),
        CondemnEnd::Stay(why) => {
            return Ok(Some(Gone {
                why_not: Some(why),
                ..Gone::default()
            }));
        }
    };
    let mut gone = Gone::default();
    let mut removed = Vec::new();
    for (row, file) in packs {
        let path = store.pack_path(row.id);
        let len = file.len().unwrap_or(row.len);
        let is_linked = is_linked(repo, row.id);
        match repo
            .vfs
            .remove(&path)
            .context("remove", &path)
            .map_err(StoreError::Io)
        {
            Ok(()) => {
                if is_linked {
                    gone.linked_bytes += len
                } else {
                    gone.bytes += len
                }
                removed.push(row.id);
            }
            Err(e) => gone.why_left = Some(e.to_string()),
        }
    }
    store.remove_indexes(&indexes);
    forget(repo, &removed)?;
    Ok(Some(gone))
}

/// What came of taking packs out of use.
enum CondemnEnd {
    /// They are out of use, with these merged indexes.
    Done(Vec<IndexId>),
    /// The repository has changed meanwhile.
    Changed,
    /// They must stay, for this reason.
    Stay(String),
}

/// Takes packs out of use, so that nobody finds them from here on.
fn condemn(repo: &Repo, rows: &[PackRow], seen: SeenOperation) -> Result<CondemnEnd, RepoError> {
    let store = &repo.store;
    let log = open_log(store, OpenMode::Read)?;
    let lock = repo.refs.lock_database()?;
    let mut dissolved = Vec::new();
    let indexes = loop {
        match repo.refs.condemn(&lock, &log, rows, seen, &dissolved)? {
            CondemnResult::Done(indexes) => break indexes,
            CondemnResult::Newer | CondemnResult::Grown => return Ok(CondemnEnd::Changed),
            CondemnResult::Behind => {
                catch_up(store, &repo.refs, &lock)?;
                return Ok(CondemnEnd::Changed);
            }
            CondemnResult::Hiding(indexes) => {
                if let Some(why) = why_they_must_stay(repo, &indexes)? {
                    return Ok(CondemnEnd::Stay(why));
                }
                dissolved.extend(indexes);
            }
        }
    };
    drop(lock);
    store.load(repo.refs.catalogue()?)?;
    Ok(CondemnEnd::Done(indexes))
}

/// Takes packs out of use whose files are gone. The caller has seen that nothing that is needed is lost
/// with them. Returns whether they are out of use; another command may have changed the repository.
pub fn forget_lost(repo: &Repo) -> Result<bool, RepoError> {
    let seen = repo.refs.seen()?;
    repo.store.load(repo.refs.catalogue()?)?;
    let lost = repo.store.current().lost.clone();
    if lost.is_empty() {
        return Ok(true);
    }
    let CondemnEnd::Done(indexes) = condemn(repo, &lost, seen)? else {
        return Ok(false);
    };
    repo.store.remove_indexes(&indexes);
    let ids: Vec<PackId> = lost.iter().map(|row| row.id).collect();
    forget(repo, &ids)?;
    Ok(true)
}

/// Returns why merged indexes must stay in use, if so. If a segment's own table is damaged, nobody
/// else finds the objects of that segment.
pub fn why_they_must_stay(repo: &Repo, indexes: &[IndexId]) -> Result<Option<String>, RepoError> {
    let lost = repo.store.current().lost.clone();
    // An index finds nothing in a pack whose file is gone.
    let is_lost = |segment: &SegmentRow| lost.iter().any(|row| row.id == segment.pack);
    for index in indexes {
        let segments = repo.refs.segments_merged_in(*index)?.into_iter();
        for segment in segments.filter(|segment| !is_lost(segment)) {
            if let Err(e) = repo.store.files().checked_table_of(&segment) {
                return Ok(Some(e.to_string()));
            }
        }
    }
    Ok(None)
}

/// Makes the removal of files durable, and then forgets their packs.
fn forget(repo: &Repo, removed: &[PackId]) -> Result<(), RepoError> {
    if removed.is_empty() {
        return Ok(());
    }
    let dir = repo.store.packs_dir();
    repo.vfs
        .sync_dir(dir)
        .context("sync", dir)
        .map_err(StoreError::Io)?;
    let lock = repo.refs.lock_database()?;
    Ok(repo.refs.forget_leaving(&lock, removed)?)
}

/// Removes files of packs that a killed command took out of use. Leaves those that it cannot remove
/// now.
pub fn sweep_leftovers(repo: &Repo, _: &RightToFree) -> Result<(), RepoError> {
    sweep(repo, &repo.refs.leaving()?)
}

/// Removes at most one such file, unless a command is freeing space now. For commands that do
/// something else: they take no notice of failures, and unlinking takes little time.
pub fn sweep_one(repo: &Repo) {
    let leaving = repo.refs.leaving().unwrap_or_default();
    if let Some(first) = leaving.first()
        && let Ok(_right) = free_alone(repo)
    {
        // The next command tries again.
        let _ = sweep(repo, &[*first]);
    }
}

fn sweep(repo: &Repo, leaving: &[PackId]) -> Result<(), RepoError> {
    let mut removed = Vec::new();
    for id in leaving {
        let path = repo.store.pack_path(*id);
        let file = match repo.vfs.open(&path, OpenMode::Append) {
            // The name may come back after a power cut, until the directory is synced.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                removed.push(*id);
                continue;
            }
            Err(_) => continue,
            Ok(file) => file,
        };
        // A reader does not lock it. Nobody writes to it.
        if !file.try_lock().unwrap_or(false) {
            continue;
        }
        // An earlier dmv that was still running may have taken it into use again.
        let is_listed = repo.refs.pack(*id)?.is_some();
        if is_listed || repo.vfs.remove(&path).is_ok() {
            removed.push(*id);
        }
    }
    forget(repo, &removed)
}

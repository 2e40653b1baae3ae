//! What jobs wrote that ended before they could publish it: packs that no catalogue lists, and bytes
//! behind the last segment of a pack.

use crate::path::PathContext;
use crate::repo::base::error::RepoError;
use crate::repo::base::level::open_log;
use crate::repo::base::repo::Repo;
use crate::store::{PackId, PackRow, StoreError};
use crate::vfs::{OpenMode, VfsFile};
use std::sync::Arc;

impl Repo {
    /// Removes what commands wrote that were refused or killed before they could publish it. Returns
    /// the bytes.
    pub fn remove_leftovers(&self) -> Result<u64, RepoError> {
        remove_both(self, unlisted(self)?, tails(self)?)
    }
}

/// Removes the unlisted packs, except those that `spare` names. Returns the bytes.
pub fn remove_unlisted(repo: &Repo, spare: &dyn Fn(PackId) -> bool) -> Result<u64, RepoError> {
    let mut unlisted = unlisted(repo)?;
    unlisted.retain(|id| !spare(*id));
    remove_both(repo, unlisted, Vec::new())
}

/// Returns the bytes of the unlisted packs that `wanted` names and that no process writes to.
pub fn unlisted_bytes(repo: &Repo, wanted: &dyn Fn(PackId) -> bool) -> Result<u64, RepoError> {
    let mut bytes = 0;
    for id in unlisted(repo)?.into_iter().filter(|id| wanted(*id)) {
        if let Some(file) = locked(repo, id)?
            && repo.store.files().is_begun_here(id, &*file)?
        {
            let path = repo.store.pack_path(id);
            let len = file.len().context("measure", &path);
            bytes += len.map_err(StoreError::Io)?;
        }
    }
    Ok(bytes)
}

/// Removes packs and cuts others behind their last segments. Returns the bytes.
///
/// A job could still take over what is left, and the database could take over what the log pack calls
/// for. Both need a lock that is held here.
fn remove_both(repo: &Repo, unlisted: Vec<PackId>, tails: Vec<PackRow>) -> Result<u64, RepoError> {
    if unlisted.is_empty() && tails.is_empty() {
        return Ok(0);
    }
    let _lock = repo.refs.lock_database()?;
    let log = open_log(&repo.store, OpenMode::Read)?;
    match repo.refs.log_position()?.log_end {
        Some(end) if end == log.len()? => {}
        // A command was killed just now. The next one finds the database level with the log.
        _ => return Ok(0),
    }
    let mut bytes = 0;
    for row in tails {
        bytes += cut(repo, row)?;
    }
    for id in unlisted {
        bytes += remove_pack(repo, id)?;
    }
    let dir = repo.store.packs_dir();
    repo.vfs
        .sync_dir(dir)
        .context("sync", dir)
        .map_err(StoreError::Io)?;
    Ok(bytes)
}

/// Removes a pack that is still unlisted and that no process writes to. Returns its bytes.
fn remove_pack(repo: &Repo, id: PackId) -> Result<u64, RepoError> {
    let path = repo.store.pack_path(id);
    let Some(file) = locked(repo, id)? else {
        return Ok(0);
    };
    if repo.refs.pack(id)?.is_some() || !repo.store.files().is_begun_here(id, &*file)? {
        return Ok(0);
    }
    let len = file
        .len()
        .context("measure", &path)
        .map_err(StoreError::Io)?;
    repo.vfs
        .remove(&path)
        .context("remove", &path)
        .map_err(StoreError::Io)?;
    Ok(len)
}

/// Cuts a pack behind its last segment, unless a process writes to it. Returns the bytes.
fn cut(repo: &Repo, row: PackRow) -> Result<u64, RepoError> {
    let Some(file) = locked(repo, row.id)? else {
        return Ok(0);
    };
    // Whoever wrote to it has published by now. Another repository may use a file with other names.
    let is_shared = file.has_other_names().unwrap_or(true);
    let (Some(now), false) = (repo.refs.pack(row.id)?, is_shared) else {
        return Ok(0);
    };
    let len = file.len().unwrap_or(0);
    // A tail that cannot be cut takes space, and nobody reads it.
    let is_cut = len > now.len && file.cut(now.len).is_ok();
    Ok(if is_cut { len - now.len } else { 0 })
}

/// Opens and locks the file of a pack. Returns `None` if that is impossible now.
fn locked(repo: &Repo, id: PackId) -> Result<Option<Arc<dyn VfsFile>>, RepoError> {
    let path = repo.store.pack_path(id);
    let Ok(file) = repo.vfs.open(&path, OpenMode::Append) else {
        return Ok(None);
    };
    let is_locked = file
        .try_lock()
        .context("lock", &path)
        .map_err(StoreError::Io)?;
    Ok(is_locked.then_some(file))
}

/// Returns the packs whose files are longer than their segments.
fn tails(repo: &Repo) -> Result<Vec<PackRow>, RepoError> {
    let has_tail = |row: &PackRow| {
        let file = repo.vfs.open(&repo.store.pack_path(row.id), OpenMode::Read);
        file.and_then(|file| file.len())
            .is_ok_and(|len| len > row.len)
    };
    let mut packs = repo.refs.catalogue()?.packs;
    packs.retain(has_tail);
    Ok(packs)
}

/// Returns the packs in the directory that the catalogue does not list.
pub fn unlisted(repo: &Repo) -> Result<Vec<PackId>, RepoError> {
    let dir = repo.store.packs_dir();
    let listed = repo.store.packs();
    let names = repo
        .vfs
        .list(dir)
        .context("list", dir)
        .map_err(StoreError::Io)?;
    let ids = names
        .iter()
        .filter_map(|name| PackId::from_hex(name.strip_suffix(".pack")?));
    let is_unlisted =
        |id: &PackId| *id != repo.id.log_pack() && listed.iter().all(|row| row.id != *id);
    Ok(ids.filter(is_unlisted).collect())
}

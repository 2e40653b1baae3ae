//! Packs that no catalogue lists: their jobs were killed before they could publish.

use crate::path::PathContext;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::level::open_log;
use crate::repo::upkeep::gc::GcOptions;
use crate::store::{PackId, StoreError};
use crate::vfs::OpenMode;
use std::time::UNIX_EPOCH;

/// Removes packs whose jobs ended without publishing them. Returns their bytes.
///
/// A job could still take over such a pack, and the database could take over one that the log pack
/// calls for. Both need a lock that is held here.
pub(in crate::repo::upkeep) fn remove_unlisted(
    repo: &Handle,
    options: &GcOptions,
) -> Result<u64, RepoError> {
    let dir = repo.store.packs_dir();
    let unlisted = unlisted(repo)?;
    if unlisted.is_empty() {
        return Ok(0);
    }
    let _lock = repo.refs.lock_database()?;
    let log = open_log(&repo.store, OpenMode::Read)?;
    match repo.refs.log_position()?.log_end {
        Some(end) if end == log.len()? => {}
        // A command was killed just now. The next gc finds the database level with the log.
        _ => return Ok(0),
    }
    let mut bytes = 0;
    for id in unlisted {
        let path = repo.store.pack_path(id);
        let Ok(file) = repo.vfs.open(&path, OpenMode::Append) else {
            continue;
        };
        if !file
            .try_lock()
            .context("lock", &path)
            .map_err(StoreError::Io)?
            || repo.refs.pack(id)?.is_some()
            || !repo.store.is_begun_here(id, &*file)?
            || is_young(repo, id, options)
        {
            continue;
        }
        bytes += file
            .len()
            .context("measure", &path)
            .map_err(StoreError::Io)?;
        repo.vfs
            .remove(&path)
            .context("remove", &path)
            .map_err(StoreError::Io)?;
    }
    repo.vfs
        .sync_dir(dir)
        .context("sync", dir)
        .map_err(StoreError::Io)?;
    Ok(bytes)
}

/// Returns the packs in the directory that the catalogue does not list.
pub(in crate::repo::upkeep) fn unlisted(repo: &Handle) -> Result<Vec<PackId>, RepoError> {
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

/// Returns whether a file was written to within the time of grace. An unknown time counts as now.
fn is_young(repo: &Handle, id: PackId, options: &GcOptions) -> bool {
    let modified = std::fs::metadata(repo.store.pack_path(id)).and_then(|m| m.modified());
    let at = modified
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let now = u64::try_from(options.now.seconds).unwrap_or(0);
    let oldest = now.saturating_sub(options.grace.as_secs());
    !options.grace.is_zero() && at.is_none_or(|at| at.as_secs() > oldest)
}

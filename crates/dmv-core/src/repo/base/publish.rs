//! Publishing objects without a name, and the parts of a publication. A [`Transaction`] names objects.
//!
//! [`Transaction`]: crate::repo::base::transaction::Transaction

use crate::fsutil::machine_now;
use crate::refs::{Change, Refs, RefsError, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::{arrived, budget, refused};
use crate::store::{FinishedJob, StoreError};

/// Publishes what a transfer has stored, without a name.
///
/// The transfer may have found objects that are gone by now. That does no harm before something
/// gets a name, and then it is noticed that something was freed.
pub fn keep_arrivals(repo: &Repo, mut sealed: FinishedJob) -> Result<(), RepoError> {
    refused::check_job(repo, &sealed)?;
    budget::check_job(repo, &sealed)?;
    sealed.relied.clear();
    arrived::note(repo, &sealed);
    keep(repo, sealed)
}

/// Publishes what a job has stored, without a name. Fails if it counts on a pack that is gone.
pub fn keep(repo: &Repo, sealed: FinishedJob) -> Result<(), RepoError> {
    let is_new = !sealed.segments.is_empty();
    keep_as_of(repo, sealed, machine_now().seconds)?;
    if is_new {
        merge_tables(repo);
    }
    Ok(())
}

/// Publishes objects that were stored before, at a time in seconds since 1970, without a name.
pub fn keep_as_of(repo: &Repo, sealed: FinishedJob, at: i64) -> Result<(), RepoError> {
    if sealed.segments.is_empty() {
        return Ok(());
    }
    repo.refs
        .add_segments(&sealed.segments, &sealed.relied, Some(at))?;
    repo.store.adopt(&sealed);
    Ok(())
}

/// Publishes copies of objects whose packs are about to go. Nothing is appended to the new packs. `at`
/// has the time of each segment.
pub fn keep_moved(repo: &Repo, sealed: FinishedJob, at: &[i64]) -> Result<(), RepoError> {
    if sealed.segments.is_empty() {
        return Ok(());
    }
    let segments: Vec<_> = sealed
        .segments
        .iter()
        .copied()
        .zip(at.iter().copied())
        .collect();
    repo.refs.add_moved(&segments, &sealed.relied)?;
    repo.store.adopt(&sealed);
    Ok(())
}

/// Publishes what was copied out of one pack that is about to go. If the new packs may have frames
/// with bases, nothing is appended to them: repack looks for bases in all other packs.
pub fn keep_rewritten(repo: &Repo, sealed: FinishedJob, at: i64) -> Result<(), RepoError> {
    let mut segments = sealed.segments.iter();
    if segments.all(|row| row.pack.may_have_bases()) {
        let at = vec![at; sealed.segments.len()];
        keep_moved(repo, sealed, &at)
    } else {
        keep_as_of(repo, sealed, at)
    }
}

/// The request for an operation: who, when and which command. The operation log shows it.
#[derive(Clone, Debug)]
pub struct OperationRequest {
    /// The time of the request.
    pub time: Timestamp,
    /// The user.
    pub who: String,
    /// The command line.
    pub command: String,
}

impl OperationRequest {
    /// Creates a request by `who` for `command` at `time`.
    pub fn new(
        who: impl Into<String>,
        command: impl Into<String>,
        time: impl Into<Timestamp>,
    ) -> OperationRequest {
        OperationRequest {
            time: time.into(),
            who: who.into(),
            command: command.into(),
        }
    }
}

/// Returns the result of a job's writer. Poisons a pack if its sync failed.
pub fn noting_failed_sync(
    repo: &Repo,
    sealed: Result<FinishedJob, StoreError>,
) -> Result<FinishedJob, RepoError> {
    sealed.map_err(|e| {
        if let StoreError::SyncFailed { pack, .. } = &e {
            // The failed sync is the important error. Ignore a failure to record the poisoned pack.
            let _ = repo.refs.poison(*pack);
        }
        e.into()
    })
}

/// Merges accumulated index tables. If this fails, they wait for the next command.
pub fn merge_tables(repo: &Repo) {
    let Ok(catalogue) = repo.refs.catalogue() else {
        return;
    };
    let Ok(Some(merged)) = repo.store.merge_tables(&catalogue) else {
        return;
    };
    match repo.refs.register_merged(&merged) {
        Ok(true) => {
            repo.store.remove_indexes(&merged.indexes);
            // The merged index is registered, so its lock is no longer needed.
            drop(merged);
            let catalogue = || repo.refs.catalogue().ok();
            repo.store
                .remove_strays(|| catalogue().map(|now| now.indexes));
        }
        _ => repo.store.remove_indexes(&[merged.id]),
    }
}

/// Returns a change that gives a key its first value.
pub fn set(key: String, new: Vec<u8>) -> Change {
    Change {
        key,
        old: None,
        new: Some(new),
    }
}

/// Returns a change from the key's current value in the view.
pub fn change(refs: &Refs, key: String, new: Option<Vec<u8>>) -> Result<Change, RefsError> {
    let old = refs.get(&key)?;
    Ok(Change { key, old, new })
}

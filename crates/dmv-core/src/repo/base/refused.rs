//! What was purged must not come back: the store hears which chunks it must not store, and no job
//! publishes any (docs/format/slice.md, "Purged content").

use crate::repo::base::error::{BusyError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::base::slice;
use crate::store::FinishedJob;
use std::sync::PoisonError;

/// Tells the store which chunks it must not store, if another process has purged something since. An
/// unreadable slice changes nothing: the commands that need it say what is wrong with it.
pub fn refresh(repo: &Repo) {
    let stamp = slice::stamp_if_purged(repo);
    let mut heard = repo
        .remembered
        .slice
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if *heard == stamp {
        return;
    }
    let pieces = match stamp {
        None => Default::default(),
        Some(_) => match repo.slice() {
            Ok(slice) => slice.pieces.into_keys().collect(),
            Err(_) => return,
        },
    };
    repo.store.refuse(pieces);
    *heard = stamp;
}

/// Fails with [`BusyError::PurgedMeanwhile`] if a job has stored a chunk that was purged while it ran.
pub fn check_job(repo: &Repo, job: &FinishedJob) -> Result<(), RepoError> {
    refresh(repo);
    if job.has_refused(&repo.store)? {
        Err(BusyError::PurgedMeanwhile.into())
    } else {
        Ok(())
    }
}

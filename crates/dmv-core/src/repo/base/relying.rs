//! What jobs rely on without having stored it: objects that they have found.
//!
//! Another process may free what nothing names. So a job notes how often packs were freed before it
//! looks at what is stored. If that number is the same when it gives a name to something, then nothing
//! that it has found is gone. Otherwise it has to look again. No lock and no time is part of this
//! (docs/format/layout.md, "Naming beside somebody who frees").

use crate::refs::FreeCount;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The jobs that rely on what they have found, by the number that each noted.
#[derive(Clone, Default)]
pub struct RelianceList(Arc<Mutex<Vec<FreeCount>>>);

impl RelianceList {
    fn lock(&self) -> MutexGuard<'_, Vec<FreeCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a job relies on something.
    pub fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Returns whether nothing was freed between the first look of each job and `now`.
    pub fn nothing_freed_until(&self, now: FreeCount) -> bool {
        self.lock().iter().all(|since| *since == now)
    }
}

/// While it exists, a job relies on what it finds stored.
pub struct Reliance {
    all: RelianceList,
    since: FreeCount,
}

/// Returns how often packs were freed, and then loads what others have stored and freed. The other order
/// would miss what is freed in between.
pub fn look_anew(repo: &Repo) -> Result<FreeCount, RepoError> {
    let since = repo.refs.freed()?;
    repo.store.refresh()?;
    Ok(since)
}

/// Begins to rely on what is stored now.
pub fn rely(repo: &Repo) -> Result<Reliance, RepoError> {
    let since = look_anew(repo)?;
    repo.relied.lock().push(since);
    let all = repo.relied.clone();
    Ok(Reliance { all, since })
}

impl Drop for Reliance {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(at) = all.iter().position(|since| *since == self.since) {
            all.swap_remove(at);
        }
    }
}

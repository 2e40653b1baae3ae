//! A repository that many requests of one process share. What one has read, the others find in memory.

use crate::repo::{Repo, RepoError, RepositoryLocation, Stamp, Whose};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The repository at a place, which stays open as long as no other process changes it.
#[derive(Default)]
pub struct SharedRepo(Mutex<Option<OpenRepo>>);

struct OpenRepo {
    place: RepositoryLocation,
    stamp: Stamp,
    repo: Arc<Repo>,
}

impl SharedRepo {
    /// Returns the repository as it is now. It is opened again if it is another one than the last time, if another
    /// process has changed it, and each time if it belongs to another user.
    ///
    /// # Errors
    ///
    /// Those of [`Repo::open_as`].
    pub fn get(&self, place: RepositoryLocation, whose: Whose) -> Result<Arc<Repo>, RepoError> {
        if let Some(repo) = self.unchanged(&place) {
            return Ok(repo);
        }
        // Opening takes long if the database is busy. Requests that begin meanwhile also open it.
        let (repo, stamp) = match whose {
            Whose::Own => Repo::open_stamped(place.clone())?,
            Whose::Foreign => (Repo::open_as(place.clone(), whose)?, None),
        };
        let repo = Arc::new(repo);
        *self.lock() = stamp.map(|stamp| OpenRepo {
            place,
            stamp,
            repo: repo.clone(),
        });
        Ok(repo)
    }

    /// Opens the repository again for the next request.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn unchanged(&self, place: &RepositoryLocation) -> Option<Arc<Repo>> {
        let open = self.lock();
        let OpenRepo {
            place: known,
            stamp,
            repo,
        } = open.as_ref()?;
        let is_same = known == place && repo.stamp().as_ref() == Some(stamp);
        is_same.then(|| repo.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenRepo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

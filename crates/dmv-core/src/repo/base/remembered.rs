//! What an open repository has found out and may use again: each with what it was found out from.

use crate::claims::ClaimBook;
use crate::fsutil::{Fingerprint, SafeDir};
use crate::hash::ObjectId;
use crate::history::forks::Fork;
use crate::refs::Refs;
use crate::repo::base::branch::BranchPlace;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::stamp::Stamp;
use crate::worktree::quick::QuickLook;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// What may still be true.
#[derive(Default)]
pub struct RememberedFacts {
    /// What the slice was like when the store last heard which chunks it must not store.
    pub slice: Mutex<Option<(u64, SystemTime)>>,
    /// What is known of the worktree's files.
    quick: Mutex<Option<(QuickState, Arc<QuickLook>)>>,
    forks: Mutex<Option<KnownForks>>,
    /// All branches and branches of remotes, in the order in which a newer version names them.
    pub branches: FromView<Vec<(BranchPlace, ObjectId)>>,
    /// The claims.
    pub claims: FromView<ClaimBook>,
    /// The worktree is where the view has it.
    pub is_in_place: AtomicBool,
}

/// What was made of the view, as long as nobody changes that.
pub struct FromView<T>(Mutex<Option<ReadValue<T>>>);

struct ReadValue<T> {
    /// Changes of other connections, and own ones.
    version: (i64, u64),
    value: Arc<T>,
}

impl<T> Default for FromView<T> {
    fn default() -> FromView<T> {
        FromView(Mutex::default())
    }
}

impl<T> FromView<T> {
    /// Returns what `read` makes of the view of this repository.
    pub fn get(
        &self,
        refs: &Refs,
        read: impl FnOnce() -> Result<T, RepoError>,
    ) -> Result<Arc<T>, RepoError> {
        // First, so that it is too old rather than too new.
        let version = (refs.version()?, refs.own_changes());
        if let Some(known) = &*lock(&self.0)
            && known.version == version
        {
            return Ok(known.value.clone());
        }
        let value = Arc::new(read()?);
        *lock(&self.0) = Some(ReadValue {
            version,
            value: value.clone(),
        });
        Ok(value)
    }
}

/// What a [`QuickLook`] was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuickState {
    stamp: Stamp,
    /// How much this process has changed.
    changes: u64,
    /// The file of the stat cache.
    cache: Fingerprint,
}

impl QuickState {
    /// Returns the state as it is now. `cache` is the name of the stat cache in the worktree's `own` directory. `None` if
    /// the state cannot be determined.
    pub fn of(repo: &Repo, own: &SafeDir, cache: &[u8]) -> Option<QuickState> {
        Some(QuickState {
            changes: repo.refs.own_changes(),
            cache: own.try_stat(cache).ok()?.fingerprint(),
            stamp: repo.stamp()?,
        })
    }
}

/// What some branches have to do with a commit.
struct KnownForks {
    own: ObjectId,
    tips: Vec<ObjectId>,
    forks: Arc<Vec<Fork>>,
}

impl RememberedFacts {
    /// Returns what was made from this state.
    pub fn quick(&self, state: &QuickState) -> Option<Arc<QuickLook>> {
        let known = lock(&self.quick);
        let known = known.as_ref().filter(|(of, _)| of == state);
        known.map(|(_, look)| look.clone())
    }

    /// Remembers what was made from a state.
    pub fn set_quick(&self, state: QuickState, look: Arc<QuickLook>) {
        *lock(&self.quick) = Some((state, look));
    }

    /// Returns the forks of these commits, made by `make` unless they are known. What is unknown may become known, so it is
    /// not remembered.
    pub fn forks<E>(
        &self,
        own: &ObjectId,
        tips: &[ObjectId],
        make: impl FnOnce() -> Result<Vec<Fork>, E>,
    ) -> Result<Arc<Vec<Fork>>, E> {
        if let Some(known) = &*lock(&self.forks)
            && known.own == *own
            && known.tips == tips
        {
            return Ok(known.forks.clone());
        }
        let forks = Arc::new(make()?);
        if !forks.contains(&Fork::Unknown) {
            *lock(&self.forks) = Some(KnownForks {
                own: *own,
                tips: tips.to_vec(),
                forks: forks.clone(),
            });
        }
        Ok(forks)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

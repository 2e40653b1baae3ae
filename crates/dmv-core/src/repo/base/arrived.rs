//! Packs with what transfers of this process have brought within a budget, and that nothing names yet.
//!
//! If the budget turns out to be too small, they go at once, as a whole. Without a budget, a transfer
//! that was cut leaves what has come to the next one.

use crate::refs::SeenOperation;
use crate::repo::base::error::RepoError;
use crate::repo::base::keeping::free_alone;
use crate::repo::base::leaving::{free_packs, lock_pack};
use crate::repo::base::publish;
use crate::repo::base::repo::Repo;
use crate::store::{FinishedJob, PackId};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The packs, and the newest operation when the first of them came.
#[derive(Default)]
pub struct ArrivedPacks(Mutex<Option<(SeenOperation, BTreeSet<PackId>)>>);

impl ArrivedPacks {
    fn lock(&self) -> MutexGuard<'_, Option<(SeenOperation, BTreeSet<PackId>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that a transfer begins. What came before and has a name by now stays.
pub fn begin(repo: &Repo) -> Result<(), RepoError> {
    let now = repo.refs.seen()?;
    let mut arrived = repo.arrived.lock();
    if arrived.as_ref().is_none_or(|(seen, _)| *seen != now) {
        *arrived = Some((now, BTreeSet::new()));
    }
    Ok(())
}

/// Notes the packs of a job that was published without a name.
pub fn note(repo: &Repo, sealed: &FinishedJob) {
    if let Some((_, packs)) = repo.arrived.lock().as_mut().filter(|_| sealed.is_limited) {
        packs.extend(sealed.segments.iter().map(|row| row.pack));
    }
}

impl Repo {
    /// Removes what has arrived, unless another command has published an operation meanwhile, which may
    /// name some of it: then it is left to `gc`.
    pub fn give_back_arrivals(&self) -> Result<(), RepoError> {
        let arrived = self.arrived.lock().take();
        if let Some((seen, packs)) = arrived.filter(|(_, packs)| !packs.is_empty()) {
            let right = free_alone(self)?;
            let mut locked = Vec::new();
            for id in packs {
                if let Some(row) = self.refs.pack(id)? {
                    locked.extend(lock_pack(self, row)?);
                }
            }
            free_packs(self, &right, &locked, seen)?;
            drop(locked);
            publish::merge_tables(self);
        }
        self.remove_leftovers()?;
        Ok(())
    }
}

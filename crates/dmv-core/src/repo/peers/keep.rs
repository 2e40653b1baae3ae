//! Answers peers that ask which objects this repository keeps, while they drop their copies.
//!
//! While a [`Keeper`] exists, nothing in this repository is freed (`base::keeping`).

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::{ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::keeping::KeepingLock;
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::repo::Repo;
use crate::repo::look::copies::take_led_to;
use std::collections::{BTreeMap, BTreeSet};

/// The answering side for a peer that wants to drop its copies.
pub struct Keeper<'r> {
    repo: &'r Repo,
    _kept: KeepingLock,
    asked: BTreeMap<ObjectId, ObjectType>,
}

impl Repo {
    /// Prevents everything from being freed from now on, and answers a peer that wants to drop its
    /// copies.
    ///
    /// # Errors
    ///
    /// Fails with [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if a command is freeing space
    /// in this repository.
    pub fn keeper(&self) -> Result<Keeper<'_>, RepoError> {
        Ok(Keeper {
            repo: self,
            _kept: self.keep_all()?,
            asked: BTreeMap::new(),
        })
    }
}

impl<'r> Keeper<'r> {
    /// Returns the number of files that the peer has asked for and that are not answered yet.
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Adds the content of a file to the peer's questions.
    pub fn ask(&mut self, ty: ObjectType, id: ObjectId) {
        self.asked.insert(id, ty);
    }

    /// Returns the files among the questions that the peer cannot rely on: a part is not stored, is
    /// known to be damaged or was given up, or no ref leads to the file.
    pub fn unkept(&mut self, job: &Job) -> Result<Vec<(ObjectType, ObjectId)>, RepoError> {
        // Another process may have dropped content before this one took the lock.
        self.repo.store().refresh()?;
        let slice = self.repo.slice()?;
        let asked = std::mem::take(&mut self.asked);
        let (mut unkept, mut whole) = (Vec::new(), BTreeMap::new());
        for (id, ty) in asked {
            if !slice.is_given_up(&id) && self.is_sound(ty, id, job)? {
                whole.insert(id, ty);
            } else {
                unkept.push((ty, id))
            }
        }
        self.take_reachable(&mut whole, job)?;
        unkept.extend(whole.into_iter().map(|(id, ty)| (ty, id)));
        Ok(unkept)
    }

    /// Returns whether all lists and chunks of a blob are stored and not known to be damaged.
    fn is_sound(&self, ty: ObjectType, id: ObjectId, job: &Job) -> Result<bool, RepoError> {
        let store = self.repo.store();
        let mut stack = vec![(ty, id)];
        while let Some((ty, id)) = stack.pop() {
            job.check()?;
            // A pack that cannot be opened counts as empty.
            if !store.has_undamaged(&id).unwrap_or(false) {
                return Ok(false);
            }
            if ty == ObjectType::List {
                let Ok(Some(bytes)) = self.repo.read(ty, &id) else {
                    return Ok(false);
                };
                let Ok(links) = ty.links(&bytes) else {
                    return Ok(false);
                };
                stack.extend(links);
            } else if !store.holds(ty, &id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the files that refs lead to from `wanted`.
    fn take_reachable(
        &self,
        wanted: &mut BTreeMap<ObjectId, ObjectType>,
        job: &Job,
    ) -> Result<(), RepoError> {
        let mut commits = BTreeSet::new();
        for (key, value) in self.repo.refs().with_prefix("")? {
            commits.extend(
                named_by(&key, &value)
                    .into_iter()
                    .filter_map(NamedObject::commit),
            );
        }
        take_led_to(self.repo, commits, wanted, usize::MAX, job).map(drop)
    }
}

//! Answers peers that ask what this repository keeps, while they drop their copies.
//!
//! As long as a [`Keeper`] lives, nothing is freed here (`base::keeping`).

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::{ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keeping::Kept;
use crate::repo::base::keys::names_commit;
use crate::repo::base::{keeping, slice};
use crate::repo::look::entries;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Answers a peer that wants to give up its copies.
pub struct Keeper<'r> {
    repo: &'r Handle,
    _kept: Kept,
    asked: BTreeMap<ObjectId, ObjectType>,
}

impl<'r> Keeper<'r> {
    /// Keeps everything from now on. [`RepoError::Freeing`]: space is being freed here.
    pub(in crate::repo) fn new(repo: &'r Handle) -> Result<Keeper<'r>, RepoError> {
        Ok(Keeper {
            repo,
            _kept: keeping::keep_all(repo)?,
            asked: BTreeMap::new(),
        })
    }

    /// How many files have been asked for and not been answered.
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Takes a file's content that is asked for.
    pub fn ask(&mut self, ty: ObjectType, id: ObjectId) {
        self.asked.insert(id, ty);
    }

    /// Those of the files asked for that cannot be counted on here: something of them is not
    /// stored, or known to be damaged, or given up, or no ref leads to them.
    pub fn unkept(&mut self, job: &Job) -> Result<Vec<(ObjectType, ObjectId)>, RepoError> {
        // Another process may have dropped some before this one began to keep.
        self.repo.store().refresh()?;
        let dropped = slice::slice(self.repo)?.dropped;
        let asked = std::mem::take(&mut self.asked);
        let (mut unkept, mut whole) = (Vec::new(), BTreeMap::new());
        for (id, ty) in asked {
            match !dropped.contains(&id) && self.is_sound(ty, id, job)? {
                true => drop(whole.insert(id, ty)),
                false => unkept.push((ty, id)),
            }
        }
        self.take_reachable(&mut whole, job)?;
        unkept.extend(whole.into_iter().map(|(id, ty)| (ty, id)));
        Ok(unkept)
    }

    /// Whether all lists and chunks of a blob are stored and not known to be damaged.
    fn is_sound(&self, ty: ObjectType, id: ObjectId, job: &Job) -> Result<bool, RepoError> {
        let store = self.repo.store();
        let mut stack = vec![(ty, id)];
        while let Some((ty, id)) = stack.pop() {
            if job.is_cancelled() {
                return Err(RepoError::Cancelled);
            }
            // A pack that cannot be opened holds nothing for anybody.
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

    /// Takes those out of `wanted` that refs lead to: newest states first, until all are found.
    fn take_reachable(
        &self,
        wanted: &mut BTreeMap<ObjectId, ObjectType>,
        job: &Job,
    ) -> Result<(), RepoError> {
        let mut commits = BTreeSet::new();
        for (key, value) in self.repo.refs().with_prefix("")? {
            if let (true, Ok(bytes)) = (names_commit(&key), <[u8; 32]>::try_from(value)) {
                commits.insert(ObjectId::from_bytes(bytes));
            }
        }
        let mut commits: Vec<ObjectId> = commits.into_iter().collect();
        let mut seen: HashSet<ObjectId> = commits.iter().copied().collect();
        while !commits.is_empty() && !wanted.is_empty() {
            let mut parents = Vec::new();
            for commit in commits {
                // What is absent or damaged leads to nothing.
                let Ok(commit) = entries::read_commit(self.repo, &commit) else {
                    continue;
                };
                let mut stack = vec![(ObjectType::Tree, commit.tree)];
                while let Some((ty, id)) = stack.pop() {
                    if job.is_cancelled() {
                        return Err(RepoError::Cancelled);
                    }
                    if !matches!(ty, ObjectType::Tree | ObjectType::Conflict) {
                        wanted.remove(&id);
                    } else if !wanted.is_empty()
                        && seen.insert(id)
                        && let Ok(Some(bytes)) = self.repo.read(ty, &id)
                    {
                        stack.extend(ty.links(&bytes).unwrap_or_default());
                    }
                }
                parents.extend(commit.parents.into_iter().filter(|id| seen.insert(*id)));
            }
            commits = parents;
        }
        Ok(())
    }
}

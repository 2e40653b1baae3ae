//! What this repository holds and keeps, for peers that rely on it while they drop theirs.
//!
//! The file `keeping` (docs/format/layout.md) is locked shared by whoever needs that nothing is
//! freed here, and exclusively by whoever frees. Nobody waits for it, and the system takes the locks
//! of those who died. So of two repositories that drop at the same time, each counting on the
//! other, at least one finds the other busy.

use super::verify::names_commit;
use super::{Repo, RepoError, Whose};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::locks;
use crate::object::{ObjectRead, ObjectType};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{File, TryLockError};
use std::path::Path;

const KEEPING_FILE: &str = "keeping";

/// As long as this lives, nothing is freed here.
pub struct Kept {
    _lock: File,
}

/// As long as this lives, nobody else frees anything here, and nobody counts on that nothing is
/// freed.
pub(super) struct Exclusive {
    _lock: File,
}

impl Repo {
    /// Keeps everything that is here until what is returned is dropped. [`RepoError::Freeing`]:
    /// somebody is freeing space.
    pub fn keep_all(&self) -> Result<Kept, RepoError> {
        let file = self.keeping_file()?;
        locked(file.try_lock_shared(), self.dmv_dir())?;
        Ok(Kept { _lock: file })
    }

    /// The right to free. [`RepoError::Freeing`]: somebody else frees, or counts on what is here.
    pub(super) fn keep_exclusively(&self) -> Result<Exclusive, RepoError> {
        self.check_own()?;
        let file = self.keeping_file()?;
        locked(file.try_lock(), self.dmv_dir())?;
        Ok(Exclusive { _lock: file })
    }

    fn keeping_file(&self) -> Result<File, RepoError> {
        keeping_file(self.dmv_dir(), self.whose)
    }
}

/// Keeps everything in the repository at `dmv`, which need not be one that opens; waits some seconds
/// for whoever frees.
pub(super) fn keep_unopened(dmv: &Path) -> Result<Kept, RepoError> {
    let path = dmv.join(KEEPING_FILE);
    let file = keeping_file(dmv, Whose::Own)?;
    let taken = locks::wait(&[&path], locks::PATIENCE, || match file.try_lock_shared() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    });
    let io = |source| RepoError::Io {
        action: "lock",
        path: path.clone(),
        source,
    };
    taken.map_err(io)?.map_err(RepoError::Freeing)?;
    Ok(Kept { _lock: file })
}

/// Keeps everything in the repository at `dmv`, without waiting. `Err` within: somebody frees.
pub(super) fn try_keep(dmv: &Path) -> Result<Result<Kept, RepoError>, RepoError> {
    let file = keeping_file(dmv, Whose::Own)?;
    Ok(locked(file.try_lock_shared(), dmv).map(|()| Kept { _lock: file }))
}

fn keeping_file(dmv: &Path, whose: Whose) -> Result<File, RepoError> {
    let path = dmv.join(KEEPING_FILE);
    let opened = match whose {
        Whose::Own => File::options().create(true).append(true).open(&path),
        Whose::Foreign => File::open(&path),
    };
    // A lock needs no right to write, where the file is there.
    opened
        .or_else(|e| File::open(&path).map_err(|_| e))
        .map_err(|source| RepoError::Io {
            action: "open",
            path,
            source,
        })
}

fn locked(tried: Result<(), TryLockError>, dmv: &Path) -> Result<(), RepoError> {
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let holder = locks::holder_of(&[&dmv.join(KEEPING_FILE)]);
            Err(RepoError::Freeing(holder))
        }
        Err(TryLockError::Error(source)) => Err(RepoError::Io {
            action: "lock",
            path: dmv.join(KEEPING_FILE),
            source,
        }),
    }
}

/// Answers a peer that wants to give up its copies.
pub struct Keeper<'r> {
    repo: &'r Repo,
    _kept: Kept,
    asked: BTreeMap<ObjectId, ObjectType>,
}

impl<'r> Keeper<'r> {
    /// Keeps everything from now on. [`RepoError::Freeing`]: space is being freed here.
    pub fn new(repo: &'r Repo) -> Result<Keeper<'r>, RepoError> {
        Ok(Keeper {
            repo,
            _kept: repo.keep_all()?,
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
        let dropped = self.repo.slice()?.dropped;
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
            if !store.has_sound(&id).unwrap_or(false) {
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
                let Ok(commit) = self.repo.read_commit(&commit) else {
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

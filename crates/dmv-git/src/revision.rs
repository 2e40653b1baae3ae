//! Commits by their ids in Git, and the ids of commits in Git.
//!
//! An imported commit keeps its id itself. The map of ids finds it faster, and knows those of commits
//! that were exported; it is in the repository that imported and exported them, and not in a clone.

use crate::commit::GitOrigin;
use crate::id::GitId;
use crate::map::{FILE, IdMap, MapError};
use dmv_core::ObjectId;
use dmv_core::history::load_commit;
use dmv_core::object::commit::Commit;
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::repo::GitIdQuery;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// The most commits that a prefix is looked up for.
const MOST: usize = 8;

/// Returns the commits whose ids in Git begin with some digits.
pub fn commits_of(query: &GitIdQuery<'_>) -> Result<Vec<ObjectId>, ObjectError> {
    let mut found = BTreeSet::new();
    // A map that cannot be read only saves work.
    for id in in_map(query).unwrap_or_default() {
        if query.objects.holds(ObjectType::Commit, &id)? {
            found.insert(id);
        }
    }
    if found.is_empty() {
        found = in_history(query)?;
    }
    Ok(found.into_iter().take(MOST).collect())
}

fn in_map(query: &GitIdQuery<'_>) -> Result<Vec<ObjectId>, MapError> {
    match existing(query.dmv_dir)? {
        Some(map) => map.commits_with_prefix(query.hex, MOST),
        None => Ok(Vec::new()),
    }
}

/// Opens the map if there is one.
fn existing(dmv_dir: &Path) -> Result<Option<IdMap>, MapError> {
    let is_there = dmv_dir.join(FILE).exists();
    is_there.then(|| IdMap::open(dmv_dir)).transpose()
}

/// Looks at every commit that the tips lead to, as far as they are stored.
fn in_history(query: &GitIdQuery<'_>) -> Result<BTreeSet<ObjectId>, ObjectError> {
    let mut found = BTreeSet::new();
    let mut seen: HashSet<ObjectId> = query.tips.iter().copied().collect();
    let mut next = query.tips.clone();
    while let Some(id) = next.pop() {
        let commit = match load_commit(query.objects, &id) {
            Err(ObjectError::Missing { .. }) => continue,
            commit => commit?,
        };
        let git = GitOrigin::of(&commit).map(|origin| origin.id.to_string());
        if git.is_some_and(|git| git.starts_with(query.hex)) {
            found.insert(id);
        }
        next.extend(commit.parents.into_iter().filter(|id| seen.insert(*id)));
    }
    Ok(found)
}

/// Says which ids commits have in Git.
pub struct GitNames {
    map: Option<IdMap>,
}

impl GitNames {
    /// Opens the map of a repository, if it has one that can be used.
    pub fn open(dmv_dir: &Path) -> GitNames {
        let map = existing(dmv_dir).ok().flatten();
        let map = map.filter(|map| map.index_by_dmv().is_ok());
        GitNames { map }
    }

    /// Returns the id of a commit in Git, if it came from there or was exported from this repository.
    pub fn of(&self, id: &ObjectId, commit: &Commit) -> Option<GitId> {
        let origin = GitOrigin::of(commit).map(|origin| origin.id);
        origin.or_else(|| self.map.as_ref()?.git_of(id).ok()?)
    }
}

//! What a transfer into this repository must fetch, and what it changes in the slice.

use crate::hash::ObjectId;
use crate::limits::{MAX_UNION_BYTES, MAX_UNION_SUBSETS};
use crate::object::name::RepoPath;
use crate::reach::Filter;
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::subset_key;
use crate::repo::base::repo::Repo;
use crate::repo::base::slice::{Expiry, RepoSlice};
use crate::repo::base::worktree;
use crate::repo::look::entries::{Location, Selection};
use crate::repo::look::lack::LackOf;
use crate::repo::look::stored::{is_complete, stored_type};
use crate::subset::{Subset, Union};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The greatest number of commits walked to find the part of the boundary that still counts.
const MAX_WALKED: usize = 10_000;

impl Repo {
    /// Returns the filter for transfers into this repository: the objects that its slice calls for,
    /// and the paths of its worktrees.
    ///
    /// If history has a boundary, the filter excludes commits that are older than the boundary.
    pub fn wanted(&self) -> Result<Filter, RepoError> {
        let slice = self.slice()?;
        let mut paths = vec![slice.subset.clone()];
        let mut bytes = slice.subset.text().len();
        for subset in checked_out(self)? {
            bytes += subset.text().len();
            // The checkout that needs the remaining paths fetches them.
            if paths.len() < MAX_UNION_SUBSETS && bytes < MAX_UNION_BYTES {
                paths.push(subset);
            }
        }
        let mut since: Option<i64> = None;
        let ends = match self.complete_commits()? {
            // An interrupted transfer left these.
            none if none.is_empty() => slice.boundary.clone(),
            tips => self.ends_of_history(&slice, tips),
        };
        for id in &ends {
            // The commits of the boundary themselves are the oldest that history includes.
            let behind = self.read_commit(id)?.committer.seconds.saturating_add(1);
            since = Some(since.map_or(behind, |since| since.min(behind)));
        }
        Ok(Filter {
            paths: Union::of(paths),
            metadata_only: slice.metadata_only,
            depth: 0,
            since,
            dropped: slice.given_up(),
            shallow: slice.boundary,
        })
    }
}

/// Returns the subsets of the worktrees that have files.
fn checked_out(repo: &Repo) -> Result<Vec<Subset>, RepoError> {
    let mut out = Vec::new();
    for (key, _) in repo.refs.with_prefix("worktree/")? {
        let name = key.strip_prefix("worktree/");
        let Some(name) = name.and_then(|rest| rest.strip_suffix("/base")) else {
            continue;
        };
        let value = repo.refs.get(&subset_key(name))?;
        out.push(worktree::subset_value(repo, name, value.as_deref())?);
    }
    Ok(out)
}

impl Repo {
    /// Returns the subsets of the worktrees that are complete in the commit with this `root`, as
    /// far as `of` looks.
    ///
    /// Only worktrees with files count. The paths that a worktree has beyond the slice are stored
    /// for new commits. For old commits, they are stored only if a command asked for them.
    pub fn checked_out_here(&self, root: &Location, of: LackOf) -> Result<Vec<Subset>, RepoError> {
        let mut here = Vec::new();
        for subset in checked_out(self)? {
            let wanted = Selection {
                path: &RepoPath::root(),
                located: root,
                subset: &subset,
            };
            if self.lacking(wanted, of)?.is_empty() {
                here.push(subset);
            }
        }
        Ok(here)
    }

    /// Records that the content of these files is absent here because it has expired in another
    /// repository. Returns how many there are: content that is stored here has not expired.
    pub fn note_expired(
        &self,
        expired: &BTreeMap<ObjectId, Arc<Expiry>>,
    ) -> Result<u64, RepoError> {
        let known = self.slice()?;
        let mut absent = BTreeMap::new();
        for (id, why) in expired {
            let is_here = match stored_type(self, id)? {
                Some(ty) => is_complete(self, ty, *id)?,
                None => false,
            };
            if !is_here && !known.is_given_up(id) {
                absent.insert(*id, why.clone());
            }
        }
        let count = absent.len() as u64;
        if count > 0 {
            self.change_slice(|slice| slice.expired.append(&mut absent))?;
        }
        Ok(count)
    }

    /// Records the commits at which a transfer ended history, and the commits of the boundary that
    /// it passed.
    pub fn note_boundary(
        &self,
        ends: &BTreeSet<ObjectId>,
        passed: &BTreeSet<ObjectId>,
    ) -> Result<(), RepoError> {
        if ends.is_empty() && passed.is_empty() {
            return Ok(());
        }
        let known = commits_within(self)?;
        self.change_slice(|slice| {
            slice.boundary.retain(|id| !passed.contains(id));
            // A transfer with a limit may end before the stored history does.
            let ends = ends.iter().filter(|id| !known.contains(id));
            slice.boundary.extend(ends);
        })?;
        forget_idle_ends(self)
    }
}

/// Removes commits whose parents are all stored from the boundary. Their branch is gone, and the
/// history behind them was received with another branch.
fn forget_idle_ends(repo: &Repo) -> Result<(), RepoError> {
    let boundary = repo.slice()?.boundary;
    if boundary.is_empty() {
        return Ok(());
    }
    let within = commits_within(repo)?;
    let mut idle = Vec::new();
    for id in boundary {
        let parents = repo.read_commit(&id)?.parents;
        if parents.iter().all(|parent| within.contains(parent)) {
            idle.push(id);
        }
    }
    repo.change_slice(|slice| slice.boundary.retain(|id| !idle.contains(id)))?;
    Ok(())
}

impl Repo {
    /// Returns the commits of the boundary at which the history of `tips` ends.
    ///
    /// The boundary may have other commits, from branches that are gone. They stay: an undo brings
    /// a branch back, but not the history behind it. Returns the whole boundary if history is too
    /// long to walk or cannot be read.
    pub fn ends_of_history(&self, slice: &RepoSlice, tips: Vec<ObjectId>) -> BTreeSet<ObjectId> {
        let boundary = &slice.boundary;
        let (mut stack, mut seen, mut ends) = (tips, HashSet::new(), BTreeSet::new());
        while let Some(id) = stack.pop() {
            if ends.len() == boundary.len() {
                break;
            }
            if !seen.insert(id) {
                continue;
            }
            if boundary.contains(&id) {
                ends.insert(id);
                continue;
            }
            match self.read_commit(&id) {
                Ok(commit) if seen.len() <= MAX_WALKED => stack.extend(commit.parents),
                _ => return boundary.clone(),
            }
        }
        ends
    }
}

/// Returns the wanted commits without those of the boundary. Their parents are wanted, too.
fn commits_within(repo: &Repo) -> Result<HashSet<ObjectId>, RepoError> {
    let boundary = repo.slice()?.boundary;
    let mut within = HashSet::new();
    let mut stack = repo.complete_commits()?;
    while let Some(id) = stack.pop() {
        if !boundary.contains(&id) && within.insert(id) {
            stack.extend(repo.read_commit(&id)?.parents);
        }
    }
    Ok(within)
}

/// How much of the history of some commits is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredHistory {
    /// The number of commits.
    pub commits: u64,
    /// The number of commits on the way from the nearest of the first commits to the farthest one.
    pub depth: u32,
    /// The time of the oldest commit whose parents are stored, in seconds since 1970. `None` without
    /// such a commit.
    pub oldest_inner: Option<i64>,
}

impl Repo {
    /// Measures the history of `tips` that is stored. Returns `None` if it is too long to walk or
    /// cannot be read.
    pub fn stored_history(&self, slice: &RepoSlice, tips: Vec<ObjectId>) -> Option<StoredHistory> {
        let (mut level, mut seen, mut out) = (tips, HashSet::new(), StoredHistory::default());
        loop {
            level.retain(|id| seen.insert(*id));
            if level.is_empty() {
                break;
            }
            out.depth += 1;
            let mut next = Vec::new();
            for id in level {
                let commit = self.read_commit(&id).ok()?;
                if seen.len() > MAX_WALKED {
                    return None;
                }
                if !slice.boundary.contains(&id) && !commit.parents.is_empty() {
                    let time = commit.committer.seconds;
                    out.oldest_inner =
                        Some(out.oldest_inner.map_or(time, |oldest| oldest.min(time)));
                    next.extend(commit.parents);
                }
            }
            level = next;
        }
        out.commits = seen.len() as u64;
        Some(out)
    }
}

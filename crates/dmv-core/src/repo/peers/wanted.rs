//! What a transfer into this repository has to bring, and what it changes in the slice.

use crate::hash::ObjectId;
use crate::limits::{MAX_UNION_BYTES, MAX_UNION_SUBSETS};
use crate::object::name::RepoPath;
use crate::reach::Filter;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::subset_key;
use crate::repo::base::slice::RepoSlice;
use crate::repo::base::{slice, worktree};
use crate::repo::look::entries::{Located, Wanted};
use crate::repo::look::lack::LackOf;
use crate::repo::look::{entries, history, lack};
use crate::subset::{Subset, Union};
use std::collections::{BTreeSet, HashSet};

/// Commits that are looked at to tell which part of the boundary still counts.
const MAX_WALKED: usize = 10_000;

/// What a transfer into this repository has to bring: what its slice calls for, and the paths
/// that its worktrees have. Behind a boundary, only what is not older than the boundary is.
pub(in crate::repo) fn wanted(repo: &Handle) -> Result<Filter, RepoError> {
    let slice = slice::slice(repo)?;
    let mut paths = vec![slice.subset.clone()];
    let mut bytes = slice.subset.text().len();
    for subset in checked_out(repo)? {
        bytes += subset.text().len();
        // What does not fit is brought by the checkout that needs it.
        if paths.len() < MAX_UNION_SUBSETS && bytes < MAX_UNION_BYTES {
            paths.push(subset);
        }
    }
    let mut since: Option<i64> = None;
    let ends = match history::complete_commits(repo)? {
        // What a transfer has brought before it was cut off.
        none if none.is_empty() => slice.boundary.clone(),
        tips => ends_of_history(repo, &slice, tips),
    };
    for id in &ends {
        // The last commits themselves are the oldest that history goes back to.
        let behind = entries::read_commit(repo, id)?
            .committer
            .seconds
            .saturating_add(1);
        since = Some(since.map_or(behind, |since| since.min(behind)));
    }
    Ok(Filter {
        paths: Union::of(paths),
        metadata_only: slice.metadata_only,
        depth: 0,
        since,
        shallow: slice.boundary,
        dropped: slice.dropped,
    })
}

/// The subsets of the worktrees that have files.
fn checked_out(repo: &Handle) -> Result<Vec<Subset>, RepoError> {
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

/// The subsets of the worktrees that have files of which, as far as `of` looks, everything is here
/// in the commit with this `root`. What they have beyond the slice is held of new commits, and of
/// old ones only if it was asked for.
pub(in crate::repo) fn checked_out_here(
    repo: &Handle,
    root: &Located,
    of: LackOf,
) -> Result<Vec<Subset>, RepoError> {
    let mut here = Vec::new();
    for subset in checked_out(repo)? {
        let wanted = Wanted {
            path: &RepoPath::root(),
            located: root,
            subset: &subset,
        };
        if lack::lacking(repo, wanted, of)?.is_empty() {
            here.push(subset);
        }
    }
    Ok(here)
}

/// Notes where a transfer ended history, and which commits of the boundary it went beyond.
pub(in crate::repo) fn note_boundary(
    repo: &Handle,
    ends: &BTreeSet<ObjectId>,
    passed: &BTreeSet<ObjectId>,
) -> Result<(), RepoError> {
    if ends.is_empty() && passed.is_empty() {
        return Ok(());
    }
    let known = commits_within(repo)?;
    slice::change_slice(repo, |slice| {
        slice.boundary.retain(|id| !passed.contains(id));
        // A transfer with a limit may end before what is here does.
        let ends = ends.iter().filter(|id| !known.contains(id));
        slice.boundary.extend(ends);
    })?;
    forget_idle_ends(repo)
}

/// Takes commits off the boundary behind which nothing is lacking: their branch is gone, and
/// what it grew from has come by another one.
fn forget_idle_ends(repo: &Handle) -> Result<(), RepoError> {
    let boundary = slice::slice(repo)?.boundary;
    if boundary.is_empty() {
        return Ok(());
    }
    let within = commits_within(repo)?;
    let mut idle = Vec::new();
    for id in boundary {
        let parents = entries::read_commit(repo, &id)?.parents;
        if parents.iter().all(|parent| within.contains(parent)) {
            idle.push(id);
        }
    }
    slice::change_slice(repo, |slice| slice.boundary.retain(|id| !idle.contains(id)))?;
    Ok(())
}

/// The commits of the boundary at which the history of `tips` ends. The boundary may have others,
/// of branches that are gone: they stay, since an undo brings a branch back and not what is behind
/// it. Of a long history, which would have to be walked, and of one that cannot be read, the whole
/// boundary.
pub(in crate::repo) fn ends_of_history(
    repo: &Handle,
    slice: &RepoSlice,
    tips: Vec<ObjectId>,
) -> BTreeSet<ObjectId> {
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
        match entries::read_commit(repo, &id) {
            Ok(commit) if seen.len() <= MAX_WALKED => stack.extend(commit.parents),
            _ => return boundary.clone(),
        }
    }
    ends
}

/// The commits that are called for, but for the boundary: their parents are called for as well.
fn commits_within(repo: &Handle) -> Result<HashSet<ObjectId>, RepoError> {
    let boundary = slice::slice(repo)?.boundary;
    let mut within = HashSet::new();
    let mut stack = history::complete_commits(repo)?;
    while let Some(id) = stack.pop() {
        if !boundary.contains(&id) && within.insert(id) {
            stack.extend(entries::read_commit(repo, &id)?.parents);
        }
    }
    Ok(within)
}

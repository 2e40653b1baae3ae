//! Finds the heads of worktrees that no operation records any more. `recover` uses it.

use crate::fsutil::{SafeDir, machine_now};
use crate::hash::ObjectId;
use crate::history::{Ancestors, load_commit};
use crate::platform::bytes_of;
use crate::refs::Effect;
use crate::refs::{Change, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, head_key, path_key, subset_key};
use crate::repo::base::layout::{DMV_DIR, MAIN, RepositoryLocation};
use crate::repo::base::publish::{change, set};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::recovering;
use crate::repo::base::worktree;
use crate::subset::Subset;
use crate::worktree::cacheupdate::STAT_NAME;
use crate::worktree::statcache::{StatCache, subset_check};
use std::path::{Path, PathBuf};

/// Stores the heads of the repository's own worktree and of the worktree at `place` if they are
/// unknown, and returns them. Changes no file.
pub fn mend_heads(
    repo: &Repo,
    place: &RepositoryLocation,
) -> Result<Vec<(String, Head)>, RepoError> {
    let own = repo.dmv_dir().file_name().is_some_and(|n| n == DMV_DIR);
    let root = repo.dmv_dir().parent().filter(|_| own);
    let mut worktrees = vec![(MAIN.to_owned(), root.map(Path::to_owned))];
    let here = place.worktree.iter().filter(|(_, name)| name != MAIN);
    worktrees.extend(here.map(|(root, name)| (name.clone(), Some(root.clone()))));
    let (mut changes, mut mended) = (Vec::new(), Vec::new());
    for (name, root) in worktrees {
        let known = repo.refs.get(&head_key(&name))?;
        if known.as_deref().and_then(Head::parse).is_none() {
            let head = changes_for(repo, &name, root, &mut changes)?;
            mended.push((name, head));
        }
    }
    if !changes.is_empty() {
        let last = repo.refs.operations(1)?.pop();
        let who = last.map(|op| op.who).unwrap_or_default();
        recovering(repo, now(), &who)
            .with(changes)
            .publish(Effect::Kept)?;
    }
    Ok(mended)
}

/// Returns the present time, without a time zone.
pub fn now() -> Timestamp {
    let now = machine_now();
    Timestamp {
        seconds: now.seconds,
        nanos: now.nanos,
        tz_minutes: 0,
    }
}

/// Adds the changes that record a worktree's path and head again. Returns the head.
fn changes_for(
    repo: &Repo,
    name: &str,
    root: Option<PathBuf>,
    changes: &mut Vec<Change>,
) -> Result<Head, RepoError> {
    let mut base = worktree::ref_id(repo, &base_key(name)).unwrap_or(None);
    if let (Some(root), None) = (&root, base) {
        if let Some((id, subset)) = base_by_cache(repo, name)? {
            base = Some(id);
            changes.push(set(base_key(name), id.as_bytes().to_vec()));
            if !subset.is_everything() && repo.refs.get(&subset_key(name))?.is_none() {
                changes.push(set(subset_key(name), subset.text()));
            }
        }
        if repo.refs.get(&path_key(name))?.is_none() {
            let path = bytes_of(&root).to_vec();
            changes.push(set(path_key(name), path));
        }
    }
    let head = head_for(repo, base)?;
    changes.push(change(&repo.refs, head_key(name), Some(head.value()))?);
    Ok(head)
}

/// Returns the commit that the worktree's stat cache belongs to, and the subset. Returns `None` if
/// no such commit is found, or if the subset is unknown: with a wrong subset, the paths outside the
/// real one would seem to be deleted.
fn base_by_cache(repo: &Repo, name: &str) -> Result<Option<(ObjectId, Subset)>, RepoError> {
    let own = SafeDir::open_root(&repo.dmv_dir().join("worktrees").join(name));
    let cache = own
        .ok()
        .and_then(|own| StatCache::open(&own, STAT_NAME, &repo.id()));
    let Some(cache) = cache else {
        return Ok(None);
    };
    let known = repo.refs.get(&subset_key(name))?;
    let known = known.and_then(|text| Subset::parse(&text).ok());
    // Other checks report a damaged slice.
    let slice = repo.slice().ok().map(|slice| slice.subset);
    let mut subsets = [known, slice, Some(Subset::default())]
        .into_iter()
        .flatten();
    let Some(subset) = subsets.find(|subset| subset_check(subset) == cache.subset()) else {
        return Ok(None);
    };
    let tips = branches(repo)?.into_iter().map(|(_, id)| id);
    for found in Ancestors::new(repo.objects(), tips) {
        match found {
            Ok((id, commit)) if commit.tree == cache.base_tree() => return Ok(Some((id, subset))),
            Ok(_) => {}
            // Commits behind damage are not found.
            Err(_) => break,
        }
    }
    Ok(None)
}

/// Returns the most likely branch of a worktree with this base.
fn head_for(repo: &Repo, base: Option<ObjectId>) -> Result<Head, RepoError> {
    let all = branches(repo)?;
    let at_base: Vec<_> = all.iter().filter(|(_, id)| Some(*id) == base).collect();
    if let (Some(base), true) = (base, at_base.is_empty()) {
        return Ok(Head::Commit(base));
    }
    let candidates = if at_base.is_empty() {
        all.iter().collect()
    } else {
        at_base
    };
    let by_age = |(name, id): &&(String, ObjectId)| {
        let commit = load_commit(repo.objects(), id);
        let generation = commit.map_or(0, |commit| commit.generation);
        (name == MAIN_BRANCH, generation)
    };
    let best = candidates.into_iter().max_by_key(by_age);
    let name = best.map_or(MAIN_BRANCH, |(name, _)| name);
    Ok(Head::Branch(name.to_owned()))
}

/// The usual first branch of a repository.
const MAIN_BRANCH: &str = "main";

fn branches(repo: &Repo) -> Result<Vec<(String, ObjectId)>, RepoError> {
    let rows = repo.refs.with_prefix("branch/")?.into_iter();
    let branch = |(key, value): (String, Vec<u8>)| {
        let id = <[u8; 32]>::try_from(value).ok()?;
        Some((
            key.strip_prefix("branch/")?.to_owned(),
            ObjectId::from_bytes(id),
        ))
    };
    Ok(rows.filter_map(branch).collect())
}

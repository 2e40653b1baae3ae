//! Complete commits: everything that they need is stored, as far as the slice calls for it.
//!
//! A fetch that was cut leaves commits without their content. Such a commit must not get a name:
//! fetches and other commands count on everything that a name leads to. So a name may be given only
//! to a commit that a name leads to already, or that a walk finds complete.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::reach::{Detail, Filter, Reach};
use crate::refs::Change;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::{Named, named_by};
use crate::repo::base::{slice, window, worktree};
use crate::store::FinishedJob;
use crate::subset::Union;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Fails with [`RepoError::Incomplete`] unless all these commits are complete.
///
/// This is cheap for commits that the view names and for their nearest ancestors. For others, it
/// costs a walk over what no name leads to.
pub(in crate::repo) fn check_complete(repo: &Handle, ids: &[ObjectId]) -> Result<(), RepoError> {
    check_beside(repo, ids, None)
}

/// Fails with [`RepoError::Incomplete`] if `changes` would name an incomplete commit.
///
/// The commits that `job` has made count as complete if their parents are. So do those that the
/// changed keys name now, and those that the operation number `undoes` names.
pub(in crate::repo) fn check_changes(
    repo: &Handle,
    changes: &[Change],
    job: Option<&FinishedJob>,
    undoes: u64,
) -> Result<(), RepoError> {
    let mut seen: HashSet<ObjectId> = HashSet::new();
    for change in changes {
        let old = change.old.as_deref().unwrap_or_default();
        seen.extend(named_by(&change.key, old).into_iter().map(Named::id));
    }
    if undoes != 0 {
        window::each_named_by(repo, undoes, &mut |named| {
            seen.insert(named.id());
        })?;
    }
    let mut stack: Vec<ObjectId> = Vec::new();
    for change in changes {
        let new = change.new.as_deref().unwrap_or_default();
        stack.extend(
            named_by(&change.key, new)
                .into_iter()
                .filter_map(Named::commit),
        );
    }
    let mut others = Vec::new();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        match job {
            Some(job) if repo.store.has_stored(job, &id)? => {
                repo.store.preview(job);
                stack.extend(load_commit(&repo.store, &id)?.parents);
            }
            _ => others.push(id),
        }
    }
    check_beside(repo, &others, job)
}

fn check_beside(
    repo: &Handle,
    ids: &[ObjectId],
    job: Option<&FinishedJob>,
) -> Result<(), RepoError> {
    let mut left = Vec::new();
    for id in ids {
        // The check of a name reports a commit that is not stored at all.
        if !is_named(repo, id)? && repo.store.place_to_name(id, job)?.is_some() {
            left.push(*id);
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let mut hidden = named_by_view(repo)?;
    if absent_below(repo, &left, &hidden, job)? == 0 {
        return Ok(());
    }
    window::each_operation(repo, 0, &mut |operation| {
        window::each_named(operation, &mut |named| hidden.extend(named.commit()));
    })?;
    for id in left {
        let missing = absent_below(repo, &[id], &hidden, job)?;
        if missing > 0 {
            return Err(RepoError::Incomplete { id, missing });
        }
    }
    Ok(())
}

/// Returns whether a key of the view names a commit by itself.
fn is_named(repo: &Handle, id: &ObjectId) -> Result<bool, RepoError> {
    // These need no search.
    let head = worktree::head_commit(repo).ok().flatten();
    let base = worktree::base_commit(repo).ok().flatten();
    if head == Some(*id) || base == Some(*id) {
        return Ok(true);
    }
    for value in [&id.as_bytes()[..], id.to_string().as_bytes()] {
        let keys = repo.refs.keys_with(value)?;
        let names = |key: &String| named_by(key, value).contains(&Named::Commit(*id));
        if keys.iter().any(names) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn named_by_view(repo: &Handle) -> Result<BTreeSet<ObjectId>, RepoError> {
    let mut out = BTreeSet::new();
    for (key, value) in repo.refs.with_prefix("")? {
        out.extend(named_by(&key, &value).into_iter().filter_map(Named::commit));
    }
    Ok(out)
}

/// Returns how many objects that `tips` need are absent although the slice calls for them: at least
/// this many, since nobody knows what an absent object needs. What commits in `hidden` need counts as
/// stored. What `job` has stored counts, too.
fn absent_below(
    repo: &Handle,
    tips: &[ObjectId],
    hidden: &BTreeSet<ObjectId>,
    job: Option<&FinishedJob>,
) -> Result<u64, RepoError> {
    let slice = slice::slice(repo)?;
    let mut behind = HashSet::new();
    for id in &slice.boundary {
        behind.extend(
            load_commit(&repo.store, id)
                .into_iter()
                .flat_map(|c| c.parents),
        );
    }
    let filter = Filter {
        paths: Union::of([slice.subset]),
        metadata_only: slice.metadata_only,
        shallow: slice.boundary,
        dropped: slice.dropped,
        ..Filter::default()
    };
    if let Some(job) = job {
        repo.store.preview(job);
    }
    let (tips, hidden) = (tips.iter().copied(), hidden.iter().copied());
    let mut reach = Reach::filtered(tips, hidden, Detail::All, filter);
    let mut absent = 0;
    let stored = Stored { repo, job };
    loop {
        let found = match reach.next(&stored) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(absent),
            // What is damaged is not absent: `verify` reports it. A name may help to save the rest.
            Err(ObjectError::Damaged { .. }) => return Ok(absent),
            Err(e) => return Err(e.into()),
        };
        let is_behind = found.ty == ObjectType::Commit && behind.contains(&found.id);
        absent += u64::from(!found.here && !is_behind);
    }
}

/// The objects that the catalogue lists and those of one job. Other jobs of this process may still
/// fail.
struct Stored<'r> {
    repo: &'r Handle,
    job: Option<&'r FinishedJob>,
}

impl ObjectRead for Stored<'_> {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        match self.holds(ty, id)? {
            true => self.repo.store.read(ty, id),
            false => Ok(None),
        }
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        let place = self.repo.store.place_to_name(id, self.job)?;
        Ok(place.is_some_and(|(_, place)| place.ty == ty))
    }
}

//! Complete commits: everything that they need is stored, as far as the slice calls for it.
//!
//! A fetch that was cut leaves commits without their content. Such a commit must not get a name:
//! fetches and other commands count on everything that a name leads to. So a name may be given only
//! to a commit that a name leads to already, or that a walk finds complete.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::reach::{Detail, Filter, Reach};
use crate::refs::{Change, FreeCount, RefsError};
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::repo::Repo;
use crate::repo::base::{relying, window};
use crate::store::FinishedJob;
use crate::subset::Union;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Fails with [`AbsentError::Incomplete`] unless all these commits are complete.
///
/// This is cheap for commits that the view names and for their nearest ancestors. For others, it
/// costs a walk over what no name leads to.
pub fn check_complete(repo: &Repo, ids: &[ObjectId]) -> Result<(), RepoError> {
    check_beside(repo, ids, None)
}

/// Fails with [`AbsentError::Incomplete`] if `changes` would name an incomplete commit.
///
/// The commits that `job` has made count as complete if their parents are. So do those that the
/// changed keys name now, and those that the operation number `undoes` names.
pub fn check_changes(
    repo: &Repo,
    changes: &[Change],
    job: Option<&FinishedJob>,
    undoes: u64,
) -> Result<(), RepoError> {
    let mut seen: HashSet<ObjectId> = HashSet::new();
    for change in changes {
        let old = change.old.as_deref().unwrap_or_default();
        seen.extend(named_by(&change.key, old).into_iter().map(NamedObject::id));
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
                .filter_map(NamedObject::commit),
        );
    }
    let mut others = Vec::new();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let own = match job {
            Some(job) => repo.store.place_in(job, &id)?,
            None => None,
        };
        match (job, own) {
            (Some(job), Some((_, place))) if place.ty == ObjectType::Commit => {
                repo.store.preview(job);
                match load_commit(&repo.store, &id) {
                    Ok(commit) => stack.extend(commit.parents),
                    // Nobody here can tell what a later version's commit needs.
                    Err(ObjectError::TooNew { .. }) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            _ => others.push(id),
        }
    }
    check_beside(repo, &others, job)
}

/// Looks whether everything is still here that `changes` name, after others have freed objects.
/// Returns how often they had done so before it looked. Fails with [`RefsError::MayBeGone`] if
/// something is absent.
///
/// What a transfer has brought is what the slice calls for. Other jobs store more than that, for
/// example the content of new files in a clone without content. If such a job also takes over what is
/// absent by choice, it is refused although nothing is gone. When it runs again, it passes.
///
/// What the view and the window name is complete. So the cost depends on what is new.
pub fn look_again(
    repo: &Repo,
    changes: &[Change],
    job: Option<&FinishedJob>,
    is_transfer: bool,
) -> Result<FreeCount, RepoError> {
    let since = relying::look_anew(repo)?;
    let mut hidden = named_by_view(repo)?;
    add_window(repo, &mut hidden)?;
    let mut commits = Vec::new();
    for change in changes {
        let new = change.new.as_deref().unwrap_or_default();
        let named = named_by(&change.key, new).into_iter();
        commits.extend(named.filter_map(NamedObject::commit));
    }
    let walk = Walk {
        repo,
        job,
        hidden: &hidden,
        is_sliced: is_transfer,
    };
    match walk.absent_below(&commits)? {
        0 => Ok(since),
        _ => Err(RefsError::MayBeGone.into()),
    }
}

fn add_window(repo: &Repo, ids: &mut BTreeSet<ObjectId>) -> Result<(), RepoError> {
    window::each_operation(repo, 0, &mut |operation| {
        window::each_named(operation, &mut |named| ids.extend(named.commit()));
    })
}

fn check_beside(repo: &Repo, ids: &[ObjectId], job: Option<&FinishedJob>) -> Result<(), RepoError> {
    let mut left = Vec::new();
    for id in ids {
        // The check of names reports what is not stored at all.
        if is_named(repo, id)? {
            continue;
        }
        let place = repo.store.place_to_name(id, job)?;
        if place.is_some_and(|(_, place)| place.ty == ObjectType::Commit) {
            left.push(*id);
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let mut hidden = named_by_view(repo)?;
    if not_here(repo, job, &hidden, &left)? == 0 {
        return Ok(());
    }
    add_window(repo, &mut hidden)?;
    for id in left {
        let missing = not_here(repo, job, &hidden, &[id])?;
        if missing > 0 {
            return Err(AbsentError::Incomplete { id, missing }.into());
        }
    }
    Ok(())
}

/// Returns how many objects below `tips` are absent. What is damaged is not absent: `verify` reports it,
/// and a name may help to save the rest.
fn not_here(
    repo: &Repo,
    job: Option<&FinishedJob>,
    hidden: &BTreeSet<ObjectId>,
    tips: &[ObjectId],
) -> Result<u64, RepoError> {
    let walk = Walk {
        repo,
        job,
        hidden,
        is_sliced: true,
    };
    match walk.absent_below(tips) {
        Err(RepoError::Object(ObjectError::Damaged { .. })) => Ok(0),
        done => done,
    }
}

/// Returns whether a key of the view names a commit by itself.
fn is_named(repo: &Repo, id: &ObjectId) -> Result<bool, RepoError> {
    // These need no search.
    let head = repo.head_commit().ok().flatten();
    let base = repo.base_commit().ok().flatten();
    if head == Some(*id) || base == Some(*id) {
        return Ok(true);
    }
    for value in [&id.as_bytes()[..], id.to_string().as_bytes()] {
        let keys = repo.refs.keys_with(value)?;
        let names = |key: &String| named_by(key, value).contains(&NamedObject::Commit(*id));
        if keys.iter().any(names) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the commits that the view names.
pub fn named_by_view(repo: &Repo) -> Result<BTreeSet<ObjectId>, RepoError> {
    let mut out = BTreeSet::new();
    for (key, value) in repo.refs.with_prefix("")? {
        out.extend(
            named_by(&key, &value)
                .into_iter()
                .filter_map(NamedObject::commit),
        );
    }
    Ok(out)
}

/// A walk over what some commits need and the `hidden` commits do not: those are complete. What `job`
/// has stored counts as stored.
struct Walk<'r> {
    repo: &'r Repo,
    job: Option<&'r FinishedJob>,
    hidden: &'r BTreeSet<ObjectId>,
    /// Whether only that is needed which the slice calls for.
    is_sliced: bool,
}

impl Walk<'_> {
    /// Returns how many needed objects are absent: at least this many, since nobody knows what an
    /// absent object needs.
    fn absent_below(&self, commits: &[ObjectId]) -> Result<u64, RepoError> {
        let (repo, job, hidden) = (self.repo, self.job, self.hidden);
        let slice = repo.slice()?;
        let mut behind = HashSet::new();
        for id in &slice.boundary {
            let commit = load_commit(&repo.store, id);
            behind.extend(commit.into_iter().flat_map(|commit| commit.parents));
        }
        let given_up = slice.given_up();
        let mut filter = Filter {
            shallow: slice.boundary,
            ..Filter::default()
        };
        if self.is_sliced {
            filter.paths = Union::of([slice.subset]);
            (filter.metadata_only, filter.dropped) = (slice.metadata_only, given_up);
        }
        if let Some(job) = job {
            repo.store.preview(job);
        }
        let stored = StoredObjects { repo, job };
        let (tips, hidden) = (commits.iter().copied(), hidden.iter().copied());
        let mut reach = Reach::filtered(tips, hidden, Detail::All, filter);
        let mut absent = 0;
        while let Some(found) = reach.next(&stored)? {
            let is_behind = found.ty == ObjectType::Commit && behind.contains(&found.id);
            absent += u64::from(!found.here && !is_behind);
        }
        Ok(absent)
    }
}

/// The objects that the catalogue lists and those of one job. Other jobs of this process may still
/// fail.
struct StoredObjects<'r> {
    repo: &'r Repo,
    job: Option<&'r FinishedJob>,
}

impl ObjectRead for StoredObjects<'_> {
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        if self.holds(ty, id)? {
            self.repo.store.read(ty, id)
        } else {
            Ok(None)
        }
    }

    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        let place = self.repo.store.place_to_name(id, self.job)?;
        Ok(place.is_some_and(|(_, place)| place.ty == ty))
    }
}

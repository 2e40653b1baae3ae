//! `op forget`: takes one operation out of the reach of undo.
//!
//! This alone would free nothing, since the undo of a commit names the commit as well. So an operation is
//! forgotten together with all operations that need the same commits, if nothing else needs these.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::reach::{Detail, Reach};
use crate::refs::{Effect, Operation};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{NamedObject, forgotten_key};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::{keeping, whole, window};
use crate::repo::look::operations::find_operation;
use std::collections::HashSet;

/// What `Repo::forget_operation` took out of the reach of undo.
#[derive(Clone, Debug, Default)]
pub struct ForgetReport {
    /// The operations, newest first. None if all commits of the one that was asked for are still needed,
    /// or if undo could not reach it any more.
    pub forgotten: Vec<Operation>,
    /// The operation that records this.
    pub operation: Option<Operation>,
}

impl Repo {
    /// Takes the operation whose id begins with `id` out of the reach of undo, and each other operation that
    /// needs one of the commits which only undo can bring back by it. This cannot be undone.
    ///
    /// Fails with `BusyError::Freeing` if a peer relies on the objects of this repository: what is
    /// reachable must not change meanwhile. Waits for a running undo, which counts on what it reaches.
    pub fn forget_operation(
        &self,
        id: &str,
        request: OperationRequest,
    ) -> Result<ForgetReport, RepoError> {
        let _nobody_relies = keeping::keep_exclusively(self)?;
        let _nobody_undoes = keeping::reach_alone(self)?;
        let chosen = find_operation(self, id)?;
        let needs_it = commits_that_go(self, &chosen)?;
        let mut forgotten = Vec::new();
        window::each_operation(self, 0, &mut |operation| {
            if named_commits(operation).any(|id| needs_it.contains(&id)) {
                forgotten.push(operation.clone());
            }
        })?;
        if forgotten.is_empty() {
            return Ok(ForgetReport::default());
        }
        let mut tx = Transaction::begin(self, &request);
        for operation in &forgotten {
            tx.set(forgotten_key(operation.seq), Some(Vec::new()))?;
        }
        let operation = tx.publish(Effect::Kept)?;
        Ok(ForgetReport {
            forgotten,
            operation: Some(operation),
        })
    }

    /// Returns the commits that only undo can bring back: those that [`forget_operation`](Self::forget_operation)
    /// gives up, if an operation names them.
    pub fn commits_for_undo(&self) -> Result<HashSet<ObjectId>, RepoError> {
        let for_undo = for_undo(self)?.into_iter();
        Ok(for_undo.map(|(id, _)| id).collect())
    }
}

/// Returns the commits of an operation that only undo can bring back, and their descendants.
fn commits_that_go(repo: &Repo, chosen: &Operation) -> Result<HashSet<ObjectId>, RepoError> {
    let seeds: HashSet<ObjectId> = named_commits(chosen).collect();
    let mut going = HashSet::new();
    // Parents come last in the walk.
    for (id, parents) in for_undo(repo)?.into_iter().rev() {
        if seeds.contains(&id) || parents.iter().any(|parent| going.contains(parent)) {
            going.insert(id);
        }
    }
    Ok(going)
}

/// Returns the commits that only undo can bring back, newest first, each with its parents.
fn for_undo(repo: &Repo) -> Result<Vec<(ObjectId, Vec<ObjectId>)>, RepoError> {
    let mut named = HashSet::new();
    window::each_operation(repo, 0, &mut |operation| {
        named.extend(named_commits(operation))
    })?;
    let mut reach = Reach::new(named, whole::named_by_view(repo)?, Detail::Commits);
    let mut for_undo = Vec::new();
    while let Some(found) = reach.next(repo.objects())? {
        let parents = if found.here {
            load_commit(repo.objects(), &found.id)?.parents
        } else {
            Vec::new()
        };
        for_undo.push((found.id, parents));
    }
    Ok(for_undo)
}

fn named_commits(operation: &Operation) -> impl Iterator<Item = ObjectId> {
    let mut ids = Vec::new();
    window::each_named(operation, &mut |named| {
        ids.extend(NamedObject::commit(named))
    });
    ids.into_iter()
}

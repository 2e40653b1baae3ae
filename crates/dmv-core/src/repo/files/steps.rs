//! Storing the steps of a command, and naming them in the view.

use crate::diff::diff_trees;
use crate::hash::ObjectId;
use crate::merge::{Edits, edit_tree};
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, put_empty_tree};
use crate::refs::Operation;
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{begun_key, steps_key};
use crate::repo::base::record;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::{Step, Steps};
use crate::repo::base::transaction::Transaction;
use crate::repo::base::window::is_about_others;
use crate::repo::files::record::put_record;
use crate::repo::look::operations::is_intent;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Steps with the id of their record.
#[derive(Clone, Debug)]
pub struct StoredSteps {
    pub steps: Steps,
    pub id: ObjectId,
}

/// Returns the steps of a command that finds the entries `before` and leaves the entries `after`.
pub fn between(repo: &Repo, before: &Edits, after: &Edits) -> Result<Steps, RepoError> {
    // The trees serve only to find the differences. So they are not stored.
    let empty = put_empty_tree(&mut &repo.made)?;
    let tree = |edits| edit_tree(repo.objects(), &mut &repo.made, empty, edits);
    let (from, to) = (tree(before)?.id, tree(after)?.id);
    let mut found: BTreeMap<RepoPath, [Option<TreeEntry>; 2]> = BTreeMap::new();
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        let [before, after] = found.entry(path.clone()).or_default();
        *before = before.take().or(old.cloned());
        *after = after.take().or(new.cloned());
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`, because `note` accepts everything.
    let _ = diff_trees(repo.objects(), Some(from), Some(to), &mut note)?;
    let steps = found.into_iter();
    let steps = steps.map(|(path, [before, after])| (path, Step::Overwrote { before, after }));
    Ok(steps.collect())
}

/// Stores steps.
pub fn put(tx: &mut Transaction<'_>, steps: Steps) -> Result<StoredSteps, RepoError> {
    let id = put_record(tx, &steps.encode(), steps.entries())?;
    Ok(StoredSteps { steps, id })
}

/// Names the steps of a command as the last ones, also if the command before took the same ones: an operation
/// without this change would only announce steps.
pub fn set_last(tx: &mut Transaction<'_>, name: &str, id: ObjectId) -> Result<(), RepoError> {
    tx.record(&steps_key(name), id.as_bytes())
}

/// Names the steps of a command that has overwritten files as the last ones. No steps are begun any
/// more.
pub fn set_done(tx: &mut Transaction<'_>, name: &str, id: ObjectId) -> Result<(), RepoError> {
    set_last(tx, name, id)?;
    tx.set(begun_key(name), None)
}

/// Names steps that a command is about to take.
pub fn set_begun(tx: &mut Transaction<'_>, name: &str, id: ObjectId) -> Result<(), RepoError> {
    tx.record(&begun_key(name), id.as_bytes())
}

/// Returns the steps of a command that has not finished.
pub fn read_begun(repo: &Repo, name: &str) -> Result<Option<Steps>, RepoError> {
    let key = begun_key(name);
    let value = repo.refs.get(&key)?;
    let steps = value.map(|value| record::read(repo, &key, &value));
    steps.transpose()
}

/// How many operations are searched for the last one of a worktree.
const RECENT: usize = 64;

/// Returns the last operation of a worktree if it only announces steps: its command was cut off, and an undo
/// takes it back. Fetches between do not count.
pub fn announced(repo: &Repo, name: &str) -> Result<Option<Operation>, RepoError> {
    if repo.refs.get(&begun_key(name))?.is_none() {
        return Ok(None);
    }
    let recent = repo.refs.operations(RECENT)?.into_iter();
    let mut own = recent.filter(|one| one.worktree() == name && !is_about_others(repo, one));
    Ok(own.next().filter(is_intent))
}

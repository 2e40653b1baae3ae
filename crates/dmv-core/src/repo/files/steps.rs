//! Storing the steps of a command, and the changes of the view that name them.

use crate::diff::diff_trees;
use crate::hash::ObjectId;
use crate::merge::{Edits, edit_tree};
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, put_empty_tree};
use crate::refs::Change;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::{begun_key, steps_key};
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::record;
use crate::repo::base::steps::{Step, Steps};
use crate::repo::files::record::put_record;
use crate::store::MetaWriter;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Steps with the id of their record.
#[derive(Clone, Debug)]
pub(in crate::repo) struct StoredSteps {
    pub steps: Steps,
    pub id: ObjectId,
}

/// Returns the steps of a command that finds the entries `before` and leaves the entries `after`.
pub(in crate::repo) fn between(
    repo: &Handle,
    before: &Edits,
    after: &Edits,
) -> Result<Steps, RepoError> {
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
pub(in crate::repo) fn put(
    repo: &Handle,
    steps: Steps,
    request: &OperationRequest,
    meta: &mut MetaWriter<'_>,
) -> Result<StoredSteps, RepoError> {
    let id = put_record(repo, &steps.encode(), steps.entries(), request, meta)?;
    Ok(StoredSteps { steps, id })
}

/// Returns the change of the view with which a command names its steps as the last ones.
pub(in crate::repo) fn last(repo: &Handle, name: &str, id: ObjectId) -> Result<Change, RepoError> {
    let value = Some(id.as_bytes().to_vec());
    Ok(change(&repo.refs, steps_key(name), value)?)
}

/// Returns the changes of the view with which a command that has overwritten files names its steps as
/// the last ones. No steps are begun any more.
pub(in crate::repo) fn done(
    repo: &Handle,
    name: &str,
    id: ObjectId,
) -> Result<Vec<Change>, RepoError> {
    let mut changes = vec![last(repo, name, id)?];
    let begun = change(&repo.refs, begun_key(name), None)?;
    changes.extend(begun.old.is_some().then_some(begun));
    Ok(changes)
}

/// Returns the change with which a command names steps that it is about to take.
pub(in crate::repo) fn begun(repo: &Handle, name: &str, id: ObjectId) -> Result<Change, RepoError> {
    let value = Some(id.as_bytes().to_vec());
    Ok(change(&repo.refs, begun_key(name), value)?)
}

/// Returns the steps of a command that has not finished.
pub(in crate::repo) fn read_begun(repo: &Handle, name: &str) -> Result<Option<Steps>, RepoError> {
    let key = begun_key(name);
    let value = repo.refs.get(&key)?;
    let steps = value.map(|value| record::read(repo, &key, &value));
    steps.transpose()
}

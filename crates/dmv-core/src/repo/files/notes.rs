//! Storing a worktree's notes of paths, and the change of the view that names them.

use crate::refs::Change;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::notes_key;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::publish;
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::record::{put_record, store_record};
use crate::store::{FinishedJob, MetaWriter};

/// Stores `notes` in place of those of the worktree. Returns the change of the view; `None` if they
/// are the same.
pub(in crate::repo) fn put(
    repo: &Handle,
    tree: &OpenWorktree,
    notes: &PathNotes,
    request: &OperationRequest,
    meta: &mut MetaWriter<'_>,
) -> Result<Option<Change>, RepoError> {
    if *notes == tree.notes {
        return Ok(None);
    }
    let mut value = None;
    if !notes.is_empty() {
        let id = put_record(repo, &notes.encode(), notes.entries(), request, meta)?;
        value = Some(id.as_bytes().to_vec());
    }
    Ok(Some(change(&repo.refs, notes_key(&tree.name), value)?))
}

/// Stores `notes` as [`put`] does, with a writer of its own. Returns also what has to be published
/// with the change. `stored` is what the command has stored so far.
pub(in crate::repo) fn store(
    repo: &Handle,
    tree: &OpenWorktree,
    notes: &PathNotes,
    stored: Option<FinishedJob>,
    request: &OperationRequest,
) -> Result<(Option<Change>, Option<FinishedJob>), RepoError> {
    if *notes == tree.notes {
        return Ok((None, stored));
    }
    let (mut value, mut stored) = (None, stored);
    if !notes.is_empty() {
        let held = notes.entries();
        let (id, all) = store_record(repo, &notes.encode(), held, stored, request)?;
        (value, stored) = (Some(id.as_bytes().to_vec()), Some(all));
    }
    let change = change(&repo.refs, notes_key(&tree.name), value)?;
    Ok((Some(change), stored))
}

/// Stores `notes` as [`put`] does, before the operation that names them: it may come with objects of
/// its own.
pub(in crate::repo) fn keep(
    repo: &Handle,
    tree: &OpenWorktree,
    notes: &PathNotes,
    request: &OperationRequest,
) -> Result<Option<Change>, RepoError> {
    let (change, stored) = store(repo, tree, notes, None, request)?;
    if let Some(stored) = stored {
        publish::keep(repo, stored)?;
    }
    Ok(change)
}

//! Storing a worktree's notes of paths.

use crate::repo::base::error::RepoError;
use crate::repo::base::keys::notes_key;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::transaction::Transaction;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::record::put_record;

/// Stores `notes` in place of those of the worktree, if they differ.
pub fn put(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    notes: &PathNotes,
) -> Result<(), RepoError> {
    if *notes == tree.notes {
        return Ok(());
    }
    let mut value = None;
    if !notes.is_empty() {
        let id = put_record(tx, &notes.encode(), notes.entries())?;
        value = Some(id.as_bytes().to_vec());
    }
    tx.set(notes_key(&tree.name), value)
}

//! The largest file that only undo needs, and the operation that names it.

use crate::prelude::*;
use dmv_core::diff::changes;
use dmv_core::hash::encode_hex;
use dmv_core::refs::Operation;
use std::ops::ControlFlow;

/// The most commits that are compared with their parents: it is for a note.
const MAX_COMMITS: usize = 50;

/// A file in a commit that only an operation within reach of undo leads to.
pub struct UndoOnlyFile {
    /// Its path in that commit.
    pub path: RepoPath,
    /// Its length.
    pub bytes: u64,
    /// The oldest operation that names the commit.
    pub operation: Operation,
}

impl UndoOnlyFile {
    /// Returns the largest one, if it has at least this many bytes.
    pub fn largest(repo: &Repo, least: u64) -> Result<Option<UndoOnlyFile>, RepoError> {
        let mut largest: Option<UndoOnlyFile> = None;
        let slice = repo.slice()?;
        for (commit, operation) in commits(repo)? {
            let commit = repo.read_commit(&commit)?;
            let parent = commit.parents.first().map(|id| repo.read_commit(id));
            let before = parent.transpose()?.map(|parent| parent.tree);
            for change in changes(repo.objects(), before, Some(commit.tree))? {
                let new = change.new.filter(|new| new.kind.is_blob());
                let Some(new) = new.filter(|new| slice.purge_of(&new.id).is_none()) else {
                    continue;
                };
                let most = largest.as_ref().map_or(least, |file| file.bytes + 1);
                if new.size >= most {
                    largest = Some(UndoOnlyFile {
                        path: change.path,
                        bytes: new.size,
                        operation: operation.clone(),
                    });
                }
            }
        }
        Ok(largest)
    }

    /// The first digits of the operation's id.
    pub fn operation_id(&self) -> String {
        encode_hex(&self.operation.id)[..12].to_owned()
    }
}

/// The newest commits that only undo can bring back to a branch, each with the oldest operation that names it.
fn commits(repo: &Repo) -> Result<Vec<(ObjectId, Operation)>, RepoError> {
    let window = repo.undo_window()?;
    // What a worktree or a stash still has is not given up with an operation.
    let for_undo = repo.commits_for_undo()?;
    let mut out: Vec<(ObjectId, Operation)> = Vec::new();
    repo.each_operation(&mut |operation, _| {
        if out.len() >= MAX_COMMITS {
            return Ok(ControlFlow::Break(()));
        }
        if !window.has(operation.seq) {
            return Ok(ControlFlow::Continue(()));
        }
        let moved = operation.changes.iter();
        let moved = moved.filter(|change| change.key.starts_with("branch/"));
        let ids = moved.flat_map(|change| change.new.iter().chain(&change.old));
        for id in ids.filter_map(|value| value.as_slice().try_into().ok()) {
            let id = ObjectId::from_bytes(id);
            if let Some((_, oldest)) = out.iter_mut().find(|(known, _)| *known == id) {
                *oldest = operation.clone();
            } else if for_undo.contains(&id) {
                out.push((id, operation.clone()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(out)
}

//! Storing a record of a worktree: as a chain of commits that no branch has.

use crate::hash::ObjectId;
use crate::merge::{Edits, edit_tree};
use crate::object::commit::{Commit, Person};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeSummary, put_empty_tree};
use crate::refs::Timestamp;
use crate::repo::base::error::RepoError;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::record::{PART_BYTES, RECORD_KEY};
use crate::repo::base::transaction::Transaction;
use crate::repo::conflict::at::list_conflicts;
use crate::repo::files::saved::store_made;

/// Stores a record as a chain of commits (docs/format/notes.md), and returns the id of the last one.
/// `bytes` is its encoding, and `held` are the entries whose content has to stay stored.
pub fn put_record<'a>(
    tx: &mut Transaction<'_>,
    bytes: &[u8],
    held: impl Iterator<Item = (&'a RepoPath, &'a TreeEntry)>,
) -> Result<ObjectId, RepoError> {
    let repo = tx.repo();
    // The edits start from the empty tree, so it has to be readable.
    let empty = put_empty_tree(&mut &repo.made)?;
    let layers = layers(held);
    let mut parts: Vec<&[u8]> = bytes.chunks(PART_BYTES).collect();
    let length = parts.len().max(layers.len());
    parts.resize(length, &[]);
    let none = Edits::new();
    let mut last = None;
    for (n, part) in parts.into_iter().enumerate() {
        let entries = layers.get(n).unwrap_or(&none);
        for entry in entries.values().flatten() {
            store_made(tx, entry)?;
        }
        let tree = edit_tree(repo.objects(), tx, empty, entries)?;
        let mut commit = commit_of(tree, last, n as u64 + 1, tx.request());
        commit.extras.push((RECORD_KEY.to_vec(), part.to_vec()));
        let is_conflict = |entry: &TreeEntry| entry.kind == Kind::Conflict;
        let conflicts = entries.iter();
        let conflicts = conflicts.filter(|(_, entry)| entry.as_ref().is_some_and(is_conflict));
        let conflicts: Vec<RepoPath> = conflicts.map(|(path, _)| path.clone()).collect();
        list_conflicts(&mut commit.extras, &conflicts);
        last = Some(tx.put_commit(&commit)?);
    }
    Ok(last.expect("an encoding has bytes"))
}

/// Distributes entries so that each tree can have its own at their paths.
fn layers<'a>(held: impl Iterator<Item = (&'a RepoPath, &'a TreeEntry)>) -> Vec<Edits> {
    let mut layers: Vec<Edits> = Vec::new();
    for (path, entry) in held {
        let is_free = |layer: &&mut Edits| {
            let mut above = path.clone();
            while above.pop() {
                if layer.contains_key(&above) {
                    return false;
                }
            }
            match layer.range(path..).next() {
                Some((next, other)) if next == path => other.as_ref() == Some(entry),
                Some((next, _)) => !next.starts_with(path),
                None => true,
            }
        };
        let new = (path.clone(), Some(entry.clone()));
        match layers.iter_mut().find(is_free) {
            Some(layer) => layer.extend([new]),
            None => layers.push(Edits::from([new])),
        }
    }
    layers
}

/// Returns a commit by the user of the command.
fn commit_of(
    tree: TreeSummary,
    parent: Option<ObjectId>,
    generation: u64,
    request: &OperationRequest,
) -> Commit {
    let Timestamp {
        seconds,
        nanos,
        tz_minutes,
    } = request.time;
    let (name, email) = match request
        .who
        .strip_suffix('>')
        .and_then(|who| who.split_once(" <"))
    {
        Some((name, email)) => (name.to_owned(), email.to_owned()),
        None => (request.who.clone(), String::new()),
    };
    let person = Person {
        name,
        email,
        seconds,
        nanos,
        tz_minutes,
    };
    Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        generation,
        message: request.command.clone(),
        parents: parent.into_iter().collect(),
        author: person.clone(),
        committer: person,
        extras: Vec::new(),
        signature: None,
    }
}

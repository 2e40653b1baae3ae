//! Commits that no branch has: with them, the view stores entries of files durably.

use crate::hash::ObjectId;
use crate::merge::{Edits, edit_tree};
use crate::object::commit::{Commit, Person};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, TreeSummary, put_empty_tree};
use crate::object::{ObjectType, ObjectWrite};
use crate::refs::Timestamp;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::path;
use crate::repo::base::publish::OperationRequest;
use crate::repo::conflict::at::list_conflicts;
use crate::store::MetaWriter;
use crate::worktree::join;

/// Stores a commit without parents whose tree has these entries, and returns its id.
pub(in crate::repo) fn put_record(
    repo: &Handle,
    entries: &Edits,
    message: String,
    request: &OperationRequest,
    meta: &mut MetaWriter<'_>,
) -> Result<ObjectId, RepoError> {
    // The edits start from the empty tree, so it has to be readable.
    let empty = put_empty_tree(&mut &repo.made)?;
    let tree = edit_tree(repo.objects(), meta, empty, entries)?;
    let mut commit = commit_of(tree, None, message, request);
    let is_conflict = |entry: &TreeEntry| entry.kind == Kind::Conflict;
    let conflicts = entries.iter();
    let conflicts = conflicts.filter(|(_, entry)| entry.as_ref().is_some_and(is_conflict));
    let conflicts: Vec<RepoPath> = conflicts.map(|(path, _)| path.clone()).collect();
    list_conflicts(&mut commit.extras, &conflicts);
    put_commit(commit, meta)
}

/// Stores a commit and returns its id.
pub(in crate::repo) fn put_commit(
    commit: Commit,
    meta: &mut MetaWriter<'_>,
) -> Result<ObjectId, RepoError> {
    let bytes = commit
        .encode()
        .map_err(|e| RepoError::Text(e.to_string()))?;
    Ok(meta.put(ObjectType::Commit, &bytes)?)
}

/// Returns a commit by the user of the command.
pub(in crate::repo) fn commit_of(
    tree: TreeSummary,
    parent: Option<ObjectId>,
    message: String,
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
        generation: 1 + u64::from(parent.is_some()),
        message,
        parents: parent.into_iter().collect(),
        author: person.clone(),
        committer: person,
        extras: Vec::new(),
        signature: None,
    }
}

/// Returns the files of a tree, with their paths.
pub(in crate::repo) fn files_in(
    repo: &Handle,
    tree: ObjectId,
) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
    let (mut out, mut dirs) = (Vec::new(), vec![(Vec::new(), tree)]);
    while let Some((dir, tree)) = dirs.pop() {
        for entry in TreeIter::new(repo.objects(), tree) {
            let entry = entry?;
            let path = join(&dir, entry.name.as_bytes());
            match entry.kind {
                Kind::Directory => dirs.push((path, entry.id)),
                _ => out.push((path::parse_path(&path)?, entry)),
            }
        }
    }
    Ok(out)
}

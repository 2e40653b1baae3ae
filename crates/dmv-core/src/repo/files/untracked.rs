//! Files that the next commit leaves out although they may stay on disk: what `rm --cached` notes.
//!
//! The view names a commit whose tree has the entries of these files (docs/format/layout.md,
//! "Files that are no longer tracked"). A noted file counts as untracked as long as the base has
//! exactly this entry: a switch neither removes nor overwrites it. Scans do not know these notes.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::merge::{Edits, edit_tree};
use crate::object::name::RepoPath;
use crate::object::tree::{
    Kind, TreeEntry, TreeIter, TreeSummary, empty_tree_id, lookup_path, put_empty_tree,
};
use crate::object::{ObjectError, ObjectWrite};
use crate::refs::Change;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::untracked_key;
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::{publish, worktree};
use crate::repo::files::record::put_record;
use crate::store::{FinishedJob, MetaWriter};
use crate::worktree::join;
use crate::worktree::scan::Select;
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

/// The notes of a worktree that count for its base: the path and entry of each file.
#[derive(Debug, Default)]
pub(in crate::repo) struct UntrackNotes {
    entries: BTreeMap<Vec<u8>, TreeEntry>,
}

impl UntrackNotes {
    /// Returns whether the file at `path` is noted.
    pub fn has(&self, path: &[u8]) -> bool {
        !self.entries.is_empty() && self.entries.contains_key(path)
    }

    /// Returns the paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.entries.keys()
    }

    /// Splits the noted paths into those that a selection includes, and all others.
    pub fn split(&self, select: &dyn Select) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        self.paths()
            .cloned()
            .partition(|path| split_path(path).is_some_and(|(dir, name)| select.takes(dir, name)))
    }
}

/// Reads the notes of the worktree `name` that count for a base with this tree.
pub(in crate::repo) fn read(
    repo: &Handle,
    name: &str,
    base: Option<ObjectId>,
) -> Result<UntrackNotes, RepoError> {
    let noted = worktree::ref_id(repo, &untracked_key(name))?;
    let (Some(id), Some(base)) = (noted, base) else {
        return Ok(UntrackNotes::default());
    };
    let tree = load_commit(repo.objects(), &id)?.tree;
    let mut entries = BTreeMap::new();
    let mut dirs = vec![(Vec::new(), tree, base)];
    while let Some((dir, noted, base)) = dirs.pop() {
        let mut base = TreeIter::new(repo.objects(), base).peekable();
        for entry in TreeIter::new(repo.objects(), noted) {
            let entry = entry?;
            let Some(there) = same_name(&mut base, &entry)? else {
                continue;
            };
            let path = join(&dir, entry.name.as_bytes());
            match (entry.kind, there.kind) {
                (Kind::Directory, Kind::Directory) => dirs.push((path, entry.id, there.id)),
                (Kind::Directory, _) => {}
                _ if entry.same_content(&there) => {
                    entries.insert(path, entry);
                }
                _ => {}
            }
        }
    }
    Ok(UntrackNotes { entries })
}

/// Returns the entry with the name of `entry` from a sorted list. Removes the smaller ones.
fn same_name(
    list: &mut Peekable<impl Iterator<Item = Result<TreeEntry, ObjectError>>>,
    entry: &TreeEntry,
) -> Result<Option<TreeEntry>, ObjectError> {
    let name = entry.name.as_bytes();
    while let Some(next) = list.next_if(|next| match next {
        Ok(next) => next.name.as_bytes() <= name,
        Err(_) => true,
    }) {
        let next = next?;
        if next.name.as_bytes() == name {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// Stores the notes `entries` and returns their value in the view; `None` for no notes.
fn put(
    repo: &Handle,
    entries: &BTreeMap<Vec<u8>, TreeEntry>,
    request: &OperationRequest,
    meta: &mut MetaWriter<'_>,
) -> Result<Option<Vec<u8>>, RepoError> {
    if entries.is_empty() {
        return Ok(None);
    }
    let mut edits = Edits::new();
    for (path, entry) in entries {
        edits.insert(parsed(path)?, Some(entry.clone()));
    }
    let message = format!("No longer tracked: {}", request.command);
    let id = put_record(repo, &edits, message, request, meta)?;
    Ok(Some(id.as_bytes().to_vec()))
}

/// Returns the change of the view after a commit that has left out the other notes: only those at
/// `stay` remain. `None` if the view stays as it is.
pub(in crate::repo) fn after_commit(
    repo: &Handle,
    (name, noted): (&str, &UntrackNotes),
    stay: &[Vec<u8>],
    request: &OperationRequest,
    meta: &mut MetaWriter<'_>,
) -> Result<Option<Change>, RepoError> {
    if noted.entries.len() == stay.len() {
        return Ok(None);
    }
    let mut entries = noted.entries.clone();
    let stay: BTreeSet<&Vec<u8>> = stay.iter().collect();
    entries.retain(|path, _| stay.contains(path));
    let value = put(repo, &entries, request, meta)?;
    Ok(Some(change(&repo.refs, untracked_key(name), value)?))
}

/// How a command changes the notes.
pub(in crate::repo) enum Edit<'a> {
    /// Adds these files.
    Add(&'a BTreeMap<Vec<u8>, TreeEntry>),
    /// Removes the notes at paths for which the function returns true.
    Remove(&'a dyn Fn(&[u8]) -> bool),
}

/// Changes the notes of a worktree. Returns the change of the view, `None` if there is none, and
/// what has to be published with it. `stored` is what the command has stored so far.
pub(in crate::repo) fn edit(
    repo: &Handle,
    (name, noted): (&str, &UntrackNotes),
    edit: &Edit<'_>,
    stored: Option<FinishedJob>,
    request: &OperationRequest,
) -> Result<(Option<Change>, Option<FinishedJob>), RepoError> {
    let mut entries = noted.entries.clone();
    match edit {
        Edit::Add(more) => entries.extend(more.iter().map(|(p, e)| (p.clone(), e.clone()))),
        Edit::Remove(is_over) => entries.retain(|path, _| !is_over(path)),
    }
    if entries.len() == noted.entries.len() {
        return Ok((None, stored));
    }
    let writer = match &stored {
        Some(before) => repo.store.writer_after(before)?,
        None => repo.store.writer()?,
    };
    let mut meta = MetaWriter::new(&writer);
    let value = put(repo, &entries, request, &mut meta)?;
    meta.flush()?;
    drop(meta);
    let sealed = publish::seal(repo, writer)?;
    let stored = match stored {
        Some(before) => before.join(sealed),
        None => sealed,
    };
    let changed = change(&repo.refs, untracked_key(name), value)?;
    Ok((Some(changed), Some(stored)))
}

/// Writes the tree `root` without the files at `paths`, and without directories that it empties.
/// A directory in the place of such a file stays.
pub(in crate::repo) fn leave_out(
    repo: &Handle,
    root: ObjectId,
    paths: &[Vec<u8>],
    writer: &mut dyn ObjectWrite,
) -> Result<TreeSummary, RepoError> {
    let mut edits = Edits::new();
    let mut dirs = BTreeSet::new();
    for path in paths {
        let path = parsed(path)?;
        let there = lookup_path(repo.objects(), &root, &path)?;
        if there.is_some_and(|there| there.kind != Kind::Directory) {
            dirs.extend(path.parent());
            edits.insert(path, None);
        }
    }
    // Only trees that can be read tell which directories have become empty.
    put_empty_tree(&mut &repo.made)?;
    let mut made = edit_tree(repo.objects(), &mut &repo.made, root, &edits)?;
    loop {
        let mut above = BTreeSet::new();
        let mut emptied = Vec::new();
        for dir in dirs.into_iter().filter(|dir| !dir.is_root()) {
            let there = lookup_path(repo.objects(), &made.id, &dir)?;
            if there.is_some_and(|there| there.id == empty_tree_id()) {
                above.extend(dir.parent());
                emptied.push(dir);
            }
        }
        if emptied.is_empty() {
            return Ok(edit_tree(repo.objects(), writer, root, &edits)?);
        }
        for dir in emptied {
            edits.retain(|path, _| !path.starts_with(&dir));
            edits.insert(dir, None);
        }
        made = edit_tree(repo.objects(), &mut &repo.made, root, &edits)?;
        dirs = above;
    }
}

fn parsed(path: &[u8]) -> Result<RepoPath, RepoError> {
    crate::repo::base::path::parse_path(path)
}

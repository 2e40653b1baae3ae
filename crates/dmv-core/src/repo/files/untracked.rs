//! Files that the next commit leaves out although they may stay on disk: what `rm --cached` notes.
//!
//! The worktree's notes have the entries of these files (docs/format/notes.md). A noted file counts as
//! untracked as long as the base has exactly this entry: a switch neither removes nor overwrites it.
//! Scans do not know these notes.

use crate::hash::ObjectId;
use crate::merge::{Edits, edit_tree};
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, empty_tree_id, lookup_path, put_empty_tree};
use crate::repo::base::error::RepoError;
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::repo::Repo;
use crate::worktree::base::dir_tree;
use crate::worktree::scan::Select;
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

/// The notes of a worktree that count for its base: the path and entry of each file.
#[derive(Debug, Default)]
pub struct UntrackNotes {
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

    /// Returns the noted paths that a selection includes.
    pub fn selected(&self, select: &dyn Select) -> Vec<Vec<u8>> {
        let is_in =
            |path: &&Vec<u8>| split_path(path).is_some_and(|(dir, name)| select.takes(dir, name));
        self.paths().filter(is_in).cloned().collect()
    }
}

/// Returns the notes that count for a base with this tree.
pub fn counting(
    repo: &Repo,
    notes: &PathNotes,
    base: Option<ObjectId>,
) -> Result<UntrackNotes, RepoError> {
    let Some(base) = base else {
        return Ok(UntrackNotes::default());
    };
    let mut dirs: BTreeMap<RepoPath, BTreeMap<&RepoPath, &TreeEntry>> = BTreeMap::new();
    for (path, note) in notes.iter() {
        if let Note::Untracked(entry) = note {
            let dir = dirs.entry(path.parent().unwrap_or_default()).or_default();
            dir.insert(path, entry);
        }
    }
    let mut entries = BTreeMap::new();
    for (dir, noted) in dirs {
        let Some(tree) = dir_tree(repo.objects(), &base, dir.as_bytes())? else {
            continue;
        };
        let mut base = TreeIter::new(repo.objects(), tree).peekable();
        for (path, entry) in noted {
            let there = same_name(&mut base, entry)?;
            if there.is_some_and(|there| there.same_content(entry)) {
                entries.insert(path.as_bytes().to_vec(), entry.clone());
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

/// Adds notes of these files.
pub fn note_in(notes: &mut PathNotes, files: &BTreeMap<Vec<u8>, TreeEntry>) {
    let files = files.iter().map(|(path, entry)| {
        let path = RepoPath::from_checked(path.clone());
        (path, Note::Untracked(entry.clone()))
    });
    notes.extend(files);
}

/// Removes the notes at paths for which `is_over` returns true.
pub fn forget_in(notes: &mut PathNotes, is_over: impl Fn(&[u8]) -> bool) {
    notes.retain(|path, note| !matches!(note, Note::Untracked(_)) || !is_over(path.as_bytes()));
}

/// Adds the edits of the tree `root` that remove the files at `paths`, and the directories that it leaves
/// empty. A directory in the place of such a file stays. No edit may be above a path.
pub fn leave_out(
    repo: &Repo,
    root: ObjectId,
    paths: &[RepoPath],
    edits: &mut Edits,
) -> Result<(), RepoError> {
    // Only trees that can be read tell what is there after the edits.
    put_empty_tree(&mut &repo.made)?;
    let edited = |edits: &Edits| edit_tree(repo.objects(), &mut &repo.made, root, edits);
    let (mut made, mut dirs) = (edited(edits)?, BTreeSet::new());
    for path in paths {
        let there = lookup_path(repo.objects(), &made.id, path)?;
        if there.is_some_and(|there| there.kind != Kind::Directory) {
            dirs.extend(path.parent());
            edits.insert(path.clone(), None);
        }
    }
    loop {
        made = edited(edits)?;
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
            return Ok(());
        }
        for dir in emptied {
            edits.retain(|path, _| !path.starts_with(&dir));
            edits.insert(dir, None);
        }
        dirs = above;
    }
}

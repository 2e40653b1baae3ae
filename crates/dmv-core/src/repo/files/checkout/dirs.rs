//! Directories that a switch makes, removes or passes through. Small helpers for the other files of
//! `checkout`.

use crate::fsutil::FileKind;
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::repo::base::error::RepoError;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::worktree::{join, split_path};
use std::collections::BTreeSet;

/// Adds the directory at `path`, if it exists, and all directories below it.
pub fn add_dirs(
    tree: &OpenWorktree,
    path: Vec<u8>,
    out: &mut BTreeSet<Vec<u8>>,
) -> Result<(), RepoError> {
    let mut dirs = vec![path];
    while let Some(dir) = dirs.pop() {
        let Ok(opened) = tree.root.open_dir(&dir) else {
            continue;
        };
        for (name, kind) in opened.list(MAX_DIR_ENTRIES)?.iter() {
            if kind == FileKind::Dir {
                dirs.push(join(&dir, name));
            }
        }
        out.insert(dir);
    }
    Ok(())
}

/// Adds the directories above `path`, without the root.
pub fn add_above(path: &[u8], out: &mut BTreeSet<Vec<u8>>) {
    let mut path = path;
    while let Some((dir, _)) = split_path(path) {
        if dir.is_empty() || !out.insert(dir.to_vec()) {
            return;
        }
        path = dir;
    }
}

/// Returns whether an entry is a directory.
pub fn is_dir(entry: &TreeEntry) -> bool {
    entry.kind == Kind::Directory
}

/// Returns whether an entry is an empty directory.
pub fn is_empty_dir(entry: &TreeEntry) -> bool {
    is_dir(entry) && entry.id == empty_tree_id()
}

/// Returns whether an entry is all that is at its path: what is in a directory has paths of its own.
pub fn is_whole(entry: &TreeEntry) -> bool {
    !is_dir(entry) || is_empty_dir(entry)
}

pub fn sorted(dirs: BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = dirs.into_iter().collect();
    out.sort_by(|a, b| crate::worktree::compare_dirs(a, b));
    out
}

/// Orders paths so that the files of one directory are together.
pub fn by_dir(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let key = |path: &[u8]| split_path(path).map(|(d, n)| (d.to_vec(), n.to_vec()));
    key(a).cmp(&key(b))
}

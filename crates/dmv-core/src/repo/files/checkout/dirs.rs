//! Directories that a switch makes, removes or passes through. Small helpers for the other files of
//! `checkout`.

use crate::fsutil::{FileKind, FileStat, SafeDir};
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::path::PathError;
use crate::repo::base::error::RepoError;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::worktree::{join, split_path};
use std::collections::BTreeSet;

/// The most directories that are remembered as missing. A forgotten one is examined again.
const MAX_ABSENT_DIRS: usize = 16 << 10;

/// What is known of directories while many paths are looked at.
#[derive(Default)]
pub struct KnownDirs {
    /// Some that do not exist.
    absent: BTreeSet<Vec<u8>>,
    /// The last one, so that it is not opened again for each of its entries.
    open: Option<(Vec<u8>, SafeDir)>,
}

impl KnownDirs {
    /// Returns the stat of the entry at `path` below `root`.
    pub fn stat(&mut self, root: &SafeDir, path: &[u8]) -> Result<Option<FileStat>, PathError> {
        let Some((dir, name)) = split_path(path) else {
            return Ok(None);
        };
        match &self.open {
            Some((at, open)) if at == dir => return open.stat_opt(name),
            _ => self.open = None,
        }
        let mut end = Some(dir.len());
        while let Some(at) = end {
            if self.absent.contains(&dir[..at]) {
                return Ok(None);
            }
            end = dir[..at].iter().rposition(|b| *b == b'/');
        }
        match root.open_dir(dir) {
            Ok(opened) => {
                let (_, open) = self.open.insert((dir.to_vec(), opened));
                open.stat_opt(name)
            }
            Err(e) if !e.is_absent() => Err(e),
            Err(_) => {
                if self.absent.len() >= MAX_ABSENT_DIRS {
                    self.absent.clear();
                }
                self.absent.insert(dir.to_vec());
                Ok(None)
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_in_whichever_order_their_directories_come()
    -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir_all(temp.path().join("a/b"))?;
        for file in ["f", "a/f", "a/b/f"] {
            std::fs::write(temp.path().join(file), file)?;
        }
        let (root, mut dirs) = (SafeDir::open_root(temp.path())?, KnownDirs::default());
        for (path, bytes) in [
            ("a/f", Some(3)),
            ("a/b/f", Some(5)),
            ("f", Some(1)),
            ("no/f", None),
            ("a/no", None),
            ("no/deep/f", None),
            ("a/b/f", Some(5)),
            ("f", Some(1)),
        ] {
            let stat = dirs.stat(&root, path.as_bytes())?;
            assert_eq!(stat.map(|stat| stat.size), bytes, "{path}");
        }
        assert!(
            dirs.stat(&root, b"f/below")
                .is_ok_and(|stat| stat.is_none())
        );
        Ok(())
    }
}

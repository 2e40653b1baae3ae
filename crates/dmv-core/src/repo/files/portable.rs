//! Names that some systems take for one, where a user asks for portable names: what a move or a
//! merge would put beside each other.

use crate::diff::diff_trees;
use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::ObjectError;
use crate::object::name::{FoldedNames, RepoPath};
use crate::object::tree::{TreeEntry, TreeIter};
use crate::repo::base::error::{PathRefusal, RepoError};
use crate::repo::base::handle::Handle;
use crate::repo::files::named::refused;
use crate::worktree::base::{dir_tree, entry_at};
use crate::worktree::{join, split_path};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Fails if a name that some systems take for that of `to` is beside it on disk. `from` does not
/// count: it goes.
pub(in crate::repo) fn check_move(
    root: &SafeDir,
    from: &RepoPath,
    to: &RepoPath,
) -> Result<(), RepoError> {
    let Some((dir, name)) = split_path(to.as_bytes()) else {
        return Ok(());
    };
    let listing = root.open_dir(dir)?.list(MAX_DIR_ENTRIES)?;
    let mut names = FoldedNames::default();
    let _ = names.add(name);
    for number in 0..listing.len() {
        let other = listing.name(number);
        if join(dir, other) != from.as_bytes() && names.add(other).is_err() {
            return Err(refused(to, PathRefusal::Collides));
        }
    }
    Ok(())
}

/// Fails if a tree has two names in a directory that some systems take for one, and none of the
/// trees `before` has both.
pub(in crate::repo) fn check_tree(
    repo: &Handle,
    before: &[ObjectId],
    tree: ObjectId,
) -> Result<(), RepoError> {
    let objects = repo.objects();
    let mut dirs = BTreeSet::new();
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, _: Option<&TreeEntry>| {
        if old.is_none() {
            let bytes = path.as_bytes();
            let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'/');
            dirs.extend(ends.map(|(end, _)| bytes[..end].to_vec()));
            dirs.insert(Vec::new());
        }
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`, because `note` accepts everything.
    let _ = diff_trees(objects, before.first().copied(), Some(tree), &mut note)?;
    for dir in dirs {
        let Some(entries) = dir_tree(objects, &tree, &dir)? else {
            continue;
        };
        let mut names = FoldedNames::default();
        for entry in TreeIter::new(objects, entries) {
            let entry = entry?;
            let name = entry.name.as_bytes();
            let Some(other) = names.other(name) else {
                continue;
            };
            let has = |tree: &ObjectId, name: &[u8]| entry_at(objects, tree, &join(&dir, name));
            let mut is_old = false;
            for tree in before {
                is_old |= has(tree, name)?.is_some() && has(tree, &other)?.is_some();
            }
            if !is_old {
                let path = RepoPath::from_checked(join(&dir, name));
                return Err(refused(&path, PathRefusal::Collides));
            }
        }
    }
    Ok(())
}

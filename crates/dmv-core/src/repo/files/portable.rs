//! Names that some systems refuse or take for one, where a user asks for portable names: what a move, or
//! a commit that a command makes of other commits, would bring.

use crate::diff::diff_trees;
use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::name::{FoldedNames, RepoPath, portability};
use crate::object::tree::{TreeEntry, TreeIter};
use crate::object::{ObjectError, ObjectRead};
use crate::repo::base::error::{PathRefusal, RepoError};
use crate::repo::files::named::refused;
use crate::worktree::base::{dir_tree, entry_at};
use crate::worktree::{join, split_path};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Fails if a name that some systems take for that of `to` is beside it on disk. `from` does not
/// count: it goes.
pub fn check_move(root: &SafeDir, from: &RepoPath, to: &RepoPath) -> Result<(), RepoError> {
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

/// Fails if a tree has a name that some systems refuse, or two names in a directory that some systems take
/// for one, and none of the trees `before` has it, or both.
///
/// So the names of a new commit are checked against its parents: whoever makes the commit brings the names
/// that none of them has.
pub fn check_tree(
    objects: &dyn ObjectRead,
    before: &[ObjectId],
    tree: ObjectId,
) -> Result<(), RepoError> {
    let (mut dirs, mut new) = (BTreeSet::new(), BTreeSet::new());
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, _: Option<&TreeEntry>| {
        if old.is_none() {
            let bytes = path.as_bytes();
            let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'/');
            dirs.extend(ends.map(|(end, _)| bytes[..end].to_vec()));
            dirs.insert(Vec::new());
            new.insert(bytes.to_vec());
        }
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`, because `note` accepts everything.
    let _ = diff_trees(objects, before.first().copied(), Some(tree), &mut note)?;
    new.extend(dirs.iter().cloned());
    let is_in = |tree: &ObjectId, path: &[u8]| {
        Ok::<_, ObjectError>(entry_at(objects, tree, path)?.is_some())
    };
    for path in new {
        let name = split_path(&path).map_or(&b""[..], |(_, name)| name);
        let Err(why) = portability(name) else {
            continue;
        };
        let mut is_old = name.is_empty();
        for tree in before {
            is_old = is_old || is_in(tree, &path)?;
        }
        if !is_old {
            let path = RepoPath::from_checked(path);
            return Err(refused(&path, PathRefusal::NotPortable(why)));
        }
    }
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
            let mut is_old = false;
            for tree in before {
                is_old |= is_in(tree, &join(&dir, name))? && is_in(tree, &join(&dir, &other))?;
            }
            if !is_old {
                let path = RepoPath::from_checked(join(&dir, name));
                return Err(refused(&path, PathRefusal::Collides));
            }
        }
    }
    Ok(())
}

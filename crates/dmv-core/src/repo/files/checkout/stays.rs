//! Paths that a switch leaves alone although the base and the target differ there: the user's
//! uncommitted state is what the target has, or something that the target has no entry for.
//!
//! For the switch there is nothing to do. But an undo that only knew the base and the target would
//! take the user's state away. So the operation notes these paths (docs/format/layout.md, "Paths
//! that a switch left alone"), and its undo leaves them alone, too.

use crate::fsutil::{FileKind, FileStat};
use crate::history::load_commit;
use crate::merge::Edits;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::object::{ObjectType, ObjectWrite};
use crate::refs::Change;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::stays_key;
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::{publish, worktree};
use crate::repo::conflict::names::last_name;
use crate::repo::files::checkout::dirs::{add_above, is_dir};
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::record::{files_in, put_record};
use crate::repo::files::saved::{Return, empty_above};
use crate::repo::look::content;
use crate::store::MetaWriter;
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet};

/// The target of the symlink that notes what the user has at a path.
const THERE: &[u8] = b".";
/// The beginning of the target if the user has removed the path.
const GONE: &[u8] = b"./";

/// The user's state at a path that a switch leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repo) enum Stays {
    /// A file or symlink. So there is nothing below it.
    There,
    /// A directory.
    Directory,
    /// Nothing. The directory above it that its removal has emptied, if there is one.
    Gone(Option<Vec<u8>>),
}

/// Paths that a switch leaves alone.
pub(in crate::repo) type LeftAlone = BTreeMap<Vec<u8>, Stays>;

impl Switch<'_> {
    /// Returns whether the switch leaves the user's state at a path alone, where the base has `old`
    /// and the target has `new`. The path may not be overwritten on request.
    pub(in crate::repo) fn is_left_alone(
        &self,
        path: &[u8],
        (old, new): (Option<&TreeEntry>, Option<&TreeEntry>),
        stat: Option<&FileStat>,
    ) -> bool {
        // What a switch has written that was cut off is not the user's.
        if self.brings.is_some() || self.left.contains_key(path) {
            return false;
        }
        let is_dirty = self.dirty.contains_key(path);
        let on_disk = |stat: &FileStat| stat.kind == FileKind::Dir;
        match (old, new, stat) {
            // The target's file is there. Part of a file is what a killed checkout leaves.
            (_, Some(new), Some(stat)) if !is_dir(new) => {
                let is_user = is_dirty || old.is_none();
                is_user && !on_disk(stat) && stat.size == new.size
            }
            // The user has made the empty directory already. No scan lists it without a commit, outside
            // the subset, or if it is ignored.
            (old, Some(new), Some(stat)) => {
                let is_unlisted = old.is_none() && self.unfinished.is_none();
                (is_dirty || is_unlisted) && is_empty(new) && on_disk(stat)
            }
            // The user has removed it already.
            (Some(old), None, None) => is_dirty && (!is_dir(old) || is_empty(old)),
            // Something of the user is in its place.
            (Some(old), None, Some(stat)) => is_dirty && is_dir(old) != on_disk(stat),
            _ => false,
        }
    }

    /// Returns whether a file of the user has the name of a version beside a conflict of the base.
    /// No commit has it, so a switch to a target without this name leaves it alone.
    pub(in crate::repo) fn is_own_side(&self, path: &[u8]) -> bool {
        let mut forms = self.tree.form.iter();
        self.dirty.contains_key(path) && !self.is_brought(path) && forms.any(|f| f.is_side(path))
    }

    /// Returns the user's empty directory in which a switch puts the new entry `path`. An undo takes
    /// the entry away and leaves the directory. `looked` has the directories that were looked at.
    pub(in crate::repo) fn empty_dir_above(
        &self,
        path: &[u8],
        looked: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, RepoError> {
        if self.brings.is_some() {
            return Ok(None);
        }
        let is_listed = self.tree.base.is_some() && self.tree.subset.is_everything();
        // What a switch has made that was cut off is not the user's.
        if !is_listed && self.unfinished.is_none() {
            // A scan lists no directories without a commit, and none outside the subset.
            let dir = empty_above(self.tree, path, looked)?;
            return Ok(dir.map(|dir| dir.as_bytes().to_vec()));
        }
        let mut ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        // A scan names a new directory only if it is empty.
        let is_new = |end: &usize| self.dirty.get(&path[..*end]) == Some(&ChangeKind::Added);
        let Some(end) = ends.by_ref().map(|(end, _)| end).find(is_new) else {
            return Ok(None);
        };
        let stat = self.stat(&path[..end], &mut BTreeSet::new())?;
        let is_there = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
        Ok(is_there.then(|| path[..end].to_vec()))
    }

    /// Returns the directory above `path` that the user has emptied by removing `path`. The switch may
    /// remove it, so its undo has to make it. `looked` has the directories that were looked at.
    pub(in crate::repo) fn emptied_above(
        &self,
        path: &[u8],
        looked: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, RepoError> {
        if self.brings.is_some() || self.tree.base.is_none() || !self.dirty.contains_key(path) {
            return Ok(None);
        }
        let dir = empty_above(self.tree, path, looked)?;
        Ok(dir.map(|dir| dir.as_bytes().to_vec()))
    }

    /// Returns whether an undo leaves what is at this path alone. Nothing was there if not, but the
    /// path may be one that gets nothing ([`stays`](Self::stays)).
    pub(in crate::repo) fn stays_there(&self, path: &[u8]) -> bool {
        let is_gone = |brings: &Return| brings.gone.contains(path);
        self.stays(path) && !self.brings.is_some_and(is_gone)
    }

    /// Notes the directories above `path`, which an undo or a redo removes. A directory that was
    /// empty before stays, whether a commit has it or the user made it. With `all_known`, the steps of
    /// the undo have each directory that was empty. Otherwise those of the target may have been, too.
    pub(in crate::repo) fn note_emptied(
        &self,
        path: &[u8],
        all_known: bool,
        gone: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        let mut path = path;
        while let Some((dir, _)) = split_path(path) {
            let step = self.brings.and_then(|brings| brings.step(dir));
            let comes = step.is_some_and(|step| step.to.as_ref().is_some_and(is_dir));
            if dir.is_empty() || gone.contains(dir) || comes || self.stays_there(dir) {
                return Ok(());
            }
            let is_kept = !all_known && !self.stays(dir);
            if is_kept && self.target_entry(dir)?.is_some_and(|e| is_empty(&e)) {
                return Ok(());
            }
            gone.insert(dir.to_vec());
            path = dir;
        }
        Ok(())
    }

    /// Returns whether an undo leaves this path alone, or a file of the user above it.
    pub(in crate::repo) fn stays(&self, path: &[u8]) -> bool {
        let Some(brings) = self.brings.filter(|brings| !brings.stays.is_empty()) else {
            return false;
        };
        let mut above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let is_file = |end: usize| {
            let dir = &path[..end];
            let stat = || self.stat(dir, &mut BTreeSet::new());
            brings.stays.contains(dir)
                && !brings.gone.contains(dir)
                && matches!(stat(), Ok(Some(stat)) if stat.kind != FileKind::Dir)
        };
        brings.stays.contains(path) || above.any(|(end, _)| is_file(end))
    }
}

fn is_empty(entry: &TreeEntry) -> bool {
    is_dir(entry) && entry.id == empty_tree_id()
}

/// Stores the paths that a switch leaves alone, and returns the change of the view that names them.
/// `None` if there are none.
pub(in crate::repo) fn note(
    repo: &Handle,
    name: &str,
    paths: &LeftAlone,
    request: &OperationRequest,
) -> Result<Option<Change>, RepoError> {
    let writer = repo.store.writer()?;
    let mut meta = MetaWriter::new(&writer);
    let mut edits = Edits::new();
    for (path, state) in paths {
        if is_implied(paths, path, state) {
            continue;
        }
        // No commit can have another path, so no base or target has it.
        let Ok(at) = RepoPath::parse(path) else {
            continue;
        };
        let target = match state {
            Stays::There | Stays::Directory => THERE.to_vec(),
            Stays::Gone(None) => GONE.to_vec(),
            Stays::Gone(Some(dir)) => way_to(path, dir),
        };
        let entry = TreeEntry {
            name: last_name(&at),
            kind: Kind::Symlink,
            is_list: false,
            id: meta.put(ObjectType::Chunk, &target)?,
            size: target.len() as u64,
            files: 0,
            attrs: None,
        };
        edits.insert(at, Some(entry));
    }
    if edits.is_empty() {
        return Ok(None);
    }
    let message = format!("Left alone by: {}", request.command);
    let id = put_record(repo, &edits, message, request, &mut meta)?;
    meta.flush()?;
    drop(meta);
    // The operation that names the commit may come with objects of its own.
    publish::keep(repo, publish::seal(repo, writer)?)?;
    let value = Some(id.as_bytes().to_vec());
    Ok(Some(change(&repo.refs, stays_key(name), value)?))
}

/// Returns whether another path says the same: a file above it, or what is in it. A tree cannot have
/// an entry at both.
fn is_implied(paths: &LeftAlone, path: &[u8], state: &Stays) -> bool {
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
    let mut above = ends.filter_map(|(end, _)| paths.get(&path[..end]));
    let prefix = [path, b"/"].concat();
    let mut below = paths.range(prefix.clone()..);
    let below = below
        .next()
        .is_some_and(|(path, _)| path.starts_with(&prefix));
    above.any(|state| *state == Stays::There) || below && *state == Stays::Directory
}

/// Returns the symlink target that leads from `path` to a directory above it.
fn way_to(path: &[u8], dir: &[u8]) -> Vec<u8> {
    let depth = |path: &[u8]| path.iter().filter(|b| **b == b'/').count();
    // Between the directory that holds the path and `dir`.
    let ups = depth(path).saturating_sub(depth(dir) + 1);
    let way = match ups {
        0 => ".".to_owned(),
        _ => vec![".."; ups].join("/"),
    };
    [GONE, way.as_bytes()].concat()
}

/// Returns the directory to which such a target leads. `None` if it leads nowhere.
fn led_to<'p>(path: &'p [u8], target: &[u8]) -> Option<&'p [u8]> {
    let mut dir = split_path(path)?.0;
    for step in target.strip_prefix(GONE)?.split(|b| *b == b'/') {
        match step {
            b"." => {}
            b".." => dir = split_path(dir)?.0,
            _ => return None,
        }
    }
    (!dir.is_empty()).then_some(dir)
}

/// Adds the paths that the undone operation left alone to those that its undo leaves alone. `changes`
/// are those of the undo.
pub(in crate::repo) fn add_noted(
    repo: &Handle,
    name: &str,
    changes: &[Change],
    brings: &mut Return,
) -> Result<(), RepoError> {
    let key = stays_key(name);
    let change = changes.iter().find(|change| change.key == key);
    let Some(value) = change.and_then(|change| change.old.as_deref()) else {
        return Ok(());
    };
    let id = worktree::id_value(repo, &key, value)?;
    let tree = load_commit(repo.objects(), &id)?.tree;
    for (path, entry) in files_in(repo, tree)? {
        if entry.size > THERE.len() as u64 {
            let target = content::link_target(repo, &entry)?;
            let dir = led_to(path.as_bytes(), &target);
            brings.emptied.extend(dir.map(<[u8]>::to_vec));
            brings.gone.insert(path.as_bytes().to_vec());
        } else {
            add_above(path.as_bytes(), &mut brings.stays);
        }
        brings.stays.insert(path.as_bytes().to_vec());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_path_leads_to_the_directory_that_was_emptied() {
        for (path, dir, way) in [
            ("d/x", "d", "./."),
            ("d/e/z", "d/e", "./."),
            ("d/e/z", "d", "./.."),
            ("a/b/c/d", "a", "./../.."),
        ] {
            let (path, dir) = (path.as_bytes(), dir.as_bytes());
            assert_eq!(way_to(path, dir), way.as_bytes());
            assert_eq!(led_to(path, way.as_bytes()), Some(dir));
        }
        for bad in [&b"."[..], b"./", b"./..", b"./x", b"", b"/"] {
            assert_eq!(led_to(b"d/x", bad), None, "{}", bad.escape_ascii());
        }
    }
}

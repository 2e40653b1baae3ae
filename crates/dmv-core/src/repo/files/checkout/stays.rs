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
use crate::repo::base::publish::{Asked, change};
use crate::repo::base::{publish, worktree};
use crate::repo::conflict::names::last_name;
use crate::repo::files::checkout::dirs::is_dir;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::record::{files_in, put_record};
use crate::store::MetaWriter;
use crate::worktree::split_path;
use std::collections::BTreeSet;

impl Switch<'_> {
    /// Returns whether the switch leaves the user's state at a path alone, where the base has `old`
    /// and the target has `new`. The path may not be overwritten on request.
    pub(in crate::repo) fn is_left_alone(
        &self,
        path: &[u8],
        (old, new): (Option<&TreeEntry>, Option<&TreeEntry>),
        stat: Option<&FileStat>,
    ) -> bool {
        // What a switch has written that was cut off is not the user's, nor is what a clone has
        // written that was cut off.
        if self.brings.is_some() || self.left.contains_key(path) || self.tree.base.is_none() {
            return false;
        }
        let is_dirty = self.dirty.contains_key(path);
        let on_disk = |stat: &FileStat| stat.kind == FileKind::Dir;
        match (old, new, stat) {
            // The target's file is there. Part of a file is what a killed checkout leaves.
            (_, Some(new), Some(stat)) => {
                let is_user = is_dirty || old.is_none();
                is_user && !is_dir(new) && !on_disk(stat) && stat.size == new.size
            }
            // The user has removed it already.
            (Some(old), None, None) => is_dirty && !is_dir(old),
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
    /// the entry away and leaves the directory.
    pub(in crate::repo) fn empty_dir_above(
        &self,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>, RepoError> {
        if self.brings.is_some() || self.tree.base.is_none() || self.dirty.is_empty() {
            return Ok(None);
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

    /// Notes the directories above `path`, which an undo or a redo removes. A directory that was
    /// empty before stays, whether a commit has it or the user made it.
    pub(in crate::repo) fn note_emptied(
        &self,
        path: &[u8],
        gone: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        let mut path = path;
        while let Some((dir, _)) = split_path(path) {
            let step = self.brings.and_then(|brings| brings.step(dir));
            let comes = step.is_some_and(|step| step.to.as_ref().is_some_and(is_dir));
            if dir.is_empty() || gone.contains(dir) || comes || self.stays(dir) {
                return Ok(());
            }
            if (self.target_entry(dir)?).is_some_and(|entry| entry.id == empty_tree_id()) {
                return Ok(());
            }
            gone.insert(dir.to_vec());
            path = dir;
        }
        Ok(())
    }

    /// Returns whether an undo leaves this path alone.
    pub(in crate::repo) fn stays(&self, path: &[u8]) -> bool {
        self.brings
            .is_some_and(|brings| brings.stays.contains(path))
    }
}

/// Stores the paths that a switch leaves alone, and returns the change of the view that names them.
/// `None` if there are none.
pub(in crate::repo) fn note(
    repo: &Handle,
    name: &str,
    paths: &BTreeSet<Vec<u8>>,
    asked: &Asked,
) -> Result<Option<Change>, RepoError> {
    let writer = repo.store.writer()?;
    let mut meta = MetaWriter::new(&writer);
    let mut edits = Edits::new();
    for path in paths {
        // No commit can have another path, so no base or target has it.
        let Ok(path) = RepoPath::parse(path) else {
            continue;
        };
        let entry = TreeEntry {
            name: last_name(&path),
            kind: Kind::Symlink,
            is_list: false,
            id: meta.put(ObjectType::Chunk, b".")?,
            size: 1,
            files: 0,
            attrs: None,
        };
        edits.insert(path, Some(entry));
    }
    if edits.is_empty() {
        return Ok(None);
    }
    let message = format!("Left alone by: {}", asked.command);
    let id = put_record(repo, &edits, message, asked, &mut meta)?;
    meta.flush()?;
    drop(meta);
    // The operation that names the commit may come with objects of its own.
    publish::keep(repo, publish::seal(repo, writer)?)?;
    let value = Some(id.as_bytes().to_vec());
    Ok(Some(change(&repo.refs, stays_key(name), value)?))
}

/// Returns the paths that the undone operation left alone. `changes` are those of the undo.
pub(in crate::repo) fn noted(
    repo: &Handle,
    name: &str,
    changes: &[Change],
) -> Result<BTreeSet<Vec<u8>>, RepoError> {
    let key = stays_key(name);
    let change = changes.iter().find(|change| change.key == key);
    let Some(value) = change.and_then(|change| change.old.as_deref()) else {
        return Ok(BTreeSet::new());
    };
    let id = worktree::id_value(repo, &key, value)?;
    let tree = load_commit(repo.objects(), &id)?.tree;
    let files = files_in(repo, tree)?.into_iter();
    Ok(files.map(|(path, _)| path.as_bytes().to_vec()).collect())
}

//! Paths that a switch leaves alone although the base and the target differ there: the user's
//! uncommitted state is what the target has, or something that the target has no entry for.
//!
//! For the switch there is nothing to do. But an undo that only knew the base and the target would
//! take the user's state away. So the steps of the operation have these paths (docs/format/notes.md,
//! "Paths that a switch left alone"), and its undo leaves them alone, too.

use crate::fsutil::{FileKind, FileStat};
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::steps::{Step, Steps};
use crate::repo::files::checkout::dirs::{add_above, is_dir, is_empty_dir, is_whole};
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::saved::{Return, empty_above};
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet};

/// The user's state at a path that a switch leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stays {
    /// A file or symlink. So there is nothing below it.
    There,
    /// A directory.
    Directory,
    /// Nothing. The directory above it that its removal has emptied, if there is one.
    Gone(Option<Vec<u8>>),
}

/// Paths that a switch leaves alone.
pub type LeftAlone = BTreeMap<Vec<u8>, Stays>;

impl Switch<'_> {
    /// Returns whether the switch leaves the user's state at a path alone, where the base has `old`
    /// and the target has `new`. The path may not be overwritten on request.
    pub fn is_left_alone(
        &self,
        path: &[u8],
        (old, new): (Option<&TreeEntry>, Option<&TreeEntry>),
        stat: Option<&FileStat>,
    ) -> bool {
        // What a switch has written that was cut off is not the user's.
        if self.request.brings.is_some() || self.known.left.contains_key(path) {
            return false;
        }
        let is_dirty = self.known.dirty.contains_key(path);
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
                let is_listed =
                    |old: &TreeEntry| is_whole(old) || self.request.tree.subset.is_everything();
                let is_unlisted = !old.is_some_and(is_listed) && self.known.unfinished.is_none();
                (is_dirty || is_unlisted) && is_empty_dir(new) && on_disk(stat)
            }
            // The user has removed it already. No scan lists an empty directory of which the subset leaves
            // something out.
            (Some(old), None, None) if is_empty_dir(old) => {
                is_dirty || self.known.unfinished.is_none()
            }
            (Some(old), None, None) => is_dirty && !is_dir(old),
            // Something of the user is in its place.
            (Some(old), None, Some(stat)) => is_dirty && is_dir(old) != on_disk(stat),
            _ => false,
        }
    }

    /// Returns whether a file of the user has the name of a version beside a conflict of the base.
    /// No commit has it, so a switch to a target without this name leaves it alone.
    pub fn is_own_side(&self, path: &[u8]) -> bool {
        let mut forms = self.request.tree.form.iter();
        self.known.dirty.contains_key(path)
            && !self.is_brought(path)
            && forms.any(|f| f.is_side(path))
    }

    /// Returns the user's empty directory in which a switch puts the new entry `path`. An undo takes
    /// the entry away and leaves the directory. `looked` has the directories that were looked at.
    pub fn empty_dir_above(
        &self,
        path: &[u8],
        looked: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, RepoError> {
        if self.request.brings.is_some() {
            return Ok(None);
        }
        let is_listed =
            self.request.tree.base.is_some() && self.request.tree.subset.is_everything();
        // What a switch has made that was cut off is not the user's.
        if !is_listed && self.known.unfinished.is_none() {
            // A scan lists no directories without a commit, and none outside the subset.
            let dir = empty_above(self.request.tree, path, looked)?;
            return Ok(dir.map(|dir| dir.as_bytes().to_vec()));
        }
        let mut ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        // A scan names a new directory only if it is empty.
        let is_new = |end: &usize| self.known.dirty.get(&path[..*end]) == Some(&ChangeKind::Added);
        let Some(end) = ends.by_ref().map(|(end, _)| end).find(is_new) else {
            return Ok(None);
        };
        let stat = self.stat(&path[..end])?;
        let is_there = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
        Ok(is_there.then(|| path[..end].to_vec()))
    }

    /// Adds the directories of the base above the new entry `path` that the user has removed with all that was
    /// in them. The switch makes them, so its undo removes them. `looked` has the directories that were looked
    /// at.
    pub fn add_removed_above(
        &self,
        path: &[u8],
        looked: &mut BTreeSet<Vec<u8>>,
        out: &mut LeftAlone,
    ) -> Result<(), RepoError> {
        if self.request.brings.is_some() {
            return Ok(());
        }
        let mut path = path;
        while let Some((dir, _)) = split_path(path).filter(|(dir, _)| !dir.is_empty()) {
            path = dir;
            let is_listed = self.request.tree.subset.is_everything();
            let is_deleted = self.begins_deleted(dir);
            if out.contains_key(dir) || is_listed && !is_deleted {
                continue;
            }
            if self.stat(dir)?.is_some() {
                break;
            }
            // No scan lists an empty directory of which the subset leaves out something.
            let entry = self.base_entry(dir)?;
            if !entry.is_some_and(|entry| is_empty_dir(&entry) || is_deleted && is_dir(&entry)) {
                continue;
            }
            let emptied = empty_above(self.request.tree, dir, looked)?;
            let emptied = emptied.map(|dir| dir.as_bytes().to_vec());
            out.insert(dir.to_vec(), Stays::Gone(emptied));
        }
        Ok(())
    }

    /// Returns whether the first change at or in a directory is a deletion: if the user has removed the
    /// directory, all are.
    fn begins_deleted(&self, dir: &[u8]) -> bool {
        let prefix = [dir, b"/"].concat();
        let mut below = self.known.dirty.range(prefix.clone()..);
        let first = below.next().filter(|(path, _)| path.starts_with(&prefix));
        let first = first.map(|(_, kind)| kind).or(self.known.dirty.get(dir));
        first == Some(&ChangeKind::Deleted)
    }

    /// Returns the directory above `path` that the user has emptied by removing `path`. The switch may
    /// remove it, so its undo has to make it. `looked` has the directories that were looked at.
    pub fn emptied_above(
        &self,
        path: &[u8],
        looked: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, RepoError> {
        if self.request.brings.is_some()
            || self.request.tree.base.is_none()
            || !self.known.dirty.contains_key(path)
        {
            return Ok(None);
        }
        let dir = empty_above(self.request.tree, path, looked)?;
        Ok(dir.map(|dir| dir.as_bytes().to_vec()))
    }

    /// Returns whether an undo leaves what is at this path alone. Nothing was there if not, but the
    /// path may be one that gets nothing ([`stays`](Self::stays)).
    pub fn stays_there(&self, path: &[u8]) -> bool {
        let is_gone = |brings: &Return| brings.gone.contains(path);
        self.stays(path) && !self.request.brings.is_some_and(is_gone)
    }

    /// Notes the directories above `path`, which an undo or a redo removes. A directory that was
    /// empty before stays, whether a commit has it or the user made it. With `all_known`, the steps of
    /// the undo have each directory that was empty. Otherwise those of the target may have been, too.
    pub fn note_emptied(
        &self,
        path: &[u8],
        all_known: bool,
        gone: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        let mut path = path;
        while let Some((dir, _)) = split_path(path) {
            let step = self.request.brings.and_then(|brings| brings.step(dir));
            let comes = step.is_some_and(|step| step.to.as_ref().is_some_and(is_dir));
            if dir.is_empty() || gone.contains(dir) || comes || self.stays_there(dir) {
                return Ok(());
            }
            let is_conflict = |brings: &Return| brings.is_in_conflict(dir);
            let gave_way = self.stays(dir) || self.request.brings.is_some_and(is_conflict);
            let is_kept = !all_known && !gave_way;
            if is_kept && self.target_entry(dir)?.is_some_and(|e| is_empty_dir(&e)) {
                return Ok(());
            }
            gone.insert(dir.to_vec());
            path = dir;
        }
        Ok(())
    }

    /// Returns whether an undo leaves this path alone, or a file of the user above it.
    pub fn stays(&self, path: &[u8]) -> bool {
        let Some(brings) = self
            .request
            .brings
            .filter(|brings| !brings.stays.is_empty())
        else {
            return false;
        };
        let mut above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let is_file = |end: usize| {
            let dir = &path[..end];
            let stat = || self.stat(dir);
            brings.stays.contains(dir)
                && !brings.gone.contains(dir)
                && matches!(stat(), Ok(Some(stat)) if stat.kind != FileKind::Dir)
        };
        brings.stays.contains(path) || above.any(|(end, _)| is_file(end))
    }
}

/// Returns the steps that say which paths a switch leaves alone.
pub fn steps_of(paths: &LeftAlone) -> Steps {
    let noted = paths.iter();
    let noted = noted.filter(|(path, state)| !is_implied(paths, path, state));
    let steps = noted.filter_map(|(path, state)| {
        // No commit can have another path, so no base or target has it.
        let at = RepoPath::parse(path).ok()?;
        let step = match state {
            Stays::There | Stays::Directory => Step::LeftAlone,
            Stays::Gone(emptied) => {
                let emptied = emptied.as_deref().and_then(|dir| RepoPath::parse(dir).ok());
                Step::LeftGone(emptied)
            }
        };
        Some((at, step))
    });
    steps.collect()
}

/// Returns whether another path says the same: a file above it, or what is in it.
fn is_implied(paths: &LeftAlone, path: &[u8], state: &Stays) -> bool {
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
    let mut above = ends.filter_map(|(end, _)| paths.get(&path[..end]));
    let prefix = [path, b"/"].concat();
    let below = paths.range(prefix.clone()..);
    let mut below = below.take_while(|(path, _)| path.starts_with(&prefix));
    // Where nothing is, the step says nothing of the directories above.
    let below = below.any(|(_, state)| !matches!(state, Stays::Gone(_)));
    above.any(|state| *state == Stays::There) || below && *state == Stays::Directory
}

/// Adds the paths that the undone steps left alone to those that the undo leaves alone.
pub fn add_noted(steps: &Steps, brings: &mut Return) {
    for (path, step) in steps.iter() {
        let path = path.as_bytes();
        match step {
            Step::LeftAlone => add_above(path, &mut brings.stays),
            Step::LeftGone(emptied) => {
                let emptied = emptied.iter().map(|dir| dir.as_bytes().to_vec());
                brings.emptied.extend(emptied);
                brings.gone.insert(path.to_vec());
            }
            Step::Overwrote { .. } | Step::Moved(_) => continue,
        }
        brings.stays.insert(path.to_vec());
    }
}

//! Entries in the place of new ones: a file where a directory is needed, or the reverse.
//!
//! The new entry cannot replace such an entry in one step, so it is removed before anything is
//! written. Like all overwritten files, it has been stored by then.

use crate::fsutil::{FileKind, FileStat};
use crate::object::tree::Kind;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::checkout::dirs::{add_dirs, is_dir, sorted};
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::saved::{Overwrite, Overwrites, PathReturn, Return, all_gone};
use crate::repo::files::seen::Expectation;
use crate::worktree::checkout::{Plan, Removal};
use std::collections::BTreeSet;

impl Switch<'_> {
    /// Returns whether a file at `path` is in the place of a directory that a switch wrote.
    pub fn is_in_place_of_dir(&self, path: &[u8]) -> Result<bool, RepoError> {
        let tracked = self.tracked(path)?;
        Ok(tracked.is_some_and(|entry| entry.kind == Kind::Directory))
    }

    /// Returns whether an undo removes the entry at `path`, or puts a directory there.
    pub fn gives_way(&self, path: &[u8]) -> bool {
        let step = self.request.brings.and_then(|brings| brings.step(path));
        step.is_some_and(|step| step.to.as_ref().is_none_or(is_dir))
    }

    /// Returns whether a directory comes where the step of an undo finds a file.
    pub fn makes_room(&self, step: &PathReturn) -> Result<bool, RepoError> {
        Ok(match &step.to {
            Some(to) => is_dir(to),
            None => self.target_entry(&step.path)?.is_some_and(|e| is_dir(&e)),
        })
    }

    /// Returns whether a redo has removed a file at `path`, so that a directory of the target can come.
    pub fn has_room(&self, path: &[u8]) -> bool {
        let is_room = |brings: &Return| brings.step(path).is_some_and(|step| brings.has_room(step));
        self.request.brings.is_some_and(is_room)
    }

    /// Adds the entries in the way to the overwritten files. Returns those that cannot be kept,
    /// such as another repository: then nothing may be removed.
    pub fn overwrite_in_the_way(
        &self,
        in_the_way: &BTreeSet<Vec<u8>>,
        overwrites: &mut Overwrites,
    ) -> Result<BTreeSet<Vec<u8>>, RepoError> {
        let mut lost = BTreeSet::new();
        for root in in_the_way {
            let stat = self.stat(root)?;
            if stat.is_some_and(|stat| self.has_come(&stat)) {
                lost.insert(root.clone());
            }
        }
        for path in all_gone(self.request.tree, in_the_way.iter().cloned().collect())?.into_keys() {
            let stat = self.stat(&path)?;
            let stays = stat.is_some_and(|stat| is_special(&stat) || self.has_come(&stat));
            if stays || Repo::parse_path(&path).is_err() {
                lost.insert(path);
                continue;
            }
            let committed = self.clean_entry(&path)?;
            overwrites.entry(path).or_insert(Overwrite {
                committed,
                after: None,
            });
        }
        Ok(lost)
    }

    /// Returns whether an entry appeared or changed after the scan. The user's request did not mean
    /// it.
    fn has_come(&self, stat: &FileStat) -> bool {
        self.known
            .started
            .is_some_and(|started| stat.ctime > started)
    }

    /// Removes the entries that are in the way.
    pub fn clear_in_the_way(&mut self) -> Result<(), RepoError> {
        let roots = std::mem::take(&mut self.decision.in_the_way);
        let mut plan = Plan::default();
        for path in all_gone(self.request.tree, roots.iter().cloned().collect())?.into_keys() {
            let stat = self.stat(&path)?;
            if stat.is_none_or(|stat| stat.kind == FileKind::Dir) {
                continue;
            }
            match self.expected(&path, None)? {
                Expectation::This(expected) => plan.remove.push(Removal { path, expected }),
                Expectation::Nothing | Expectation::Other => self.refuse_changed(path),
            }
        }
        let mut dirs = BTreeSet::new();
        for root in roots {
            add_dirs(self.request.tree, root, &mut dirs)?;
        }
        plan.remove_dirs = sorted(dirs);
        self.run(plan)
    }
}

/// Returns whether an entry is none that a commit can have, such as a pipe.
pub fn is_special(stat: &FileStat) -> bool {
    !matches!(
        stat.kind,
        FileKind::File | FileKind::Symlink | FileKind::Dir
    )
}

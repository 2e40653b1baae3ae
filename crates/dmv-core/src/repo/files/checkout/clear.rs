//! Clears the way of a switch: entries that the target does not have go, and so do entries in the place of
//! new ones of another kind.

use crate::fsutil::FileKind;
use crate::job::Job;
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::list::Blob;
use crate::object::tree::TreeEntry;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::checkout::dirs::{KnownDirs, is_dir, is_whole, sorted};
use crate::repo::files::checkout::switch::{PLAN_FILES, Switch};
use crate::repo::files::seen::Expectation;
use crate::worktree::base::entry_at;
use crate::worktree::checkout::{Move, Plan, Removal};
use crate::worktree::{join, split_path};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// What clearing the way has found so far.
struct ClearancePlan {
    /// Where files will be moved from.
    moving: HashSet<Vec<u8>>,
    dirs: KnownDirs,
    /// Removals that are not carried out yet.
    plan: Plan<Blob>,
    /// Directories that go once they are empty.
    gone_dirs: BTreeSet<Vec<u8>>,
    /// The number of removals that are carried out together.
    portion: usize,
}

impl Switch<'_> {
    /// Removes or moves away entries that the target does not have, and entries in the place of new
    /// ones of another kind.
    pub fn clear_the_way(&mut self, moves: Vec<Move>) -> Result<(), RepoError> {
        let job = self.request.job;
        let mut clearing = ClearancePlan {
            moving: moves.iter().map(|one| one.from.clone()).collect(),
            dirs: KnownDirs::default(),
            plan: Plan::default(),
            gone_dirs: BTreeSet::new(),
            portion: job.portion(PLAN_FILES),
        };
        // What was stored or received before counts as done.
        job.progress.foresee_files(0, 0);
        self.differences().each(&mut |path, old, new| {
            if let Some(new) = new {
                Job::add(&job.progress.total_files, 1);
                let size = if is_dir(new) { 0 } else { new.size };
                Job::add(&job.progress.total_bytes, size);
            }
            self.clear_path(path.as_bytes(), old, new, &mut clearing)
        })?;
        let ClearancePlan {
            mut dirs,
            mut plan,
            gone_dirs,
            ..
        } = clearing;
        // If something else has taken the place of a directory, then the directory is gone already.
        let mut there = BTreeSet::new();
        for dir in gone_dirs {
            let stat = self.stat_in(&dir, &mut dirs)?;
            if stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                there.insert(dir);
            }
        }
        // A directory that is open could stay.
        drop(dirs);
        let there = sorted(there);
        if moves.is_empty() {
            plan.remove_dirs = there;
            return self.run(plan);
        }
        // Everything that leaves its place leaves before anything takes one.
        self.run(plan)?;
        let moving = self.leave(moves)?;
        self.run(Plan {
            remove_dirs: there,
            ..Plan::default()
        })?;
        self.arrive(moving)
    }

    /// Plans what goes at one path where the base has `old` and the target `new`.
    fn clear_path(
        &mut self,
        path: &[u8],
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
        clearing: &mut ClearancePlan,
    ) -> Result<(), RepoError> {
        if self.stays_there(path) {
            return Ok(());
        }
        let stat = self.stat_in(path, &mut clearing.dirs)?;
        let has_dir = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
        if has_dir && new.is_some_and(|new| !is_dir(new)) {
            self.note_dirs_in_the_way(path, &mut clearing.gone_dirs)?;
        }
        let Some(old) = old else {
            return Ok(());
        };
        if new.is_none() {
            self.note_gone_dirs(path, &mut clearing.gone_dirs)?;
        }
        if new.is_none() && self.decision.left_alone.contains_key(path) {
            return Ok(());
        }
        if stat.is_none() {
            return Ok(());
        }
        if has_dir {
            let goes = match new {
                // The subset may leave out everything in it.
                Some(new) if is_dir(new) => !is_whole(new) && !self.has_dir(path)?,
                Some(_) => true,
                // A directory in the place of a file is the user's.
                None => is_dir(old),
            };
            if goes {
                clearing.gone_dirs.insert(path.to_vec());
            }
            return Ok(());
        }
        // The file is no longer tracked: it stays.
        let is_untracked = new.is_none() && self.request.tree.untracked.has(path);
        // The step of the undo plans this path itself.
        let has_step = (self.request.brings).is_some_and(|brings| brings.step(path).is_some());
        // The file is moved once directories have been made free.
        let is_moving = clearing.moving.contains(path);
        if is_untracked || has_step || is_moving {
            return Ok(());
        }
        if new.is_none_or(is_dir) && !is_dir(old) {
            self.plan_removal(path, old, clearing)?;
        }
        Ok(())
    }

    /// Plans the removal of a file of the base. Removes the planned files once they are a portion.
    fn plan_removal(
        &mut self,
        path: &[u8],
        old: &TreeEntry,
        clearing: &mut ClearancePlan,
    ) -> Result<(), RepoError> {
        let expectation = self.expected(path, Some(old))?;
        let path = path.to_vec();
        match expectation {
            Expectation::This(expected) => {
                clearing.plan.remove.push(Removal { path, expected });
            }
            // A new entry since the scan is the user's, and stays.
            Expectation::Nothing => {}
            Expectation::Other => self.refuse_changed(path),
        }
        if clearing.plan.remove.len() >= clearing.portion {
            self.run(std::mem::take(&mut clearing.plan))?;
        }
        Ok(())
    }

    /// Notes the base's directories at and below `path` that are on disk. No difference mentions a
    /// directory whose content is outside the subset.
    fn note_dirs_in_the_way(
        &self,
        path: &[u8],
        gone: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        let mut dirs = vec![path.to_vec()];
        while let Some(dir) = dirs.pop() {
            let Ok(opened) = self.request.tree.root.open_dir(&dir) else {
                continue;
            };
            if !self.is_dir_of_base(&dir)? {
                continue;
            }
            for (name, kind) in opened.list(MAX_DIR_ENTRIES)?.iter() {
                if kind == FileKind::Dir {
                    dirs.push(join(&dir, name));
                }
            }
            gone.insert(dir);
        }
        Ok(())
    }

    /// Returns whether the base's commit has a directory at `path`, also one whose content is outside the
    /// subset.
    pub fn is_dir_of_base(&self, path: &[u8]) -> Result<bool, RepoError> {
        let Some(base) = self.request.tree.base_tree else {
            return Ok(false);
        };
        let entry = entry_at(self.request.repo.objects(), &base, path)?;
        Ok(entry.is_some_and(|entry| is_dir(&entry)))
    }

    /// Notes the directories above `path` that the target does not have.
    pub fn note_gone_dirs(
        &self,
        path: &[u8],
        gone: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        let mut path = path;
        while let Some((dir, _)) = split_path(path) {
            if dir.is_empty() || gone.contains(dir) || self.stays_there(dir) {
                return Ok(());
            }
            // A directory that only leads to the subset goes, too, if it is empty by then.
            let is_kept =
                self.request.subset.includes(dir, true) && !self.request.form.is_side(dir);
            if is_kept && !self.stays(dir) && self.has_dir(dir)? && !self.stays_empty(dir)? {
                return Ok(());
            }
            gone.insert(dir.to_vec());
            path = dir;
        }
        Ok(())
    }

    /// Returns whether the user has removed everything that the target has in a directory, so that
    /// nothing comes there.
    fn stays_empty(&self, dir: &[u8]) -> Result<bool, RepoError> {
        // An undo leaves a directory that was there before, and what has emptied it does not count.
        if self.request.brings.is_some_and(|brings| !brings.is_redo) {
            return Ok(false);
        }
        if let Some(known) = self.known.stay_empty.borrow().get(dir) {
            return Ok(*known);
        }
        let is_deleted = |path: &[u8]| self.known.dirty.get(path) == Some(&ChangeKind::Deleted);
        let prefix = [dir, b"/"].concat();
        let mut below = self.known.dirty.range(prefix.clone()..);
        let mut below = below
            .by_ref()
            .take_while(|(path, _)| path.starts_with(&prefix));
        let mut stays_empty = below.any(|(path, _)| is_deleted(path));
        if stays_empty && let Some(entry) = self.target_entry(dir)? {
            let at = Repo::parse_path(dir)?;
            self.request
                .repo
                .list_subset(&at, entry.id, self.request.subset, &mut |listed| {
                    stays_empty &= is_deleted(listed.path.as_bytes());
                    Ok(if stays_empty {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    })
                })?;
        }
        let mut known = self.known.stay_empty.borrow_mut();
        known.insert(dir.to_vec(), stays_empty);
        Ok(stays_empty)
    }
}

//! Files that interrupted switches have left in the worktree.
//!
//! If a path is as such a switch would have made it, then it counts as that switch's and not as the
//! user's: its content is committed, and the user asked for it. All other paths count as before.

use crate::diff::{Slice, diff_slices, is_wanted};
use crate::fsutil::{FileKind, FileStat};
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::checkout::dirs::{KnownDirs, add_above, is_dir};
use crate::repo::files::checkout::span::{Differences, InterruptedPath, LeftPaths};
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::saved::empty_dir;
use crate::repo::files::unfinished::Target;
use crate::repo::files::unwritten::UnwrittenPath;
use crate::repo::files::{unfinished, unwritten};
use crate::worktree::base::entry_at;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

impl<'a> Switch<'a> {
    /// Removes paths from the dirty paths that earlier switches have left: switches that were cut
    /// off, or that could not write the path.
    pub fn find_left(&mut self) -> Result<(), RepoError> {
        let (base, subset) = (self.request.tree.base_tree, &self.request.tree.subset);
        let mut all = self.left_unwritten()?;
        let Some(unfinished) = unfinished::unfinished(self.request.repo, base, subset)? else {
            self.known.left = Rc::new(all);
            return Ok(());
        };
        let mut dirs = KnownDirs::default();
        for path in self.known.dirty.keys().cloned().collect::<Vec<_>>() {
            for target in unfinished.targets.iter().rev() {
                if let Some(left) = self.left_by(target, &path, &mut dirs)? {
                    self.known.dirty.remove(&path);
                    all.insert(path, left);
                    break;
                }
            }
        }
        // The dirty paths do not include paths outside the worktree's subset.
        for target in unfinished.targets.iter().rev() {
            for path in self.outside_paths(target)? {
                if !all.contains_key(&path)
                    && let Some(left) = self.left_by(target, &path, &mut dirs)?
                {
                    all.insert(path, left);
                }
            }
        }
        self.known.left = Rc::new(all);
        self.known.unfinished = Some(unfinished);
        Ok(())
    }

    /// Removes the left-overs of earlier switches from the dirty paths, for a command that overwrites single
    /// files: they are not the user's work. Each may be replaced as it is now.
    pub fn find_left_overs(&mut self) -> Result<(), RepoError> {
        for at in unwritten::unwritten(self.request.repo, self.request.tree)? {
            let is_file = at.have.as_ref().is_some_and(|have| !is_dir(have));
            let seen = at.seen(self.request.repo, self.request.tree)?;
            if let Some(seen) = seen.filter(|_| is_file) {
                let path = at.path.into_bytes();
                self.decision.seen.insert(path, Some(seen));
            }
        }
        self.known.left = Rc::new(self.left_unwritten()?);
        Ok(())
    }

    /// Returns the paths that could not be written and that the user has not changed.
    fn left_unwritten(&mut self) -> Result<LeftPaths, RepoError> {
        let mut all = LeftPaths::new();
        for at in unwritten::unwritten(self.request.repo, self.request.tree)? {
            let entry = at.have;
            let path = at.path.as_bytes().to_vec();
            self.known.dirty.remove(&path);
            let (tree, begun) = (None, false);
            all.insert(path, InterruptedPath { tree, entry, begun });
        }
        Ok(all)
    }

    /// Returns the paths that this switch could not write, and those that an earlier one could not
    /// write and that are still unchanged.
    pub fn unwritten_now(&self) -> Result<Vec<UnwrittenPath>, RepoError> {
        let mut found: BTreeMap<RepoPath, UnwrittenPath> = BTreeMap::new();
        let refused = self
            .progress
            .refused
            .iter()
            .map(|problem| problem.path.as_bytes());
        for path in refused.chain(self.progress.in_use.iter().map(|dir| &dir[..])) {
            let is_side = self.decision.unshown.contains(path) || self.request.form.is_side(path);
            let Ok(at) = RepoPath::parse(path) else {
                continue;
            };
            let want = self.target_entry(path)?;
            let former = match self.known.left.get(path) {
                Some(left) => left.entry.clone(),
                None => self.base_entry(path)?,
            };
            let is_dir = want.iter().chain(&former).all(is_dir);
            let is_own = self.request.subset.includes(path, is_dir) && !self.is_brought(path);
            if !is_own || is_side {
                continue;
            }
            let at = UnwrittenPath::find(self.request.repo, self.request.tree, at, (want, former))?;
            found.extend(at.map(|at| (at.path.clone(), at)));
        }
        self.add_left_dirs(&mut found)?;
        for at in unwritten::noted_unwritten(self.request.repo)? {
            let want = self.target_entry(at.path.as_bytes())?;
            if !found.contains_key(&at.path)
                && at.holds(self.request.repo, self.request.tree, want.as_ref())?
            {
                found.insert(at.path.clone(), at);
            }
        }
        unwritten::retain_reached(self.request.tree, found.into_values().collect())
    }

    /// Takes left-overs of earlier switches off the refused paths: they stay what they are, and have
    /// nothing to do with what this switch writes.
    pub fn excuse_left(&mut self) -> Result<(), RepoError> {
        for problem in std::mem::take(&mut self.progress.refused) {
            let path = problem.path.as_bytes();
            let is_left = self.known.left.contains_key(path) && self.target_entry(path)?.is_none();
            if !is_left {
                self.progress.refused.push(problem);
            }
        }
        Ok(())
    }

    /// Adds the directories above left-overs that should have gone with them.
    fn add_left_dirs(
        &self,
        found: &mut BTreeMap<RepoPath, UnwrittenPath>,
    ) -> Result<(), RepoError> {
        let mut dirs = BTreeSet::new();
        for at in found.values().filter(|at| at.want.is_none()) {
            add_above(at.path.as_bytes(), &mut dirs);
        }
        for dir in dirs {
            let at = RepoPath::from_checked(dir);
            if !found.contains_key(&at) && self.target_entry(at.as_bytes())?.is_none() {
                let sides = (None, Some(empty_dir(&at)));
                let at = UnwrittenPath::find(self.request.repo, self.request.tree, at, sides)?;
                found.extend(at.map(|at| (at.path.clone(), at)));
            }
        }
        Ok(())
    }

    /// Returns paths of a target that the worktree's subset leaves out.
    fn outside_paths(&self, target: &Target) -> Result<Vec<Vec<u8>>, RepoError> {
        let mut out = Vec::new();
        if self.request.tree.subset.is_everything() {
            return Ok(out);
        }
        let old = Slice {
            tree: Some(target.tree),
            subset: &self.request.tree.subset,
        };
        let new = Slice {
            subset: &target.subset,
            ..old
        };
        let mut note = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
            if old.is_none() && new.is_some() {
                out.push(path.as_bytes().to_vec());
            }
            Ok::<_, ObjectError>(ControlFlow::Continue(()))
        };
        match diff_slices(self.request.repo.objects(), old, new, &mut note) {
            // A tree that was never published may be gone. Then nothing is known about it.
            Err(ObjectError::Missing { .. }) | Ok(_) => Ok(out),
            Err(e) => Err(e.into()),
        }
    }

    fn left_by(
        &self,
        target: &Target,
        path: &[u8],
        dirs: &mut KnownDirs,
    ) -> Result<Option<InterruptedPath>, RepoError> {
        // A merge's tree that was never published may be gone. Then nothing is known about it.
        let Some(entry) = known_entry(self.request.repo, target, path)? else {
            return Ok(None);
        };
        let tree = Some(target.tree);
        let base = self.base_entry(path)?;
        let same = |a: &TreeEntry| entry.as_ref().is_some_and(|b| b.same_content(a));
        if base.as_ref().map_or(entry.is_none(), same) {
            return Ok(None); // The switch had nothing to do here.
        }
        let stat = self.stat_in(path, dirs)?;
        let begun = match (&entry, &stat) {
            (None, None) => false,
            // The switch did only the first half of replacing a file with a directory, or the
            // reverse.
            (Some(new), None) if base.is_some_and(|old| is_dir(&old) != is_dir(new)) => {
                let (entry, begun) = (None, false);
                return Ok(Some(InterruptedPath { tree, entry, begun }));
            }
            (Some(entry), Some(stat)) if self.is_whole(path, entry, stat)? => false,
            (Some(entry), Some(stat)) if self.is_begun(path, entry, stat)? => true,
            _ => return Ok(None),
        };
        Ok(Some(InterruptedPath { tree, entry, begun }))
    }

    fn is_whole(&self, path: &[u8], entry: &TreeEntry, stat: &FileStat) -> Result<bool, RepoError> {
        if entry.kind == Kind::Directory {
            return Ok(stat.kind == FileKind::Dir);
        }
        match same_as(self.request.repo, self.request.tree, path, entry, stat) {
            Ok(same) => Ok(same),
            Err(SameError::Path(_)) => Ok(false),
            Err(SameError::Repo(e)) => Err(e),
        }
    }

    /// Returns the entry that was last written at `path`: by the base's checkout, or by a switch
    /// that was cut off.
    pub fn tracked(&self, path: &[u8]) -> Result<Option<TreeEntry>, RepoError> {
        if let Some(left) = self.known.left.get(path) {
            return Ok(left.entry.clone());
        }
        if let Some(entry) = self.base_entry(path)? {
            return Ok(Some(entry));
        }
        // The directory exists only for the entries below it.
        let prefix = [path, b"/"].concat();
        match self.known.left.range(prefix.clone()..).next() {
            Some((below, left)) if below.starts_with(&prefix) => match left.tree {
                Some(tree) => Ok(entry_at(self.request.repo.objects(), &tree, path)?),
                None => {
                    let dir = RepoPath::parse(path).ok();
                    let is_there = left.entry.is_some();
                    Ok(dir.filter(|_| is_there).map(|dir| empty_dir(&dir)))
                }
            },
            _ => Ok(None),
        }
    }

    /// Returns the differences between the target and the present files, as the base and the
    /// interrupted switches have left them.
    pub fn differences(&self) -> Differences<'a> {
        Differences {
            span: self.span(),
            left: self.known.left.clone(),
        }
    }
}

/// Returns the target's entry at `path`, or `None` if its tree is not stored.
fn known_entry(
    repo: &Repo,
    target: &Target,
    path: &[u8],
) -> Result<Option<Option<TreeEntry>>, RepoError> {
    let Ok(at) = RepoPath::parse(path) else {
        return Ok(None);
    };
    match entry_at(repo.objects(), &target.tree, path) {
        Ok(entry) => Ok(Some(
            entry.filter(|entry| is_wanted(&target.subset, &at, entry)),
        )),
        Err(ObjectError::Missing { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

//! The check before a checkout: finds what the checkout would lose, before any file is touched.
//!
//! It extends [`Switch`] and decides which paths are overwritten, kept or refused.

use crate::diff::entries_in;
use crate::fsutil::{FileKind, FileStat};
use crate::object::list::BlobChunks;
use crate::object::name::{RepoPath, fold_key};
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::checkout::target::SwitchTo;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::saved::{Overwrite, Step, all_gone};
use crate::repo::look::content;
use crate::repo::look::entries::blob_of;
use crate::worktree::base::entry_at;
use crate::worktree::{join, split_path};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

/// What is at the path of a directory that is needed.
#[derive(Clone, Copy)]
enum Above {
    Dir,
    /// Nothing, or an entry that is removed.
    Nothing,
    /// A file that is in no commit.
    Obstacle,
}

impl Switch<'_> {
    /// Finds uncommitted work that the switch would overwrite, before any file is touched. If a
    /// file of the user has the name of a conflict's side, the side is not shown.
    pub(in crate::repo) fn check(&mut self, to: &SwitchTo<'_>) -> Result<(), RepoError> {
        let (what, force) = (to.what, to.force);
        let mut lost = match to.leaves && !force {
            true => self.answers_given_up()?,
            false => BTreeSet::new(),
        };
        let (mut unshown, mut adopted) = (BTreeSet::new(), BTreeSet::new());
        let mut absent_dirs: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut above = BTreeMap::new();
        let mut overwrites: BTreeMap<Vec<u8>, Option<TreeEntry>> = BTreeMap::new();
        let mut replaced_dirs = Vec::new();
        let mut in_the_way = BTreeSet::new();
        self.differences().each(&mut |path, old, new| {
            let bytes = path.as_bytes();
            let stat = self.stat(bytes, &mut absent_dirs)?;
            let is_clean = old.is_some() && !self.dirty.contains_key(bytes);
            if let (Some(stat), false) = (&stat, is_clean && !self.left.contains_key(bytes)) {
                self.note_found(bytes, stat);
            }
            if let (Some(_), None) = (new, &stat)
                && let Some(obstacle) = self.obstacle(bytes, &mut above)?
            {
                if self.gives_way(&obstacle) {
                    in_the_way.insert(obstacle);
                } else if force && self.is_in_place_of_dir(&obstacle)? {
                    in_the_way.insert(obstacle);
                    overwrites.insert(bytes.to_vec(), new.cloned());
                } else if self.form.is_side(bytes) {
                    unshown.insert(bytes.to_vec());
                } else {
                    lost.insert(obstacle);
                }
                return Ok(());
            }
            let is_brought = self.is_brought(bytes);
            let force = force || is_brought;
            let is_dirty = self.dirty.contains_key(bytes);
            let collides = match (is_dirty.then_some(()), old, new, &stat) {
                // The path is tracked and equals the commit: there is nothing to lose.
                (None, Some(old), Some(new), Some(stat)) => {
                    if stat.kind == FileKind::Dir && !is_file(old) && is_file(new) {
                        replaced_dirs.push(bytes.to_vec());
                    }
                    false
                }
                (None, Some(_), _, _) => false,
                // The path is missing and should be: nothing is left to do.
                (Some(_), _, None, None) => false,
                // The user deleted the file, and the target changes it.
                (Some(_), Some(_), Some(new), None) => {
                    overwrites.insert(bytes.to_vec(), Some(new.clone()));
                    !force
                }
                (_, None, _, None) => false,
                (_, _, Some(new), Some(stat)) => {
                    let same = self.holds(bytes, new, stat)?;
                    let is_dir = stat.kind == FileKind::Dir;
                    let tracked = self.tracked(bytes)?;
                    let was_dir = tracked.as_ref().is_some_and(|entry| !is_file(entry));
                    // Changed files in a directory that is removed are listed with their own paths.
                    let goes = was_dir && (same || force && !self.has_new_below(bytes));
                    if is_dir && is_file(new) && goes {
                        replaced_dirs.push(bytes.to_vec());
                    }
                    let is_forced = match is_dir {
                        true => goes || force && tracked.is_some() && !was_dir,
                        false => is_brought || force && tracked.is_some(),
                    };
                    if is_forced && !same {
                        if is_dir == is_file(new) && !goes && !is_brought {
                            in_the_way.insert(bytes.to_vec());
                        }
                        overwrites.insert(bytes.to_vec(), Some(new.clone()));
                    }
                    !same && !is_forced
                }
                // An entry in the place of a directory stays.
                (Some(_), Some(old), None, Some(stat)) => {
                    if is_file(old) && stat.kind != FileKind::Dir {
                        overwrites.insert(bytes.to_vec(), None);
                    }
                    !force && is_file(old)
                }
                (_, None, None, _) => false,
            };
            let is_kept = to.adopts
                && !self.tree.subset.includes(bytes, false)
                && (new.zip(stat)).is_some_and(|(new, stat)| {
                    is_file(new) && matches!(stat.kind, FileKind::File | FileKind::Symlink)
                });
            if collides && is_kept && !self.form.is_side(bytes) {
                adopted.insert(bytes.to_vec());
                return Ok(());
            }
            match (collides, old.is_none() && self.form.is_side(bytes)) {
                (true, true) => unshown.insert(bytes.to_vec()),
                (true, false) => lost.insert(bytes.to_vec()),
                (false, _) => false,
            };
            Ok(())
        })?;
        // With force, tracked files that do not differ between the commits are restored, too.
        let dirty = match force {
            true => self.dirty.clone(),
            false => BTreeMap::new(),
        };
        for (path, kind) in dirty {
            let Some(entry) = self.target_entry(&path)? else {
                continue;
            };
            // An untracked path of the target can only be a directory in the place of a tracked
            // entry.
            let is_new = kind == ChangeKind::Added;
            if is_new && (is_file(&entry) || !self.is_in_place_of_dir(&path)?) {
                continue;
            }
            if !self.is_brought(&path) {
                let after = || Some(entry.clone());
                overwrites.entry(path.clone()).or_insert_with(after);
            }
            match self.stat(&path, &mut absent_dirs)? {
                None => match self.obstacle(&path, &mut above)? {
                    Some(above) if self.is_in_place_of_dir(&above)? => {
                        in_the_way.insert(above);
                    }
                    above => lost.extend(above),
                },
                Some(stat) if (stat.kind == FileKind::Dir) == is_file(&entry) => {
                    in_the_way.insert(path);
                }
                Some(stat) => self.note_found(&path, &stat),
            }
        }
        self.find_kept_below(&mut lost)?;
        self.find_kept_in(replaced_dirs, &mut lost)?;
        self.unshown = unshown;
        self.adopted = adopted;
        let unbrought = overwrites.into_iter();
        let unbrought = unbrought.filter(|(path, _)| force && !self.is_brought(path));
        let overwrite = |after| Overwrite {
            committed: None,
            after,
        };
        let mut overwrites = unbrought
            .map(|(path, after)| (path, overwrite(after)))
            .collect();
        self.in_the_way = in_the_way;
        if force {
            lost.extend(self.overwrite_in_the_way(&mut overwrites)?);
        }
        self.overwrites = overwrites;
        match lost.is_empty() {
            true => Ok(()),
            false => Err(RepoError::WouldLose {
                what,
                paths: lost.into_iter().collect(),
            }),
        }
    }

    /// Returns conflicts that are settled but not committed, and that the target does not have.
    fn answers_given_up(&self) -> Result<BTreeSet<Vec<u8>>, RepoError> {
        let mut lost = BTreeSet::new();
        for (path, id) in &self.settled {
            let there = entry_at(self.repo.objects(), &self.form.stored, path)?;
            if there.is_none_or(|there| there.id != *id) {
                lost.insert(path.clone());
            }
        }
        Ok(lost)
    }

    /// Finds files in a directory that an undo replaces with a file, if they would not be removed
    /// with the base's files.
    fn find_kept_below(&self, lost: &mut BTreeSet<Vec<u8>>) -> Result<(), RepoError> {
        let steps = self.brings.iter().flat_map(|brings| &brings.steps);
        let is_dir = |step: &&Step| {
            let is_there = step.there.is_some_and(|stat| stat.kind == FileKind::Dir);
            is_there && step.to.as_ref().is_some_and(is_file)
        };
        for step in steps.filter(is_dir) {
            for path in all_gone(self.tree, vec![step.path.clone()])?.into_keys() {
                let own = self.brings.and_then(|brings| brings.step(&path));
                let goes = match own {
                    Some(own) => own.to.is_none() || own.path == step.path,
                    None => {
                        !self.dirty.contains_key(&path)
                            && self.tracked(&path)?.is_some()
                            && self.target_entry(&path)?.is_none()
                    }
                };
                if !goes {
                    lost.insert(path);
                }
            }
        }
        Ok(())
    }

    /// Finds files in directories that a file replaces, if they would not be removed with the
    /// base's files: ignored files, and entries that no commit can hold.
    fn find_kept_in(
        &self,
        dirs: Vec<Vec<u8>>,
        lost: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        for path in all_gone(self.tree, dirs)?.into_keys() {
            let goes = self.left.contains_key(&path)
                || self.is_brought(&path)
                || self.base_entry(&path)?.is_some();
            // The user's changes are found with the differences. An empty directory may be removed.
            if goes || self.dirty.contains_key(&path) {
                continue;
            }
            let stat = self.stat(&path, &mut BTreeSet::new())?;
            if stat.is_some_and(|stat| stat.kind != FileKind::Dir) {
                lost.insert(path);
            }
        }
        Ok(())
    }

    /// Returns whether the user has added something below `path`.
    fn has_new_below(&self, path: &[u8]) -> bool {
        let prefix = [path, b"/"].concat();
        let mut below = self.dirty.range(prefix.clone()..);
        let mut below = below
            .by_ref()
            .take_while(|(path, _)| path.starts_with(&prefix));
        below.any(|(_, kind)| *kind == ChangeKind::Added)
    }

    /// Returns the entry in the place of a directory above `path`, if it would not be removed with
    /// the base's files. `above` caches the answers.
    fn obstacle(
        &self,
        path: &[u8],
        above: &mut BTreeMap<Vec<u8>, Above>,
    ) -> Result<Option<Vec<u8>>, RepoError> {
        for (end, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
            let dir = &path[..end];
            let found = match above.get(dir) {
                Some(found) => *found,
                None => {
                    let found = self.look_above(dir)?;
                    above.insert(dir.to_vec(), found);
                    found
                }
            };
            match found {
                Above::Dir => {}
                Above::Nothing => return Ok(None),
                Above::Obstacle => return Ok(Some(dir.to_vec())),
            }
        }
        Ok(None)
    }

    fn look_above(&self, dir: &[u8]) -> Result<Above, RepoError> {
        let Some(stat) = self.stat(dir, &mut BTreeSet::new())? else {
            return Ok(Above::Nothing);
        };
        if stat.kind == FileKind::Dir {
            return Ok(Above::Dir);
        }
        let tracked = self.tracked(dir)?;
        // The removal of a tracked file is a difference of its own.
        Ok(match tracked.is_some_and(|e| e.kind != Kind::Directory) {
            true => Above::Nothing,
            false => Above::Obstacle,
        })
    }

    /// Returns whether the worktree has `entry` at `path`.
    fn holds(&self, path: &[u8], entry: &TreeEntry, stat: &FileStat) -> Result<bool, RepoError> {
        // If the base has a file here, its removal is a difference of its own. If the base has a
        // directory, any other entry here is the user's.
        if entry.kind == Kind::Directory {
            return Ok(
                stat.kind == FileKind::Dir || self.tracked(path)?.is_some_and(|e| is_file(&e))
            );
        }
        // A directory in the place of a new file is in the way, unless everything in it is removed
        // with it. The differences below it show that.
        if stat.kind == FileKind::Dir {
            let tracked = self.tracked(path)?;
            let prefix = [path, b"/"].concat();
            let touched = self.dirty.range(prefix.clone()..).next();
            let clean = touched.is_none_or(|(dirty, _)| !dirty.starts_with(&prefix));
            return Ok(tracked.is_some_and(|e| e.kind == Kind::Directory) && clean);
        }
        match same_as(self.repo, &self.tree.root, path, entry, stat) {
            Ok(false) => self.is_begun(path, entry, stat),
            Ok(true) => Ok(true),
            Err(SameError::Path(_)) => Ok(false),
            Err(SameError::Repo(e)) => Err(e),
        }
    }

    /// Returns whether the file at `path` is an incomplete copy of `entry`, as a killed checkout
    /// leaves it. Completing it loses nothing.
    pub(in crate::repo) fn is_begun(
        &self,
        path: &[u8],
        entry: &TreeEntry,
        stat: &FileStat,
    ) -> Result<bool, RepoError> {
        let untracked = self
            .dirty
            .get(path)
            .is_none_or(|kind| *kind == ChangeKind::Added);
        let exec = entry.kind == Kind::Executable;
        if !untracked || stat.kind != FileKind::File || !entry.kind.is_blob() || stat.exec != exec {
            return Ok(false);
        }
        let Some((dir, name)) = split_path(path) else {
            return Ok(false);
        };
        let opened = self
            .tree
            .root
            .open_dir(dir)
            .and_then(|dir| dir.open_file_read(name));
        let Ok((mut file, _)) = opened else {
            return Ok(false);
        };
        let (mut left, mut have, mut want) = (stat.size, Vec::new(), Vec::new());
        for chunk in BlobChunks::new(self.repo.objects(), blob_of(entry)) {
            let (_, id, len) = chunk?;
            if left == 0 {
                break;
            }
            have.clear();
            want.clear();
            let part = len.min(left);
            let read = std::io::Read::by_ref(&mut file)
                .take(part)
                .read_to_end(&mut have);
            content::read_chunk(self.repo, &id, len, &mut want)?;
            if read.is_err() || have.len() as u64 != part || !want.starts_with(&have) {
                return Ok(false);
            }
            left -= part;
        }
        Ok(left == 0)
    }

    /// Finds names of the target that this file system cannot distinguish.
    pub(in crate::repo) fn check_collisions(&self) -> Result<(), RepoError> {
        let mut dirs = vec![(RepoPath::root(), self.target)];
        while let Some((path, tree)) = dirs.pop() {
            let mut folded: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
            for entry in entries_in(self.repo.objects(), &tree, self.subset, &path)? {
                let name = entry.name.as_bytes();
                let here = join(path.as_bytes(), name);
                if entry.kind == Kind::Directory
                    && let Ok(path) = path.join(&entry.name)
                {
                    dirs.push((path, entry.id));
                }
                if let Some(other) = folded.insert(fold_key(name), here.clone()) {
                    return Err(RepoError::Collision(other, here));
                }
            }
        }
        Ok(())
    }
}

fn is_file(entry: &TreeEntry) -> bool {
    entry.kind != Kind::Directory
}

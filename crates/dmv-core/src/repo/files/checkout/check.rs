//! The check before a checkout: finds what the checkout would lose, before any file is touched.
//!
//! It extends [`Switch`] and decides which paths are overwritten, kept or refused.

use crate::fsutil::{FileKind, FileStat};
use crate::object::list::BlobChunks;
use crate::object::tree::{Kind, TreeEntry};
use crate::path::DiskPath;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::{FilesError, RepoError};
use crate::repo::conflict::at;
use crate::repo::files::checkout::dirs::{KnownDirs, is_whole};
use crate::repo::files::checkout::stages::SwitchDecision;
use crate::repo::files::checkout::stays::Stays;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::checkout::target::SwitchTo;
use crate::repo::files::pending;
use crate::repo::files::same::{SameError, equals, same_as};
use crate::repo::files::saved::{Overwrite, PathReturn, all_gone};
use crate::repo::look::content;
use crate::repo::look::entries::blob_of;
use crate::worktree::base::entry_at;
use crate::worktree::snapshot::entry_kind;
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet};
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

/// What the check finds, path by path.
#[derive(Default)]
struct CheckResult {
    /// Uncommitted work that the switch would overwrite.
    lost: BTreeSet<Vec<u8>>,
    decision: SwitchDecision,
    /// Uncommitted work that is overwritten on request, with the target's entry.
    overwrites: BTreeMap<Vec<u8>, Option<TreeEntry>>,
    /// Directories above removed paths that were looked at.
    looked: BTreeSet<Vec<u8>>,
    /// Directories that a file replaces.
    replaced_dirs: Vec<Vec<u8>>,
    dirs: KnownDirs,
    /// What is known to be above the paths that were looked at.
    above: BTreeMap<Vec<u8>, Above>,
}

/// A path at which the base and the target differ, with their entries.
#[derive(Clone, Copy)]
struct Difference<'a> {
    path: &'a [u8],
    old: Option<&'a TreeEntry>,
    new: Option<&'a TreeEntry>,
}

impl Switch<'_> {
    /// Decides what becomes of the user's files. Fails if the switch would overwrite uncommitted work
    /// without a request. If a file of the user has the name of a conflict's side, the side is not
    /// shown.
    pub fn decide(&self, to: &SwitchTo<'_>) -> Result<SwitchDecision, RepoError> {
        let mut found = CheckResult::default();
        if to.brings.is_none() && !to.force {
            found.lost = self.answers_given_up(to.leaves)?;
        }
        if to.brings.is_none() && !to.force {
            found.lost.extend(self.changed_in_conflict()?);
        }
        self.differences().each(&mut |path, old, new| {
            let path = path.as_bytes();
            // A file that is no longer tracked stays.
            if new.is_none() && self.request.tree.untracked.has(path) {
                let stat = self.stat_in(path, &mut found.dirs)?;
                return self.leave_alone(path, stat.as_ref(), &mut found);
            }
            if self.stays(path) && (new.is_some() || self.stays_there(path)) {
                return Ok(());
            }
            if !to.force && new.is_none() && self.is_own_side(path) {
                found
                    .decision
                    .left_alone
                    .insert(path.to_vec(), Stays::There);
                return Ok(());
            }
            self.check_difference(Difference { path, old, new }, to, &mut found)
        })?;
        if to.force {
            self.check_dirty(&mut found)?;
            if to.brings.is_none() {
                self.find_sides_of_no_commit(&mut found)?;
            }
        }
        self.find_answers_unasked(to.force, &mut found)?;
        self.find_kept_below(&mut found.lost)?;
        self.find_kept_in(to.force, &mut found)?;
        let mut decision = found.decision;
        if to.force {
            for (path, after) in found.overwrites {
                if !self.is_brought(&path) {
                    let committed = None;
                    let overwrite = Overwrite { committed, after };
                    decision.overwrites.insert(path, overwrite);
                }
            }
            let in_the_way = &decision.in_the_way;
            let lost = self.overwrite_in_the_way(in_the_way, &mut decision.overwrites)?;
            found.lost.extend(lost);
        }
        if found.lost.is_empty() {
            Ok(decision)
        } else {
            Err(FilesError::WouldLose {
                what: to.what,
                paths: DiskPath::all(self.files_of(found.lost)?),
            }
            .into())
        }
    }

    /// Returns paths for a message: in place of a directory, the files in it that are in no commit.
    fn files_of(&self, paths: BTreeSet<Vec<u8>>) -> Result<BTreeSet<Vec<u8>>, RepoError> {
        let mut out = BTreeSet::new();
        for path in paths {
            let mut below = BTreeSet::new();
            // A directory that cannot be listed stands for itself.
            let all = all_gone(self.request.tree, vec![path.clone()]).unwrap_or_default();
            for file in all.into_keys() {
                if self.clean_entry(&file)?.is_none() {
                    below.insert(file);
                }
            }
            if below.is_empty() {
                out.insert(path)
            } else {
                out.append(&mut below);
                true
            };
        }
        Ok(out)
    }

    /// Checks one path at which the base and the target differ.
    fn check_difference(
        &self,
        at: Difference<'_>,
        to: &SwitchTo<'_>,
        found: &mut CheckResult,
    ) -> Result<(), RepoError> {
        let Difference { path, old, new } = at;
        let stat = self.stat_in(path, &mut found.dirs)?;
        let is_clean = old.is_some() && !self.known.dirty.contains_key(path);
        if let (Some(stat), false) = (&stat, is_clean && !self.known.left.contains_key(path)) {
            found.decision.note_found(path, stat);
        }
        if let (Some(new), None) = (new, &stat)
            && let Some(obstacle) = self.obstacle(path, &mut found.above)?
        {
            return self.check_below(obstacle, (path, new), to.force, found);
        }
        let collides = self.collides(at, stat.as_ref(), to.force, found)?;
        let is_kept = to.adopts
            && !self.request.tree.subset.includes(path, false)
            && (new.zip(stat)).is_some_and(|(new, stat)| {
                is_file(new) && matches!(stat.kind, FileKind::File | FileKind::Symlink)
            });
        if collides && is_kept && !self.request.form.is_side(path) {
            found.decision.adopted.insert(path.to_vec());
            let state = Stays::There;
            found.decision.left_alone.insert(path.to_vec(), state);
            return Ok(());
        }
        if let (Some(_), None) = (new, &stat) {
            let dir = self.empty_dir_above(path, &mut found.looked)?;
            let left_alone = &mut found.decision.left_alone;
            left_alone.extend(dir.map(|dir| (dir, Stays::Directory)));
            self.add_removed_above(path, &mut found.looked, left_alone)?;
        }
        if !collides
            && !found.overwrites.contains_key(path)
            && self.is_left_alone(path, (old, new), stat.as_ref())
        {
            self.leave_alone(path, stat.as_ref(), found)?;
        }
        match (collides, old.is_none() && self.request.form.is_side(path)) {
            (true, true) => found.decision.unshown.insert(path.to_vec()),
            (true, false) => found.lost.insert(path.to_vec()),
            (false, _) => false,
        };
        Ok(())
    }

    /// Notes that the switch leaves the user's state at a path alone.
    fn leave_alone(
        &self,
        path: &[u8],
        stat: Option<&FileStat>,
        found: &mut CheckResult,
    ) -> Result<(), RepoError> {
        let state = match stat {
            Some(stat) if stat.kind == FileKind::Dir => Stays::Directory,
            Some(_) => Stays::There,
            None => Stays::Gone(self.emptied_above(path, &mut found.looked)?),
        };
        found.decision.left_alone.insert(path.to_vec(), state);
        Ok(())
    }

    /// Checks a new path below `obstacle`, which is in the place of a directory.
    fn check_below(
        &self,
        obstacle: Vec<u8>,
        (path, new): (&[u8], &TreeEntry),
        force: bool,
        found: &mut CheckResult,
    ) -> Result<(), RepoError> {
        if self.gives_way(&obstacle) {
            found.decision.in_the_way.insert(obstacle);
        } else if force {
            found.decision.in_the_way.insert(obstacle);
            found.overwrites.insert(path.to_vec(), Some(new.clone()));
        } else if self.request.form.is_side(path) {
            found.decision.unshown.insert(path.to_vec());
        } else {
            found.lost.insert(obstacle);
        }
        Ok(())
    }

    /// Returns whether the user's work at a path would be lost. Notes what is overwritten there.
    fn collides(
        &self,
        at: Difference<'_>,
        stat: Option<&FileStat>,
        force: bool,
        found: &mut CheckResult,
    ) -> Result<bool, RepoError> {
        let Difference { path, old, new } = at;
        let force = force || self.is_brought(path);
        let is_dirty = self.known.dirty.contains_key(path);
        Ok(match (is_dirty, old, new, stat) {
            // The path is tracked and equals the commit: there is nothing to lose.
            (false, Some(old), Some(new), Some(stat)) => {
                if stat.kind == FileKind::Dir && !is_file(old) && is_file(new) {
                    found.replaced_dirs.push(path.to_vec());
                }
                false
            }
            (false, Some(_), _, _) => false,
            // The path is missing and should be: nothing is left to do. A smaller subset would forget that it is
            // deleted.
            (true, Some(old), None, None) => !force && is_file(old) && self.leaves_subset(path)?,
            // The user deleted the file, and the target changes it. A deleted directory has no work of its own:
            // its files have paths of their own.
            (true, Some(old), Some(new), None) => {
                found.overwrites.insert(path.to_vec(), Some(new.clone()));
                !force && is_file(old)
            }
            (_, None, _, None) => false,
            (_, _, Some(new), Some(stat)) => self.differs(path, new, stat, force, found)?,
            // An entry in the place of one of another kind stays.
            (true, Some(old), None, Some(stat)) => {
                let goes = is_file(old) && stat.kind != FileKind::Dir;
                if goes {
                    found.overwrites.insert(path.to_vec(), None);
                }
                !force && goes
            }
            (_, None, None, _) => false,
        })
    }

    /// Returns whether the target has a path that only its subset leaves out.
    fn leaves_subset(&self, path: &[u8]) -> Result<bool, RepoError> {
        let is_left_out = self.request.brings.is_none()
            && !self.request.subset.includes(path, false)
            && self.request.tree.subset.includes(path, false);
        let (objects, target) = (self.request.repo.objects(), self.request.target);
        Ok(is_left_out && entry_at(objects, &target, path)?.is_some())
    }

    /// Returns whether the user's entry at `path` differs from the target's, and may not be
    /// overwritten. Notes what is overwritten there.
    fn differs(
        &self,
        path: &[u8],
        new: &TreeEntry,
        stat: &FileStat,
        force: bool,
        found: &mut CheckResult,
    ) -> Result<bool, RepoError> {
        let is_brought = self.is_brought(path);
        let same = self.holds(path, new, stat)?;
        let is_dir = stat.kind == FileKind::Dir;
        let tracked = self.tracked(path)?;
        let was_dir = tracked.as_ref().is_some_and(|entry| !is_file(entry));
        if is_dir && is_file(new) && was_dir && same {
            found.replaced_dirs.push(path.to_vec());
        }
        // Without a request, a changed or untracked entry is in the way.
        if force && !same {
            if is_dir == is_file(new) && !is_brought {
                found.decision.in_the_way.insert(path.to_vec());
            }
            found.overwrites.insert(path.to_vec(), Some(new.clone()));
        }
        Ok(!same && !force)
    }

    /// Checks changed paths that do not differ between the commits. With force, tracked ones are
    /// restored, too.
    fn check_dirty(&self, found: &mut CheckResult) -> Result<(), RepoError> {
        for (path, kind) in &self.known.dirty {
            let Some(entry) = self.target_entry(path)? else {
                continue;
            };
            // An untracked path of the target can only be a directory in the place of a tracked
            // entry.
            let is_new = *kind == ChangeKind::Added;
            let is_in_place =
                || Ok::<_, RepoError>(self.has_dir(path)? && self.is_in_place_of_dir(path)?);
            if is_new && (is_file(&entry) || !is_in_place()?) {
                continue;
            }
            let stat = self.stat_in(path, &mut found.dirs)?;
            if !is_file(&entry) && stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                // Both are directories. What differs in them has paths of its own.
                continue;
            }
            if !self.is_brought(path) {
                // What comes into a directory has paths of its own.
                let after = || is_whole(&entry).then(|| entry.clone());
                found.overwrites.entry(path.clone()).or_insert_with(after);
            }
            match stat {
                None => {
                    let above = self.obstacle(path, &mut found.above)?;
                    found.decision.in_the_way.extend(above);
                }
                Some(stat) if (stat.kind == FileKind::Dir) == is_file(&entry) => {
                    found.decision.in_the_way.insert(path.clone());
                }
                Some(stat) => found.decision.note_found(path, &stat),
            }
        }
        Ok(())
    }

    /// Finds the versions beside conflicts that no commit has, which the switch ends: they go with it, unless somebody
    /// has edited them.
    fn find_sides_of_no_commit(&self, found: &mut CheckResult) -> Result<(), RepoError> {
        let (repo, tree) = (self.request.repo, self.request.tree);
        for side in pending::live_in(repo, tree)?
            .iter()
            .flat_map(|one| &one.sides)
        {
            let path = side.path.as_bytes();
            if self.target_entry(path)?.is_some() || side.term.kind == Kind::Directory {
                continue;
            }
            let Some(stat) = self.stat_in(path, &mut found.dirs)? else {
                continue;
            };
            let is_same = equals(repo, &tree.root, path, &side.entry(), &stat);
            if is_same.map_err(SameError::any)? {
                found.overwrites.insert(path.to_vec(), None);
                found.decision.ended.push(path.to_vec());
            }
        }
        Ok(())
    }

    /// Returns the paths of conflicts that no commit has, if the switch would change what is there: that
    /// would count as the answer to the question.
    fn changed_in_conflict(&self) -> Result<BTreeSet<Vec<u8>>, RepoError> {
        let mut lost = BTreeSet::new();
        for path in pending::own_paths(self.request.repo, self.request.tree)? {
            let path = path.into_bytes();
            let stays = match (self.base_entry(&path)?, self.target_entry(&path)?) {
                (None, None) => true,
                (Some(old), Some(new)) => old.same_content(&new),
                _ => false,
            };
            if !stays {
                lost.insert(path);
            }
        }
        Ok(lost)
    }

    /// Returns conflicts that are settled but not committed, and of which the target has another version.
    /// If the switch leaves the branch, also those that the target does not have.
    fn answers_given_up(&self, leaves: bool) -> Result<BTreeSet<Vec<u8>>, RepoError> {
        let mut lost = BTreeSet::new();
        for (path, id) in &self.known.settled {
            let there = entry_at(self.request.repo.objects(), &self.request.form.stored, path)?;
            let is_given_up = match there {
                Some(there) if leaves || there.kind == Kind::Conflict => there.id != *id,
                _ => leaves,
            };
            if is_given_up {
                lost.insert(path.clone());
            }
        }
        Ok(lost)
    }

    /// Finds uncommitted work at the paths of new conflicts that the switch would not touch: changes of the version
    /// that a conflict shows, and untracked files where it shows none. That would count as the answer to a
    /// question that its author has not seen. So would the absence of all versions beside the conflict, if
    /// files of the user have their names. With force, the changes are overwritten.
    fn find_answers_unasked(&self, force: bool, found: &mut CheckResult) -> Result<(), RepoError> {
        let mut answers = Vec::new();
        // An undo brings back a question that was asked before.
        for shown in self
            .request
            .form
            .shown
            .iter()
            .filter(|_| self.request.brings.is_none())
        {
            let path = shown.at.path.as_bytes();
            let sides = shown.sides.iter().map(|side| side.path.as_bytes());
            if !shown.markers.are_possible()
                && sides
                    .clone()
                    .all(|side| found.decision.unshown.contains(side))
            {
                answers.extend(sides.map(|side| (&shown.at.path, side)));
            }
            let is_theirs = shown.own.is_none() && self.request.subset.includes(path, false);
            let stat = if is_theirs && self.base_entry(path)?.is_none() {
                self.stat(path)?
            } else {
                None
            };
            let is_new = stat.is_some_and(|stat| stat.kind != FileKind::Dir);
            if is_new || !force && self.is_changed(path)? {
                answers.push((&shown.at.path, path));
            }
        }
        // `resolve` has taken the base's form out of `tree`, so the commit tells what is not new.
        if let (Some(base), false) = (&self.request.tree.base, answers.is_empty()) {
            let base = self.request.repo.read_commit(base)?;
            let asked = BTreeSet::from_iter(at::conflict_paths(self.request.repo, &base)?);
            answers.retain(|(path, _)| !asked.contains(path));
        }
        found
            .lost
            .extend(answers.into_iter().map(|(_, lost)| lost.to_vec()));
        Ok(())
    }

    /// Returns whether something at a path or below it differs from the base and from the target.
    fn is_changed(&self, path: &[u8]) -> Result<bool, RepoError> {
        let below = [path, b"/"].concat();
        let own = self.known.dirty.get_key_value(path).into_iter();
        let inside = self.known.dirty.range(below.clone()..);
        let inside = inside.take_while(|(one, _)| one.starts_with(&below));
        for (dirty, _) in own.chain(inside) {
            // A switch that was cut off has written what the target has.
            let stat = self.stat(dirty)?;
            let is_as_target = match (self.target_entry(dirty)?, stat) {
                (Some(entry), Some(stat)) => self.holds(dirty, &entry, &stat)?,
                (target, stat) => target.is_none() && stat.is_none(),
            };
            if !is_as_target {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds files in a directory that an undo replaces with a file, if they would not be removed
    /// with the base's files.
    fn find_kept_below(&self, lost: &mut BTreeSet<Vec<u8>>) -> Result<(), RepoError> {
        let steps = self.request.brings.iter().flat_map(|brings| &brings.steps);
        let is_dir = |step: &&PathReturn| {
            let is_there = step.there.is_some_and(|stat| stat.kind == FileKind::Dir);
            is_there && step.to.as_ref().is_some_and(is_file)
        };
        for step in steps.filter(is_dir) {
            for path in all_gone(self.request.tree, vec![step.path.clone()])?.into_keys() {
                let own = self.request.brings.and_then(|brings| brings.step(&path));
                let goes = match own {
                    Some(own) => own.to.is_none() || own.path == step.path,
                    None => {
                        !self.known.dirty.contains_key(&path)
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

    /// Finds what would stay in directories that a file replaces. With force, it goes with its directory.
    fn find_kept_in(&self, force: bool, found: &mut CheckResult) -> Result<(), RepoError> {
        for dir in std::mem::take(&mut found.replaced_dirs) {
            let kept = self.kept_in(&dir)?;
            if force && !kept.is_empty() {
                found
                    .overwrites
                    .insert(dir.clone(), self.target_entry(&dir)?);
                found.decision.in_the_way.insert(dir);
            } else {
                found.lost.extend(kept);
            }
        }
        Ok(())
    }

    /// Returns entries in a directory that would not be removed with the base's files: ignored files, empty
    /// directories that are ignored, and entries that no commit can hold.
    fn kept_in(&self, dir: &[u8]) -> Result<Vec<Vec<u8>>, RepoError> {
        let mut kept = Vec::new();
        for path in all_gone(self.request.tree, vec![dir.to_vec()])?.into_keys() {
            let goes = self.known.left.contains_key(&path)
                || self.is_brought(&path)
                || self.base_entry(&path)?.is_some();
            // The user's changes are found with the differences.
            if goes || self.known.dirty.contains_key(&path) {
                continue;
            }
            let stat = self.stat(&path)?;
            let is_dir = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
            if stat.is_some() && !(is_dir && self.is_dir_of_base(&path)?) {
                kept.push(path);
            }
        }
        Ok(kept)
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
        let Some(stat) = self.stat(dir)? else {
            return Ok(Above::Nothing);
        };
        if stat.kind == FileKind::Dir {
            return Ok(Above::Dir);
        }
        if self.request.tree.untracked.has(dir) {
            return Ok(Above::Obstacle);
        }
        let tracked = self.tracked(dir)?;
        // The removal of a tracked file is a difference of its own.
        Ok(if tracked.is_some_and(|e| e.kind != Kind::Directory) {
            Above::Nothing
        } else {
            Above::Obstacle
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
            let touched = self.known.dirty.range(prefix.clone()..).next();
            let clean = touched.is_none_or(|(dirty, _)| !dirty.starts_with(&prefix));
            return Ok(tracked.is_some_and(|e| e.kind == Kind::Directory) && clean);
        }
        match same_as(self.request.repo, self.request.tree, path, entry, stat) {
            // In a worktree with a commit, a kill leaves complete files only.
            Ok(false) if self.known.unfinished.is_some() && self.request.tree.base.is_none() => {
                self.is_begun(path, entry, stat)
            }
            Ok(same) => Ok(same),
            Err(SameError::Path(_)) => Ok(false),
            Err(SameError::Repo(e)) => Err(e),
        }
    }

    /// Returns whether the file at `path` is an incomplete copy of `entry`. Completing it loses nothing.
    ///
    /// A killed checkout leaves such files where there were none, and a power cut leaves them anywhere: the new
    /// name of a file may be durable before its bytes are.
    pub fn is_begun(
        &self,
        path: &[u8],
        entry: &TreeEntry,
        stat: &FileStat,
    ) -> Result<bool, RepoError> {
        let has_other_kind = entry_kind(stat, Some(entry.kind)) != entry.kind;
        if stat.kind != FileKind::File || !entry.kind.is_blob() || has_other_kind {
            return Ok(false);
        }
        let Some((dir, name)) = split_path(path) else {
            return Ok(false);
        };
        let opened = self
            .request
            .tree
            .root
            .open_dir(dir)
            .and_then(|dir| dir.open_file_read(name));
        let Ok((mut file, _)) = opened else {
            return Ok(false);
        };
        let (mut left, mut have, mut want) = (stat.size, Vec::new(), Vec::new());
        for chunk in BlobChunks::new(self.request.repo.objects(), blob_of(entry)) {
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
            content::read_chunk(self.request.repo, &id, len, &mut want)?;
            if read.is_err() || have.len() as u64 != part || !want.starts_with(&have) {
                return Ok(false);
            }
            left -= part;
        }
        Ok(left == 0)
    }
}

fn is_file(entry: &TreeEntry) -> bool {
    entry.kind != Kind::Directory
}

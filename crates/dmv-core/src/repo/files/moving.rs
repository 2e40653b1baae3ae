//! `mv`: moves files and directories of the worktree, and back again for an undo.
//!
//! A move renames and reads nothing, so uncommitted changes move along. The steps of the command have
//! the pairs of paths (docs/format/notes.md, "Moved files"). A file that a move replaces is stored
//! first.

use crate::fsutil::{FileKind, FileStat, SafeDir};
use crate::job::{Job, Moment};
use crate::object::name::{RepoPath, fold_key, portability};
use crate::path::PathError;
use crate::refs::Effect;
use crate::repo::base::error::{FilesError, LookError, PathRefusal, RepoError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::{Step, Steps};
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::names::last_name;
use crate::repo::files::checkout::restore::keep_for;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::checkout::way::is_special;
use crate::repo::files::named::{not_tracked, refuse_in_conflict, refused};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{Overwrite, Overwrites, OverwrittenFiles, set_steps, stat_at};
use crate::repo::files::seen::Expectation;
use crate::repo::files::{ignored, open_worktree, portable};
use crate::subset::Extent;
use crate::worktree::base::entry_at;
use crate::worktree::checkout::{Plan, Removal};
use crate::worktree::ignore::Verdict;
use crate::worktree::snapshot::Problem;
use crate::worktree::split_path;
use std::collections::BTreeSet;

/// What to move, and how.
pub struct MoveOptions {
    /// The files and directories, relative to the worktree's root.
    pub sources: Vec<RepoPath>,
    /// Their new path, or the directory that they move into.
    pub to: RepoPath,
    /// Whether `to` must be a directory.
    pub into: bool,
    /// Whether to replace a file at the new path, and to accept a path that is ignored.
    pub force: bool,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// What a move did.
#[derive(Debug)]
pub struct MoveReport {
    /// The former and the new path of each entry that was moved.
    pub moved: Vec<EntryMove>,
    /// Paths that could not be moved, and why.
    pub refused: Vec<Problem>,
    /// The replaced files that had uncommitted changes.
    pub overwritten: OverwrittenFiles,
}

/// An entry that gets another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryMove {
    /// The former path.
    pub from: RepoPath,
    /// The new path.
    pub to: RepoPath,
}

/// Names the action in messages that refuse it.
const WHAT: &str = "this mv";

impl Repo {
    /// Moves files and directories within the worktree, uncommitted changes included.
    ///
    /// Checks all paths before it moves the first. If a file is to be replaced, stores it first.
    /// One undo moves everything back.
    pub fn move_files(&self, options: &MoveOptions, job: &Job) -> Result<MoveReport, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let tree = open_worktree::open(self, &options.settings)?;
        let form = tree.form.as_ref().ok_or(LookError::NoCommit)?;
        let (moves, replaced) = plan(self, &tree, options)?;
        let mut switch = Switch::new(self, &tree, form, &tree.subset, job);
        if !replaced.is_empty() {
            switch.find_dirty(&options.settings)?;
            switch.find_left_overs()?;
        }
        job.reached(Moment::Checked);
        let mut overwrites = Overwrites::new();
        for path in &replaced {
            let overwrite = Overwrite {
                committed: switch.clean_entry(path)?,
                after: None,
            };
            overwrites.insert(path.clone(), overwrite);
        }
        let mut tx = Transaction::begin(self, &options.request);
        let keep = options.settings.keep;
        let saved = keep_for(&mut tx, &mut switch, overwrites, WHAT, keep, job)?;
        let moved = moves.iter();
        let moved = moved.map(|one| (one.from.clone(), Step::Moved(one.to.clone())));
        set_steps(
            &mut tx,
            &tree.name,
            saved.steps.as_ref(),
            &saved.told,
            moved.collect(),
        )?;
        tx.publish(Effect::Written)?;
        let mut moved = Vec::new();
        for one in moves {
            match move_one(&tree, &mut switch, &one, &replaced)? {
                Ok(()) => moved.push(one),
                Err(e) => switch
                    .progress
                    .refused
                    .push(Problem::new(one.from, e.why())),
            }
        }
        switch.sync()?;
        Ok(MoveReport {
            moved,
            refused: switch.progress.refused,
            overwritten: saved.told,
        })
    }
}

/// Moves one entry. The outer error ends the command; with the inner one, this entry stays.
///
/// A file at the new path goes only when both directories are open, so that hardly anything can
/// fail between its removal and the move.
fn move_one(
    tree: &OpenWorktree,
    switch: &mut Switch<'_>,
    one: &EntryMove,
    replaced: &[Vec<u8>],
) -> Result<Result<(), PathError>, RepoError> {
    let ends = match RenameEnds::open(tree, one) {
        Ok(ends) => ends,
        Err(e) => return Ok(Err(e)),
    };
    if let Some(path) = replaced.iter().find(|path| *path == one.to.as_bytes()) {
        switch.make_room(path)?;
    }
    Ok(ends.rename())
}

/// Decides what moves where, and which files are replaced. Touches nothing.
fn plan(
    repo: &Repo,
    tree: &OpenWorktree,
    options: &MoveOptions,
) -> Result<(Vec<EntryMove>, Vec<Vec<u8>>), RepoError> {
    let (sources, to) = (&options.sources, &options.to);
    let there = stat_at(tree, to.as_bytes())?;
    let is_dir = to.is_root() || there.is_some_and(|stat| stat.kind == FileKind::Dir);
    // A new name for a directory whose names this file system does not tell apart.
    let is_same = matches!(&sources[..], [one] if is_other_case(tree, one, to)?);
    let into = is_dir && !is_same;
    if !into && (options.into || sources.len() > 1) {
        return Err(refused(to, PathRefusal::NoDirectory));
    }
    let (mut moves, mut replaced, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (number, from) in sources.iter().enumerate() {
        let stat = check_source(repo, tree, from)?;
        let mut others = sources[..number].iter().chain(&sources[number + 1..]);
        if others.any(|other| from.starts_with(other)) {
            return Err(refused(from, PathRefusal::Twice));
        }
        let target = if into {
            to.join(&last_name(from)).map_err(|e| {
                RepoError::Look(LookError::BadPath {
                    path: from.into(),
                    why: e.to_string(),
                })
            })?
        } else {
            to.clone()
        };
        if !taken.insert(target.clone()) {
            return Err(refused(&target, PathRefusal::Twice));
        }
        let is_dir = stat.kind == FileKind::Dir;
        if check_target(repo, tree, options, from, is_dir, &target)? {
            replaced.push(target.as_bytes().to_vec());
        }
        let from = from.clone();
        moves.push(EntryMove { from, to: target });
    }
    Ok((moves, replaced))
}

/// Fails unless the entry at `from` may be moved. Returns its stat.
fn check_source(repo: &Repo, tree: &OpenWorktree, from: &RepoPath) -> Result<FileStat, RepoError> {
    let bytes = from.as_bytes();
    if from.is_root() {
        return Err(refused(from, PathRefusal::IntoItself));
    }
    let known = match &tree.form {
        Some(form) => entry_at(repo.objects(), &form.tree, bytes)?,
        None => None,
    };
    let Some(stat) = stat_at(tree, bytes)? else {
        let is_outside = tree.subset.extent(bytes) == Extent::None;
        return Err(match known {
            Some(_) if is_outside => RepoError::Files(FilesError::OutsideSubset(from.clone())),
            Some(_) => refused(from, PathRefusal::Missing),
            None => refused(from, PathRefusal::Nowhere),
        });
    };
    let is_dir = stat.kind == FileKind::Dir;
    check_subset(tree, from, is_dir)?;
    if known.is_none() && ignored::verdict(repo, tree, from, is_dir)? == Verdict::Ignored {
        return Err(not_tracked(repo, tree, from)?);
    }
    if is_special(&stat) {
        return Err(refused(from, PathRefusal::NotAFile));
    }
    refuse_in_conflict(repo, tree, bytes)?;
    Ok(stat)
}

/// Fails unless the worktree's subset has everything at the path.
fn check_subset(tree: &OpenWorktree, path: &RepoPath, is_dir: bool) -> Result<(), RepoError> {
    let bytes = path.as_bytes();
    match tree.subset.extent(bytes) {
        Extent::All => Ok(()),
        Extent::Part if is_dir => Err(refused(path, PathRefusal::Partial)),
        _ if !is_dir && tree.subset.includes(bytes, false) => Ok(()),
        _ => Err(FilesError::OutsideSubset(path.clone()).into()),
    }
}

/// Fails unless the entry, a directory if `is_dir`, may move to `to`. Returns whether it replaces a file there.
fn check_target(
    repo: &Repo,
    tree: &OpenWorktree,
    options: &MoveOptions,
    from: &RepoPath,
    is_dir: bool,
    to: &RepoPath,
) -> Result<bool, RepoError> {
    let bytes = to.as_bytes();
    let is_same = is_other_case(tree, from, to)?;
    if to.starts_with(from) && (is_dir || to == from) {
        return Err(refused(from, PathRefusal::IntoItself));
    }
    if let Some((dir, name)) = split_path(bytes) {
        let above = stat_at(tree, dir)?;
        if !dir.is_empty() && above.is_none_or(|stat| stat.kind != FileKind::Dir) {
            return Err(refused(
                &RepoPath::from_checked(dir.to_vec()),
                PathRefusal::NoDirectory,
            ));
        }
        if let (true, Err(why)) = (options.settings.portable_names, portability(name)) {
            return Err(refused(to, PathRefusal::NotPortable(why)));
        }
        if options.settings.portable_names {
            portable::check_move(&tree.root, from, to)?;
        }
    }
    check_subset(tree, to, is_dir)?;
    if !is_same {
        refuse_in_conflict(repo, tree, bytes)?;
    }
    match ignored::verdict(repo, tree, to, is_dir)? {
        _ if options.force => {}
        Verdict::Wanted => {}
        Verdict::Ignored => return Err(refused(to, PathRefusal::IgnoredTarget)),
        Verdict::Unknown => return Err(refused(to, PathRefusal::UnknownTarget)),
    }
    match stat_at(tree, bytes)? {
        None => Ok(false),
        Some(_) if is_same => Ok(false),
        Some(there) if is_special(&there) => Err(refused(to, PathRefusal::NotAFile)),
        Some(there) if options.force && !is_dir && there.kind != FileKind::Dir => Ok(true),
        Some(_) => Err(refused(to, PathRefusal::Exists)),
    }
}

/// Returns whether two paths are the same entry because this file system ignores the case of names.
fn is_other_case(tree: &OpenWorktree, from: &RepoPath, to: &RepoPath) -> Result<bool, RepoError> {
    let fold = |path: &RepoPath| path.file_name().map(fold_key);
    if from == to || from.parent() != to.parent() || fold(from) != fold(to) {
        return Ok(false);
    }
    let Some((dir, name)) = split_path(from.as_bytes()) else {
        return Ok(false);
    };
    let Ok(dir) = tree.root.any_spelling()?.open_dir(dir) else {
        return Ok(false);
    };
    Ok(match (dir.stat_opt(name)?, to.file_name()) {
        (Some(stat), Some(name)) => has_one_name(&stat) && dir.is_same_file(name, &stat),
        _ => false,
    })
}

/// Returns whether an entry has no second name. The links of a directory are those below it.
fn has_one_name(stat: &FileStat) -> bool {
    stat.kind == FileKind::Dir || stat.nlink <= 1
}

/// The two names of an entry that moves, and their directories.
struct RenameEnds<'m> {
    from: (SafeDir, &'m [u8]),
    to: (SafeDir, &'m [u8]),
    is_same_dir: bool,
}

impl<'m> RenameEnds<'m> {
    fn open(tree: &OpenWorktree, one: &'m EntryMove) -> Result<RenameEnds<'m>, PathError> {
        let bad = |path: &[u8]| PathError::new("rename", path, std::io::ErrorKind::InvalidInput);
        let (from, to) = (one.from.as_bytes(), one.to.as_bytes());
        let (dir, name) = split_path(from).ok_or_else(|| bad(from))?;
        let (new_dir, new_name) = split_path(to).ok_or_else(|| bad(to))?;
        Ok(RenameEnds {
            from: (tree.root.open_dir(dir)?, name),
            to: (tree.root.open_dir(new_dir)?, new_name),
            is_same_dir: dir == new_dir,
        })
    }

    /// Renames the entry. Never replaces anything.
    fn rename(&self) -> Result<(), PathError> {
        let ((source, name), (target, new_name)) = (&self.from, &self.to);
        let seen = source.stat(name)?;
        if self.is_same_dir && has_one_name(&seen) && source.is_same_file(new_name, &seen) {
            return source.rename(name, new_name);
        }
        source.move_to_anywhere(name, target, new_name)
    }
}

fn rename(tree: &OpenWorktree, one: &EntryMove) -> Result<(), PathError> {
    RenameEnds::open(tree, one)?.rename()
}

impl Switch<'_> {
    /// Removes a file that another replaces. Directories stay.
    fn make_room(&mut self, path: &[u8]) -> Result<(), RepoError> {
        let mut plan = Plan::default();
        match self.expected(path, None)? {
            Expectation::This(expected) => plan.remove.push(Removal {
                path: path.to_vec(),
                expected,
            }),
            Expectation::Nothing => {}
            Expectation::Other => self.refuse_changed(path.to_vec()),
        }
        self.run(plan)
    }
}

/// Returns the moves of `steps`: back to the former paths (`back`), or to the new ones again.
pub fn moves_of(steps: &Steps, back: bool) -> Vec<EntryMove> {
    let moves = steps.iter().filter_map(|(path, step)| match step {
        Step::Moved(to) => Some((path.clone(), to.clone())),
        _ => None,
    });
    let moves = moves.map(|(old, new)| if back { (new, old) } else { (old, new) });
    moves.map(|(from, to)| EntryMove { from, to }).collect()
}

/// Moves entries for an undo. All or none of them: if one cannot be moved, the others go back.
/// Entries that are at their new paths already stay.
pub fn move_all(
    tree: &OpenWorktree,
    moves: &[EntryMove],
    what: &'static str,
) -> Result<Vec<EntryMove>, RepoError> {
    let mut wanted = Vec::new();
    for one in moves {
        match (
            stat_at(tree, one.from.as_bytes())?,
            stat_at(tree, one.to.as_bytes())?,
        ) {
            (Some(_), None) => wanted.push(one.clone()),
            (Some(seen), Some(there)) if seen.inode() == there.inode() => wanted.push(one.clone()),
            (None, Some(_)) => {}
            (Some(_), Some(_)) => {
                let paths = vec![one.to.clone().into()];
                return Err(FilesError::WouldLose { what, paths }.into());
            }
            (None, None) => return Err(refused(&one.from, PathRefusal::Nowhere)),
        }
    }
    let mut done = Vec::new();
    for one in wanted {
        let moved = make_dirs(tree, one.to.as_bytes()).and_then(|()| rename(tree, &one));
        if let Err(e) = moved {
            move_back(tree, &done);
            return Err(e.into());
        }
        done.push(one);
    }
    Ok(done)
}

/// Takes moves back after a failure. What cannot be moved stays where it is, and status shows it.
pub fn move_back(tree: &OpenWorktree, done: &[EntryMove]) {
    for EntryMove { from, to } in done.iter().rev() {
        let _ = rename(
            tree,
            &EntryMove {
                from: to.clone(),
                to: from.clone(),
            },
        );
    }
}

/// Creates the directories above `path` that are missing.
fn make_dirs(tree: &OpenWorktree, path: &[u8]) -> Result<(), PathError> {
    for (end, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
        let Some((dir, name)) = split_path(&path[..end]) else {
            continue;
        };
        let dir = tree.root.open_dir(dir)?;
        if dir.stat_opt(name)?.is_none() {
            dir.create_dir(name, false)?;
        }
    }
    Ok(())
}

//! Restore: gives single files the content of a commit.
//!
//! `resolve` uses its helpers to keep files before it overwrites them.

use crate::diff::is_wanted;
use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::job::{Job, Moment};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::path::DiskPath;
use crate::refs::Effect;
use crate::repo::base::error::{FilesError, LookError, PathRefusal, RepoError};
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::{Keep, WorktreeSettings};
use crate::repo::conflict::choices::ConflictResolution;
use crate::repo::conflict::form::{Form, IsThere, Shown, ShownSide};
use crate::repo::conflict::pending::PendingConflict;
use crate::repo::conflict::settle::stat_of;
use crate::repo::conflict::{choices, form};
use crate::repo::files::checkout::CheckoutReport;
use crate::repo::files::checkout::dirs::{KnownDirs, add_above, is_dir, sorted};
use crate::repo::files::checkout::stages::SwitchProgress;
use crate::repo::files::checkout::stays::{self, LeftAlone, Stays};
use crate::repo::files::checkout::switch::{PendingWrites, Switch};
use crate::repo::files::checkout::way::is_special;
use crate::repo::files::named::refused;
use crate::repo::files::open_worktree::{OpenWorktree, is_like};
use crate::repo::files::same::{SameError, equals};
use crate::repo::files::saved::{Overwrite, Overwrites, SavedFiles, obstacle, set_steps, take};
use crate::repo::files::seen::Expectation;
use crate::repo::files::unwritten::UnwrittenPath;
use crate::repo::files::{ignored, notes, open_worktree, pending, untouched, untracked, unwritten};
use crate::repo::look::lack;
use crate::subset::Subset;
use crate::worktree::base::entry_at;
use crate::worktree::checkout::{Plan, Refusal, Removal};
use crate::worktree::ignore::Verdict;
use crate::worktree::select::is_under;
use crate::worktree::snapshot::Problem;
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// What to restore.
struct RestoreWhat<'a> {
    /// The commit. `None` for the worktree's own.
    pub from: Option<ObjectId>,
    /// The files and directories.
    pub paths: &'a [RepoPath],
    /// What happens to files at these very paths that the commit does not have.
    new_files: NewFiles,
}

/// What a restore does about a file that the commit does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewFiles {
    /// It fails: there is nothing to restore.
    Refused,
    /// It removes the file, unless ignore rules cover it.
    Removed,
}

impl Repo {
    /// Restores the files at `paths` from the commit `from`, or from the worktree's own commit if
    /// `from` is `None`.
    ///
    /// Files that the commit does not have stay. Fails with
    /// [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking), before it writes anything, if
    /// content is absent from this repository.
    ///
    /// Stores the overwritten files first: the restore is an operation, and its undo brings them
    /// back. Reopens conflicts at these paths, including those that were settled without a file. Discards
    /// those that no commit has, with the versions beside them that nobody has edited. If `from` has
    /// conflicts that the worktree's own commit does not have, they are conflicts that no commit has.
    pub fn restore(
        &self,
        from: Option<ObjectId>,
        paths: &[RepoPath],
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let what = RestoreWhat {
            from,
            paths,
            new_files: NewFiles::Refused,
        };
        restore(self, &what, settings, request, job)
    }

    /// Discards the uncommitted changes of the files at `paths`: like [`restore`](Self::restore) from
    /// the worktree's own commit, and files that this commit does not have are removed.
    ///
    /// All of it is one operation, and its undo brings back what was discarded.
    pub fn discard(
        &self,
        paths: &[RepoPath],
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let what = RestoreWhat {
            from: None,
            paths,
            new_files: NewFiles::Removed,
        };
        restore(self, &what, settings, request, job)
    }
}

/// Restores files from a commit. Files that the commit does not have stay, except those that
/// [`NewFiles::Removed`] concerns. If content is not stored, fails with `AbsentError::Lacking` and
/// writes nothing.
fn restore(
    repo: &Repo,
    what: &RestoreWhat<'_>,
    settings: &WorktreeSettings,
    request: OperationRequest,
    job: &Job,
) -> Result<CheckoutReport, RepoError> {
    let RestoreWhat { from, paths, .. } = *what;
    let _lock = worktree::lock_worktree(repo)?;
    let tree = open_worktree::open(repo, settings)?;
    let commit = from.or(tree.base).ok_or(LookError::NoCommit)?;
    let is_base = from.is_none() || from == tree.base;
    let (dropped, kept) = match &tree.form {
        Some(form) if is_base => split(form.chosen.clone(), paths),
        _ => Default::default(),
    };
    let is_there = |path: &RepoPath, entry: &TreeEntry| is_like(&tree.root, path, entry);
    let is_there: Option<IsThere<'_>> = if is_base { Some(&is_there) } else { None };
    let form = form::form_of(repo, &repo.read_commit(&commit)?, kept, is_there)?;
    let mut switch = Switch::new(repo, &tree, &form, &tree.subset, job);
    switch.find_dirty(settings)?;
    switch.find_left_overs()?;
    job.reached(Moment::Scanned);
    let asked_for = |path: &[u8]| paths.iter().any(|dir| is_under(path, dir.as_bytes()));
    let left = if is_base {
        left_overs(repo, &tree, &asked_for)?
    } else {
        Vec::new()
    };
    let discarded = if is_base {
        DiscardedConflicts::at(repo, &tree, &asked_for)?
    } else {
        DiscardedConflicts::default()
    };
    let mut wanted = wanted(
        repo,
        &tree,
        (&form, commit),
        (&dropped, &left, &discarded),
        what,
    )?;
    wanted.take_away(&discarded);
    let gone = added_by(repo, &form.tree, &dropped)?;
    let moves = switch.moves(&wanted.entries)?;
    let removed = removed_before(&switch, &gone)?;
    let overwrites = overwrites(&mut switch, &moves, &wanted, &gone)?;
    let new = if is_base {
        Vec::new()
    } else {
        conflicts_that_come(&tree, &form, &asked_for)
    };
    let mut noted = pending::with_new(repo, &tree, new)?;
    discarded.forget_in(&mut noted);
    if !dropped.is_empty() {
        choices::note_in(&mut noted, &form.chosen);
    }
    // A file that the user wants back is tracked again.
    untracked::forget_in(&mut noted, |path| is_base && asked_for(path));
    let mut tx = Transaction::begin(repo, &request);
    let keep = settings.keep;
    let saved = keep_for(&mut tx, &mut switch, overwrites, WHAT, keep, job)?;
    set_steps(
        &mut tx,
        &tree.name,
        saved.steps.as_ref(),
        &saved.told,
        stays::steps_of(&removed),
    )?;
    notes::put(&mut tx, &tree, &noted)?;
    tx.publish_changes(Effect::Written)?;
    for path in &wanted.removed {
        switch.remove_file(path)?;
    }
    switch.take_away(&wanted.new_files)?;
    switch.remove_left_overs(&left)?;
    switch.clear_in_the_way()?;
    switch.foresee(&moves);
    switch.put_back(moves)?;
    switch.sync()?;
    let stay = untouched::remove_untouched(repo, &tree, &gone, job)?;
    switch.progress.refused.extend(stay);
    forget_unwritten(repo, &switch, &asked_for, &wanted.entries)?;
    if is_base {
        let _ = switch.remember();
    }
    let SwitchProgress {
        files,
        bytes,
        removed,
        refused,
        ..
    } = switch.progress;
    Ok(CheckoutReport {
        head: repo.head()?,
        commit,
        files,
        bytes,
        removed,
        refused,
        subset: tree.subset.clone(),
        idle_patterns: Vec::new(),
        emptied: Vec::new(),
        adopted: Vec::new(),
        overwritten: saved.told,
    })
}

/// Conflicts of no commit that a restore of the worktree's own commit ends.
#[derive(Default)]
struct DiscardedConflicts {
    /// Their paths.
    paths: BTreeSet<RepoPath>,
    /// Their files that nobody has edited and that the commit does not have.
    files: BTreeSet<RepoPath>,
}

impl DiscardedConflicts {
    /// Finds those at some paths. One with a directory beside it stays.
    fn at(
        repo: &Repo,
        tree: &OpenWorktree,
        asked_for: &dyn Fn(&[u8]) -> bool,
    ) -> Result<DiscardedConflicts, RepoError> {
        let mut out = DiscardedConflicts::default();
        for one in pending::live_in(repo, tree)? {
            let has_dir = one
                .sides
                .iter()
                .any(|side| side.term.kind == Kind::Directory);
            if has_dir || !asked_for(one.at.path.as_bytes()) {
                continue;
            }
            let shown = form::show_pending(repo, &one)?;
            let own = shown.entry().map(|entry| (shown.at.path.clone(), entry));
            for (path, entry) in shown.sides.iter().map(ShownSide::file).chain(own) {
                let stat = stat_of(&tree.root, path.as_bytes())?;
                let is_same = match stat {
                    Some(stat) => equals(repo, &tree.root, path.as_bytes(), &entry, &stat)
                        .map_err(SameError::any)?,
                    None => false,
                };
                if is_same {
                    out.files.insert(path);
                }
            }
            out.paths.insert(one.at.path);
        }
        if let Some(form) = tree.form.as_ref().filter(|_| !out.files.is_empty()) {
            let mut committed = Vec::new();
            for path in &out.files {
                if entry_at(repo.objects(), &form.tree, path.as_bytes())?.is_some() {
                    committed.push(path.clone());
                }
            }
            out.files.retain(|path| !committed.contains(path));
        }
        Ok(out)
    }

    fn forget_in(&self, notes: &mut PathNotes) {
        let is_over = |path: &RepoPath, note: &Note| {
            matches!(note, Note::Conflict { .. }) && self.paths.contains(path)
        };
        notes.retain(|path, note| !is_over(path, note));
    }
}

/// Returns the conflicts of a commit at some paths that the worktree's own commit does not have.
fn conflicts_that_come(
    tree: &OpenWorktree,
    form: &Form,
    asked_for: &dyn Fn(&[u8]) -> bool,
) -> Vec<PendingConflict> {
    let is_committed = |shown: &Shown| {
        let mut own = tree.form.iter().flat_map(|form| &form.shown);
        own.any(|own| own.at.path == shown.at.path && own.at.id == shown.at.id)
    };
    let come = form.shown.iter();
    let come = come.filter(|shown| asked_for(shown.at.path.as_bytes()) && !is_committed(shown));
    come.filter_map(|shown| pending::in_subset(tree, shown))
        .collect()
}

/// Returns what should be gone at these paths and is still there, since a switch could not remove it.
fn left_overs(
    repo: &Repo,
    tree: &OpenWorktree,
    asked_for: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<UnwrittenPath>, RepoError> {
    let mut left = unwritten::unwritten(repo, tree)?;
    left.retain(|at| at.want.is_none() && asked_for(at.path.as_bytes()));
    Ok(left)
}

/// What a restore gives back.
#[derive(Default)]
struct RestoreSelection {
    /// The files, and directories that hold nothing.
    entries: Vec<(RepoPath, TreeEntry)>,
    /// Files that settle a conflict and are not in the commit: a choice or the user has added them.
    removed: Vec<RepoPath>,
    /// Files that the commit does not have and that are to go.
    new_files: Vec<Vec<u8>>,
}

impl RestoreSelection {
    /// Adds the files of conflicts that are discarded.
    fn take_away(&mut self, discarded: &DiscardedConflicts) {
        let files = discarded.files.iter().map(|path| path.as_bytes().to_vec());
        self.new_files.extend(files);
        self.new_files.sort();
        self.new_files.dedup();
    }
}

/// Returns what the paths select from the form of a commit. `dropped` are the choices at these
/// paths, which no longer count, `left` what has to go there, and `discarded` the conflicts that end.
fn wanted(
    repo: &Repo,
    tree: &OpenWorktree,
    (form, commit): (&Form, ObjectId),
    (dropped, left, discarded): (&[ConflictResolution], &[UnwrittenPath], &DiscardedConflicts),
    what: &RestoreWhat<'_>,
) -> Result<RestoreSelection, RepoError> {
    let mut wanted = RestoreSelection::default();
    for path in what.paths {
        if path.is_root() {
            collect(repo, path, form.tree, &tree.subset, &mut wanted.entries)?;
            continue;
        }
        let found = entry_at(repo.objects(), &form.tree, path.as_bytes())?;
        // A conflict includes its own file and the files beside it.
        let shown = form.shown.iter().find(|shown| shown.at.path == *path);
        if let Some(shown) = shown {
            for side in &shown.sides {
                collect_entry(
                    repo,
                    &side.path,
                    &side.entry(),
                    &tree.subset,
                    &mut wanted.entries,
                )?;
            }
            if found.is_none() {
                // A file there is the answer to the conflict, so the conflict is back when it is gone.
                let stat = stat_of(&tree.root, path.as_bytes())?;
                if stat.is_some_and(|stat| stat.kind != FileKind::Dir && !is_special(&stat)) {
                    wanted.removed.push(path.clone());
                }
                continue;
            }
        }
        let is_left = |at: &UnwrittenPath| is_under(at.path.as_bytes(), path.as_bytes());
        if found.is_none() && left.iter().any(is_left) {
            continue;
        }
        let ends = discarded.paths.contains(path);
        if found.is_none() && (ends || what.new_files == NewFiles::Removed) {
            wanted.new_files.extend(new_file(repo, tree, path)?);
            continue;
        }
        let found = found.ok_or_else(|| {
            RepoError::Look(LookError::NoSuchPath {
                revision: commit.short(12),
                path: path.into(),
            })
        })?;
        if is_wanted(&tree.subset, path, &found) {
            collect_entry(repo, path, &found, &tree.subset, &mut wanted.entries)?;
        } else if !dropped
            .iter()
            .any(|c| is_under(c.path.as_bytes(), path.as_bytes()))
        {
            return Err(FilesError::OutsideSubset(path.clone()).into());
        }
    }
    // Paths may overlap, and be given twice.
    let mut seen = HashSet::new();
    wanted.entries.retain(|(path, _)| seen.insert(path.clone()));
    wanted.removed.sort();
    wanted.removed.dedup();
    wanted.new_files.sort();
    wanted.new_files.dedup();
    Ok(wanted)
}

/// Returns the path of a file that the commit does not have, if it is there. Fails if the worktree's
/// subset does not have the path, if the file is ignored, or if an undo could not bring it back.
fn new_file(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
) -> Result<Option<Vec<u8>>, RepoError> {
    if !tree.subset.includes(path.as_bytes(), false) {
        return Err(FilesError::OutsideSubset(path.clone()).into());
    }
    let Some(stat) = stat_of(&tree.root, path.as_bytes())? else {
        return Ok(None);
    };
    if stat.kind == FileKind::Dir {
        return Err(refused(path, PathRefusal::Directory));
    }
    if is_special(&stat) {
        return Err(refused(path, PathRefusal::NotAFile));
    }
    match ignored::verdict(repo, tree, path, false)? {
        Verdict::Ignored => Err(refused(path, PathRefusal::Ignored)),
        Verdict::Wanted | Verdict::Unknown => Ok(Some(path.as_bytes().to_vec())),
    }
}

/// Collects what the subset includes of an entry: the entry itself, or all below a directory.
fn collect_entry(
    repo: &Repo,
    path: &RepoPath,
    entry: &TreeEntry,
    subset: &Subset,
    out: &mut Vec<(RepoPath, TreeEntry)>,
) -> Result<(), RepoError> {
    match entry.kind {
        _ if !is_wanted(subset, path, entry) => {}
        Kind::Directory if entry.id != empty_tree_id() => {
            collect(repo, path, entry.id, subset, out)?;
        }
        _ => out.push((path.clone(), entry.clone())),
    }
    Ok(())
}

/// Returns the files that choices have added beside their conflicts and that a tree does not have.
fn added_by(
    repo: &Repo,
    root: &ObjectId,
    choices: &[ConflictResolution],
) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
    let mut out = Vec::new();
    for (path, entry) in choices.iter().flat_map(ConflictResolution::edits) {
        if let Some(entry) = entry
            && entry_at(repo.objects(), root, path.as_bytes())?.is_none()
        {
            out.push((path, entry));
        }
    }
    Ok(out)
}

/// Returns those of the paths `gone`, the files of choices that no longer count, at which the user has removed
/// the file: an undo, with which the choices count again, leaves them without one.
fn removed_before(
    switch: &Switch<'_>,
    gone: &[(RepoPath, TreeEntry)],
) -> Result<LeftAlone, RepoError> {
    let (mut out, mut looked) = (LeftAlone::new(), BTreeSet::new());
    for path in gone.iter().map(|(path, _)| path.as_bytes()) {
        if switch.stat(path)?.is_none() {
            let emptied = switch.emptied_above(path, &mut looked)?;
            out.insert(path.to_vec(), Stays::Gone(emptied));
        }
    }
    Ok(out)
}

/// Returns what a restore overwrites and removes. Fails if it would lose anything that cannot be
/// kept.
fn overwrites(
    switch: &mut Switch<'_>,
    moves: &[(Vec<u8>, TreeEntry)],
    wanted: &RestoreSelection,
    gone: &[(RepoPath, TreeEntry)],
) -> Result<Overwrites, RepoError> {
    let mut overwrites = switch.overwrites_of(moves)?;
    let lost = switch.overwrite_in_the_way(&switch.decision.in_the_way, &mut overwrites)?;
    if !lost.is_empty() {
        let (what, paths) = (WHAT, DiskPath::all(lost));
        return Err(FilesError::WouldLose { what, paths }.into());
    }
    let removed = wanted
        .removed
        .iter()
        .chain(gone.iter().map(|(path, _)| path));
    let removed = removed.map(|path| path.as_bytes());
    for path in removed.chain(wanted.new_files.iter().map(Vec::as_slice)) {
        let overwrite = Overwrite {
            committed: None,
            after: None,
        };
        overwrites.insert(path.to_vec(), overwrite);
    }
    Ok(overwrites)
}

/// Takes restored paths off the list of those that an earlier command could not write. From then on,
/// whatever differs there is the user's. `wanted` are the entries that were restored.
fn forget_unwritten(
    repo: &Repo,
    switch: &Switch<'_>,
    asked_for: &dyn Fn(&[u8]) -> bool,
    wanted: &[(RepoPath, TreeEntry)],
) -> Result<(), RepoError> {
    let refused: BTreeSet<&[u8]> = switch
        .progress
        .refused
        .iter()
        .map(|p| p.path.as_bytes())
        .collect();
    let wanted: BTreeSet<&[u8]> = wanted.iter().map(|(path, _)| path.as_bytes()).collect();
    let noted = unwritten::noted_unwritten(repo)?;
    let (before, mut stay) = (noted.len(), Vec::new());
    for at in noted {
        let path = at.path.as_bytes();
        // A commit that does not have the path has not restored it.
        let is_left = || -> Result<bool, RepoError> {
            let base = switch.base_entry(path)?;
            Ok(!wanted.contains(path) && at.holds(repo, switch.request.tree, base.as_ref())?)
        };
        if !asked_for(path) || refused.contains(path) || is_left()? {
            stay.push(at);
        }
    }
    if stay.len() < before {
        unwritten::note_unwritten(repo, &stay)?;
    }
    Ok(())
}

/// Stores the files that are about to be overwritten. The caller publishes the steps that overwrite them
/// before it touches any file.
pub fn keep_for(
    tx: &mut Transaction<'_>,
    switch: &mut Switch<'_>,
    overwrites: Overwrites,
    what: &'static str,
    keep: Keep,
    job: &Job,
) -> Result<SavedFiles, RepoError> {
    if overwrites.is_empty() {
        return Ok(SavedFiles::default());
    }
    let taken = take(tx, switch.request.tree, &overwrites, None, what, keep, job)?;
    switch.decision.note_seen(&taken, overwrites);
    // What is put back may be read from what was just stored.
    tx.objects()?;
    Ok(taken)
}

fn collect(
    repo: &Repo,
    at: &RepoPath,
    tree: ObjectId,
    subset: &Subset,
    out: &mut Vec<(RepoPath, TreeEntry)>,
) -> Result<(), RepoError> {
    repo.list_subset(at, tree, subset, &mut |listed| {
        out.push((listed.path, listed.entry));
        Ok(ControlFlow::Continue(()))
    })
}

/// Splits choices into those for conflicts at or under `paths`, and all others.
fn split(
    chosen: Vec<ConflictResolution>,
    paths: &[RepoPath],
) -> (Vec<ConflictResolution>, Vec<ConflictResolution>) {
    let is_named = |chosen: &ConflictResolution| {
        let path = chosen.path.as_bytes();
        paths.iter().any(|dir| is_under(path, dir.as_bytes()))
    };
    chosen.into_iter().partition(is_named)
}

impl Switch<'_> {
    /// Returns the wanted entries that the worktree does not have yet, and notes what is in the
    /// way. Fails if content is not stored.
    fn moves(
        &mut self,
        wanted: &[(RepoPath, TreeEntry)],
    ) -> Result<Vec<(Vec<u8>, TreeEntry)>, RepoError> {
        let mut dirs = KnownDirs::default();
        let mut moves = Vec::new();
        for (path, entry) in wanted {
            let bytes = path.as_bytes().to_vec();
            if let Some(stat) = self.stat_in(&bytes, &mut dirs)? {
                match (stat.kind == FileKind::Dir, entry.kind == Kind::Directory) {
                    (true, true) => continue,
                    (false, false) => {}
                    _ => {
                        self.decision.in_the_way.insert(bytes.clone());
                    }
                }
                // The path equals the base, and the base has the wanted entry: nothing to do.
                let is_left = self.known.left.contains_key(&bytes);
                let clean = self.clean_entry(&bytes)?.filter(|_| !is_left);
                if clean.is_some_and(|have| have.same_content(entry)) {
                    continue;
                }
            } else if let Some(above) = obstacle(self.request.tree, &bytes)? {
                self.decision.in_the_way.insert(above);
            }
            moves.push((bytes, entry.clone()));
        }
        let needed = moves.iter().map(|(path, entry)| (&path[..], entry));
        lack::check_entries_here(self.request.repo, needed)?;
        Ok(moves)
    }

    /// Returns what an undo gives a path that is about to be overwritten and has nothing of the user: the base's
    /// entry. A left-over that the base has no file for is given back itself.
    pub fn clean_entry(&self, path: &[u8]) -> Result<Option<TreeEntry>, RepoError> {
        if self.known.dirty.contains_key(path) {
            return Ok(None);
        }
        let base = self.base_entry(path)?;
        let left = self.known.left.get(path);
        let left = left.and_then(|left| left.entry.clone());
        Ok(match left.filter(|left| !is_dir(left)) {
            Some(left) => base.filter(|base| !is_dir(base)).or(Some(left)),
            None => base,
        })
    }

    fn overwrites_of(&self, moves: &[(Vec<u8>, TreeEntry)]) -> Result<Overwrites, RepoError> {
        let mut overwrites = Overwrites::new();
        for (path, entry) in moves {
            let overwrite = Overwrite {
                committed: self.clean_entry(path)?,
                after: Some(entry.clone()),
            };
            overwrites.insert(path.clone(), overwrite);
        }
        Ok(overwrites)
    }

    /// Removes what an earlier switch should have removed. It is committed, so an undo does not bring it
    /// back.
    fn remove_left_overs(&mut self, left: &[UnwrittenPath]) -> Result<(), RepoError> {
        let (mut plan, mut dirs, mut above) = (Plan::default(), BTreeSet::new(), BTreeSet::new());
        for at in left {
            let path = at.path.as_bytes().to_vec();
            add_above(&path, &mut above);
            if at.is_left_dir() {
                dirs.insert(path);
                continue;
            }
            match at.seen(self.request.repo, self.request.tree)? {
                Some(expected) => plan.remove.push(Removal { path, expected }),
                None => self.refuse_changed(path),
            }
        }
        let asked_for = dirs.clone();
        let noted = unwritten::unwritten(self.request.repo, self.request.tree)?;
        let noted = noted.into_iter().filter(UnwrittenPath::is_left_dir);
        let noted = noted.map(|at| at.path.as_bytes().to_vec());
        dirs.extend(noted.filter(|dir| above.contains(dir)));
        plan.remove_dirs = sorted(dirs);
        self.run(plan)?;
        for dir in asked_for.intersection(&self.progress.in_use) {
            let why = Refusal::InUse.to_string();
            self.progress.refused.push(Problem::new(dir.clone(), why));
        }
        Ok(())
    }

    /// Removes the file at `path`, unless it is a directory or has changed.
    fn remove_file(&mut self, path: &RepoPath) -> Result<(), RepoError> {
        let path = path.as_bytes();
        match stat_of(&self.request.tree.root, path)? {
            Some(stat) if stat.kind != FileKind::Dir => {}
            _ => return Ok(()),
        }
        let mut plan = Plan::default();
        match self.expected(path, None)? {
            Expectation::This(expected) => plan.remove.push(Removal {
                path: path.to_vec(),
                expected,
            }),
            Expectation::Nothing | Expectation::Other => self.refuse_changed(path.to_vec()),
        }
        self.run(plan)
    }

    /// Writes entries over any existing files.
    pub fn put_back(&mut self, moves: Vec<(Vec<u8>, TreeEntry)>) -> Result<(), RepoError> {
        let mut pending = PendingWrites::default();
        for (path, entry) in moves {
            self.add(&mut pending, path, &entry)?;
        }
        self.flush(&mut pending)
    }
}

/// Names the action in messages that refuse it.
const WHAT: &str = "this restore";

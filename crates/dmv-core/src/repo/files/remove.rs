//! `rm`: removes tracked files from the worktree.
//!
//! What is removed is stored first, like everything that a command overwrites on request, so one
//! undo brings it back. Files outside of the worktree's subset are noted instead: the next commit
//! leaves them out (see `untracked`).

use crate::fsutil::FileKind;
use crate::job::{Job, Moment};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::path::DiskPath;
use crate::refs::Effect;
use crate::repo::base::error::{FilesError, LookError, PathRefusal, RepoError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::files::checkout::dirs::{add_above, by_dir, sorted};
use crate::repo::files::checkout::restore::keep_for;
use crate::repo::files::checkout::switch::{PLAN_FILES, Switch};
use crate::repo::files::checkout::way::is_special;
use crate::repo::files::named::{NamedFiles, named};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{Overwrite, Overwrites, OverwrittenFiles, set_steps};
use crate::repo::files::seen::Expectation;
use crate::repo::files::{notes, open_worktree, untracked, unwritten};
use crate::worktree::checkout::{Plan, Removal};
use crate::worktree::snapshot::Problem;
use std::collections::{BTreeMap, BTreeSet};

/// What to remove, and how.
pub struct RemoveOptions {
    /// The files and directories, relative to the worktree's root.
    pub paths: Vec<RepoPath>,
    /// Whether directories may be named.
    pub recursive: bool,
    /// Whether to remove files with uncommitted changes.
    pub force: bool,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// What a removal did.
#[derive(Debug)]
pub struct RemoveReport {
    /// The files that are gone, in path order.
    pub removed: Vec<RepoPath>,
    /// Files outside of the worktree's subset that the next commit leaves out.
    pub outside: Vec<RepoPath>,
    /// Files that stay, and why.
    pub refused: Vec<Problem>,
    /// The removed files that had uncommitted changes.
    pub overwritten: OverwrittenFiles,
}

/// Names the action in messages that refuse it.
const WHAT: &str = "this rm";

impl Repo {
    /// Removes tracked files from the worktree. The next commit does not have them.
    ///
    /// Stores the files first: one undo brings them back. Fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose) if a file has uncommitted
    /// changes, unless forced. Files outside of the worktree's subset are left out by the next
    /// commit, and need not be stored in this repository.
    pub fn remove(&self, options: &RemoveOptions, job: &Job) -> Result<RemoveReport, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let tree = open_worktree::open(self, &options.settings)?;
        let form = tree.form.as_ref().ok_or(LookError::NoCommit)?;
        let NamedFiles { inside, outside } = named(self, &tree, &options.paths, options.recursive)?;
        let mut switch = Switch::new(self, &tree, form, &tree.subset, job);
        switch.find_dirty(&options.settings)?;
        switch.find_left_overs()?;
        job.reached(Moment::Scanned);
        let overwrites = overwrites(&switch, &inside, options.force)?;
        job.reached(Moment::Checked);
        let paths: Vec<Vec<u8>> = overwrites.keys().cloned().collect();
        let mut tx = Transaction::begin(self, &options.request);
        let keep = options.settings.keep;
        let saved = keep_for(&mut tx, &mut switch, overwrites, WHAT, keep, job)?;
        set_steps(
            &mut tx,
            &tree.name,
            saved.steps.as_ref(),
            &saved.told,
            Steps::default(),
        )?;
        let mut noted = tree.notes.clone();
        untracked::note_in(&mut noted, &outside);
        notes::put(&mut tx, &tree, &noted)?;
        tx.publish_changes(Effect::Written)?;
        switch.take_away(&paths)?;
        switch.sync()?;
        let absent = forget_absent(self, &tree, &inside)?;
        let refused: BTreeSet<&[u8]> = switch
            .progress
            .refused
            .iter()
            .map(|p| p.path.as_bytes())
            .collect();
        let removed = paths.iter().filter(|path| !refused.contains(&path[..]));
        Ok(RemoveReport {
            removed: removed
                .cloned()
                .map(RepoPath::from_checked)
                .chain(absent)
                .collect(),
            outside: RepoPath::all_checked(outside.into_keys()),
            refused: switch.progress.refused,
            overwritten: saved.told,
        })
    }
}

/// Returns the entries of `inside` that are on disk. Fails if one of them has uncommitted changes,
/// unless with `force`, or if nothing could bring it back.
fn overwrites(
    switch: &Switch<'_>,
    inside: &BTreeMap<Vec<u8>, TreeEntry>,
    force: bool,
) -> Result<Overwrites, RepoError> {
    let (mut lost, mut overwrites) = (Vec::new(), Overwrites::new());
    for (path, tracked) in inside {
        let Some(stat) = switch.stat(path)? else {
            continue;
        };
        if is_special(&stat) {
            // Nothing could bring it back.
            let (path, why) = (RepoPath::from_checked(path.clone()), PathRefusal::NotAFile);
            return Err(FilesError::PathRefused { path, why }.into());
        }
        let committed = switch.clean_entry(path)?;
        let is_dir = stat.kind == FileKind::Dir;
        // A directory in the place of a tracked file is the user's.
        if is_dir && tracked.kind != Kind::Directory {
            continue;
        }
        if committed.is_none() && !is_dir && !force && !switch.request.tree.untracked.has(path) {
            lost.push(path.clone());
        }
        let overwrite = Overwrite {
            committed: committed.filter(|_| !is_dir),
            after: None,
        };
        overwrites.insert(path.clone(), overwrite);
    }
    if lost.is_empty() {
        return Ok(overwrites);
    }
    let (what, paths) = (WHAT, DiskPath::all(lost));
    Err(FilesError::WouldLose { what, paths }.into())
}

/// Takes files that no switch could write, and that are not there, off the list of these: the next commit
/// leaves them out. Returns their paths.
fn forget_absent(
    repo: &Repo,
    tree: &OpenWorktree,
    request: &BTreeMap<Vec<u8>, TreeEntry>,
) -> Result<Vec<RepoPath>, RepoError> {
    let mut left = unwritten::unwritten(repo, tree)?;
    let is_under = |path: &[u8]| {
        let above = |end: usize| request.contains_key(&path[..end]);
        let slashes = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        above(path.len()) || slashes.map(|(at, _)| at).any(above)
    };
    let (gone, stay): (Vec<_>, Vec<_>) = left
        .drain(..)
        .partition(|at| at.have.is_none() && at.want.is_some() && is_under(at.path.as_bytes()));
    if !gone.is_empty() {
        unwritten::note_unwritten(repo, &stay)?;
    }
    Ok(gone.into_iter().map(|at| at.path).collect())
}

impl Switch<'_> {
    /// Removes files and empty directories, and the directories that they leave empty.
    pub fn take_away(&mut self, paths: &[Vec<u8>]) -> Result<(), RepoError> {
        let (mut plan, mut dirs) = (Plan::default(), BTreeSet::new());
        let mut paths: Vec<&Vec<u8>> = paths.iter().collect();
        paths.sort_by(|a, b| by_dir(a, b));
        for path in paths {
            add_above(path, &mut dirs);
            let stat = self.stat(path)?;
            if stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                dirs.insert(path.clone());
                continue;
            }
            match self.expected(path, None)? {
                Expectation::This(expected) => plan.remove.push(Removal {
                    path: path.clone(),
                    expected,
                }),
                Expectation::Nothing => {}
                Expectation::Other => self.refuse_changed(path.clone()),
            }
            if plan.remove.len() >= PLAN_FILES {
                self.run(std::mem::take(&mut plan))?;
            }
        }
        plan.remove_dirs = sorted(dirs);
        self.run(plan)
    }
}

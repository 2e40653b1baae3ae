//! Reset: moves the current branch to another commit. The files stay as they are, or become equal to
//! the commit.

use crate::diff::diff_trees;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::refs::{Change, Effect};
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::head::Head;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{whole, worktree};
use crate::repo::conflict::{at, choices, form};
use crate::repo::files::checkout::remember::remember_base;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::commit::advance;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::OverwrittenFiles;
use crate::repo::files::{checkout, notes, open_worktree, pending, unfinished};
use crate::repo::look::history;
use crate::repo::verbs::merge::{MergeReport, moved};
use std::ops::ControlFlow;

/// What a reset does to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetFiles {
    /// They stay as they are. What differs from the commit is uncommitted.
    Keep,
    /// They become equal to the commit. Uncommitted changes to tracked files are kept for an undo.
    Match,
}

/// What a reset did.
#[derive(Debug)]
pub struct ResetToReport {
    /// The same as after a fast-forward.
    pub merge: MergeReport,
    /// Commits that the branch had and no longer has, newest first.
    pub left: Vec<ObjectId>,
    /// Uncommitted work that was overwritten.
    pub overwritten: OverwrittenFiles,
    /// The number of files outside the worktree's subset that differ between the two commits. They
    /// are no uncommitted changes, because this worktree does not have them.
    pub outside: u64,
}

impl Repo {
    /// Moves the current branch to the commit `to`.
    ///
    /// With [`ResetFiles::Keep`] no file changes: what differs from `to` is uncommitted afterwards.
    /// With [`ResetFiles::Match`] the files become equal to `to`. Uncommitted changes to tracked
    /// files, and untracked files in the way, are stored first, and an undo brings them back. Other
    /// untracked files stay.
    pub fn reset(
        &self,
        to: ObjectId,
        files: ResetFiles,
        request: &OperationRequest,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<ResetToReport, RepoError> {
        let _lock = worktree::lock_if_worktree(self)?;
        let (head, tip) = (self.head()?, self.head_commit()?);
        whole::check_complete(self, &[to])?;
        let stored = self.read_commit(&to)?.tree;
        let mut report = ResetToReport {
            merge: MergeReport::new(to, moved(&head, to)),
            left: Vec::new(),
            overwritten: OverwrittenFiles::default(),
            outside: 0,
        };
        if self.worktree_root().is_none() {
            report.left = left_by(self, [tip, None], to)?;
            reset_bare(self, (&head, tip, to), files, request, &mut report)?;
            return Ok(report);
        }
        let tree = open_worktree::open(self, settings)?;
        report.left = left_by(self, [tip, tree.base], to)?;
        let changes = advance(&tree, &head, tip, to).into_iter();
        let changes: Vec<Change> = changes.filter(|change| change.old != change.new).collect();
        match files {
            ResetFiles::Keep => {
                report.outside = changes_outside(self, &tree, stored)?;
                keep_files(self, &tree, to, changes, request, &mut report)?;
            }
            ResetFiles::Match => {
                let done = match_files(self, &tree, to, changes, request, settings, job)?;
                let (done, is_same) = done;
                report.merge.up_to_date = is_same;
                report.overwritten = done.overwritten;
                report.merge.take(done);
            }
        }
        Ok(report)
    }
}

/// Returns the commits that the present tips have and `to` does not have.
fn left_by(
    repo: &Repo,
    tips: [Option<ObjectId>; 2],
    to: ObjectId,
) -> Result<Vec<ObjectId>, RepoError> {
    let mut left = Vec::new();
    for id in tips.into_iter().flatten() {
        let gone = history::only_in(repo, id, to)?.into_iter();
        left.extend(gone.filter(|id| !left.contains(id)).collect::<Vec<_>>());
    }
    Ok(left)
}

/// Moves the branch of a bare repository, which has no files.
fn reset_bare(
    repo: &Repo,
    (head, tip, to): (&Head, Option<ObjectId>, ObjectId),
    files: ResetFiles,
    request: &OperationRequest,
    report: &mut ResetToReport,
) -> Result<(), RepoError> {
    let (Head::Branch(name), ResetFiles::Keep) = (head, files) else {
        return Err(WorktreeError::NoWorktree.into());
    };
    report.merge.up_to_date = tip == Some(to);
    if !report.merge.up_to_date {
        let change = Change {
            key: format!("branch/{name}"),
            old: tip.map(|id| id.as_bytes().to_vec()),
            new: Some(to.as_bytes().to_vec()),
        };
        let tx = Transaction::begin(repo, request).with([change]);
        tx.publish(Effect::Kept)?;
    }
    Ok(())
}

/// Makes `to` the base of the worktree and touches no file.
fn keep_files(
    repo: &Repo,
    tree: &OpenWorktree,
    to: ObjectId,
    changes: Vec<Change>,
    request: &OperationRequest,
    report: &mut ResetToReport,
) -> Result<(), RepoError> {
    report.merge.up_to_date = changes.is_empty();
    if changes.is_empty() {
        return Ok(());
    }
    if let Some(unfinished) = unfinished::unfinished(repo, tree.base_tree, &tree.subset)? {
        // Nobody could tell any more which of the files are the user's.
        return Err(WorktreeError::Unfinished {
            command: unfinished.command,
        }
        .into());
    }
    let form = form::form_at(repo, &to)?;
    form.check_known(|path| tree.subset.includes(path, false))?;
    // The files of conflicts that the former base has stay, too.
    let (mut stay, former) = (
        Vec::new(),
        tree.form.iter().flat_map(|former| &former.shown),
    );
    for shown in former {
        let at = at::conflict_at(repo, &form.stored, shown.at.path.clone())?;
        let is_noted = tree
            .pending
            .iter()
            .any(|one| one.touches(shown.at.path.as_bytes()));
        if !is_noted && at.is_none_or(|at| at.id != shown.at.id) {
            stay.extend(pending::in_subset(tree, shown));
        }
    }
    let noted = pending::with_new(repo, tree, stay)?;
    let mut tx = Transaction::begin(repo, request).with(changes);
    notes::put(&mut tx, tree, &noted)?;
    tx.publish(Effect::Kept)?;
    // The stat cache is an optimization for the next scan.
    let _ = remember_base(repo, tree, form.tree);
    Ok(())
}

/// Makes the files equal to the commit `to`. Returns also whether nothing had to change.
fn match_files(
    repo: &Repo,
    tree: &OpenWorktree,
    to: ObjectId,
    changes: Vec<Change>,
    request: &OperationRequest,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<(SwitchResult, bool), RepoError> {
    // Choices for conflicts are uncommitted changes, too.
    let mut noted = tree.notes.clone();
    choices::note_in(&mut noted, &[]);
    let form = form::form_with(repo, &repo.read_commit(&to)?, &noted)?;
    let what = SwitchTo {
        force: true,
        notes: &noted,
        ..SwitchTo::new("this reset", request, form, tree, settings)
    };
    let mut is_same = false;
    let tx = Transaction::begin(repo, request).with(changes);
    let done = checkout::switch_files(tx, tree, &what, job, |tx| {
        is_same = !tx.has_changes();
        tx.publish_changes(Effect::Written)
    })?;
    is_same &= done.files == 0 && done.removed == 0 && done.refused.is_empty();
    Ok((done, is_same))
}

/// Counts the files outside the worktree's subset that differ between its base and the tree `to`,
/// as far as the repository stores their directories.
fn changes_outside(repo: &Repo, tree: &OpenWorktree, to: ObjectId) -> Result<u64, RepoError> {
    let Some(base) = &tree.form else {
        return Ok(0);
    };
    if tree.subset.is_everything() {
        return Ok(0);
    }
    let mut found = 0;
    let is_file = |entry: Option<&TreeEntry>| entry.is_some_and(|e| e.kind != Kind::Directory);
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        let is_outside = !tree.subset.includes(path.as_bytes(), false);
        found += u64::from(is_outside && (is_file(old) || is_file(new)));
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    match diff_trees(repo.objects(), Some(base.stored), Some(to), &mut note) {
        Ok(_) | Err(ObjectError::Missing { .. }) => Ok(found),
        Err(e) => Err(e.into()),
    }
}

//! The conflicts of a commit that is being made: which stay in it, which it settles, and which it
//! leaves out.

use super::{CommitOptions, CommitReport, StoredCommit, readable, remove_leftover};
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::refs::Effect;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::publish;
use crate::repo::conflict::form::Form;
use crate::repo::conflict::settle::UnsettledConflict;
use crate::repo::conflict::{at, choices, settle};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::{notes, pending};
use crate::repo::look::entries;
use crate::store::{MetaWriter, StoreWriter};
use crate::worktree::scan::Select;
use crate::worktree::snapshot::Problem;
use std::collections::BTreeSet;

impl CommitReport {
    /// Notes the conflicts that no commit has and that this one leaves out. Those of other paths than the
    /// selected ones are not worth telling.
    fn leave_out(&mut self, form: &Form, left: Vec<UnsettledConflict>, select: &dyn Select) {
        self.still_pending = left.iter().map(|left| left.path.clone()).collect();
        let selected = form.shown.iter().filter(|shown| shown.is_selected(select));
        let selected: BTreeSet<&RepoPath> = selected.map(|shown| &shown.at.path).collect();
        let told = left
            .into_iter()
            .filter(|left| selected.contains(&left.path));
        self.marked = told.collect();
    }
}

/// Ends the conflicts that no commit has and that the files settle with what the commit has anyway.
pub(super) fn end_settled(
    repo: &Handle,
    tree: &OpenWorktree,
    writer: StoreWriter<'_>,
    options: &CommitOptions<'_>,
    report: &mut CommitReport,
    job: &Job,
) -> Result<(), RepoError> {
    let mut noted = tree.notes.clone();
    pending::end_in(repo, &mut noted, tree, &report.still_pending)?;
    let mut meta = MetaWriter::new(&writer);
    let ended = notes::put(repo, tree, &noted, &options.request, &mut meta)?;
    meta.flush()?;
    drop(meta);
    let Some(change) = ended else {
        return Ok(());
    };
    let sealed = publish::seal(repo, writer)?;
    let (request, changes) = (options.request.clone(), vec![change]);
    publish::publish(repo, request, Some(sealed), changes, Effect::Kept)?;
    remove_leftover(repo, tree, report, job)
}

/// Returns the tree to commit: the tree made from the files, with open conflicts as entries again.
/// It has to read the tree made from the files, so it seals that first and continues with another
/// writer.
pub(super) fn without_forms<'s>(
    repo: &'s Handle,
    tree: &OpenWorktree,
    (writer, before, made): StoredCommit<'s>,
    options: &CommitOptions<'_>,
    report: &mut CommitReport,
) -> Result<StoredCommit<'s>, RepoError> {
    let Some(form) = tree.form.as_ref().filter(|form| form.has_conflicts()) else {
        return Ok((writer, before, made));
    };
    let files = match made {
        Some(files) => files.id,
        None if form.chosen.is_empty() && !options.allow_markers => {
            let mut left = Vec::new();
            for shown in &form.shown {
                if shown.is_pending {
                    left.push(settle::unsettled(repo, shown, shown.entry().as_ref())?);
                } else {
                    report.conflicts.push(shown.at.path.clone());
                }
            }
            report.leave_out(form, left, options.select);
            return Ok((writer, before, None));
        }
        None => form.tree,
    };
    let (writer, sealed) = readable(repo, writer, before)?;
    let mut meta = MetaWriter::new(&writer);
    let how = (options.select, options.allow_markers);
    let (summary, settled) = settle::take_back(repo, form, files, how, &mut meta)?;
    if options.allow_markers {
        pending::store_files(repo, form, &mut meta)?;
    }
    meta.flush()?;
    drop(meta);
    let open = settled.open.into_iter().map(|at| at.path);
    let waiting = settled.waiting.iter().map(|chosen| chosen.path.clone());
    report.conflicts = open.chain(waiting).collect();
    report.edited = settled.edited;
    let covered = settled.covered.iter().map(|path| {
        Problem::new(
            path,
            "this directory is in the place of an unresolved conflict",
        )
    });
    report.problems.extend(covered);
    report.settled = settled.settled;
    report.leave_out(form, settled.left_out, options.select);
    report.leftover.extend(settled.leftover);
    report.waiting = settled.waiting;
    Ok((writer, Some(sealed), Some(summary)))
}

/// Removes the choices that a commit has used from `notes`.
pub(super) fn end_choices(notes: &mut PathNotes, tree: &OpenWorktree, report: &CommitReport) {
    let count = tree.form.as_ref().map_or(0, |form| form.chosen.len());
    if report.waiting.len() != count {
        choices::note_in(notes, &report.waiting);
    }
}

/// Returns the paths of the base's conflicts without those that are settled, and those of conflicts
/// in a version that settled another one.
pub(super) fn still_open(
    repo: &Handle,
    tree: &OpenWorktree,
    report: &CommitReport,
) -> Result<Vec<RepoPath>, RepoError> {
    let Some(base) = &tree.base else {
        return Ok(Vec::new());
    };
    let base = at::conflict_paths(repo, &entries::read_commit(repo, base)?)?;
    let mut open: BTreeSet<RepoPath> = base.into_iter().collect();
    for path in &report.settled {
        open.remove(path);
    }
    open.extend(report.conflicts.iter().cloned());
    Ok(open.into_iter().collect())
}

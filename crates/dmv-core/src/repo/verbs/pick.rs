//! Cherry-pick and rebase: make the changes of commits again on the current branch, or on top of
//! another commit.
//!
//! Both make one line of commits (see [`replay`]), switch the worktree's files once, and move the
//! branch, as one operation.

use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::Job;
use crate::repo::base::error::{LookError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::{whole, worktree};
use crate::repo::look::history::only_in;
use crate::repo::verbs::merge;
use crate::repo::verbs::merge::{MergeOptions, MergeReport, Site};
use crate::repo::verbs::replay;
use crate::repo::verbs::replay::{How, Line, ReplayedCommit, pick_of};
use std::collections::HashSet;

/// The commits that a cherry-pick applies.
#[derive(Clone, Copy, Debug)]
pub enum PickFrom {
    /// One commit.
    One(ObjectId),
    /// The commits that the second one has and the first one does not have, oldest first.
    Range(ObjectId, ObjectId),
}

/// How to cherry-pick.
#[derive(Clone, Copy, Debug, Default)]
pub struct PickOptions {
    /// For merge commits, the parent that the change starts from, counted from 1.
    pub mainline: Option<usize>,
    /// Whether each message gets a line that names the commit it comes from.
    pub notes_origin: bool,
}

/// What a cherry-pick or rebase did.
#[derive(Debug)]
pub struct PickReport {
    /// The same as after a merge.
    pub merge: MergeReport,
    /// The commits of the line, oldest first.
    pub made: Vec<ReplayedCommit>,
    /// Commits that are left out because the branch already has their changes.
    pub dropped: Vec<ObjectId>,
}

impl Repo {
    /// Applies the changes of commits to the current branch, each as a new commit.
    ///
    /// Keeps uncommitted changes that do not collide. If changes would be lost, fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths, before it
    /// changes anything. Otherwise, it completes: commits may have conflicts, and the report lists
    /// those of the last one. The message in `options` is not used.
    pub fn cherry_pick(
        &self,
        from: &[PickFrom],
        pick: PickOptions,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<PickReport, RepoError> {
        let _lock = worktree::lock_if_worktree(self)?;
        let site = merge::site(self, &options.settings)?;
        let ours = site.ours.ok_or(LookError::NoCommit)?;
        let mut picks = Vec::new();
        for from in from {
            let commits = match *from {
                PickFrom::One(commit) => vec![commit],
                PickFrom::Range(hidden, tip) => in_order(self, tip, hidden)?,
            };
            for commit in commits {
                picks.push(pick_of(self, commit, pick.mainline, "cherry-pick")?);
            }
        }
        let picked: Vec<ObjectId> = picks.iter().map(|pick| pick.commit).collect();
        whole::check_complete(self, &picked)?;
        let how = How {
            committer: options.committer.at(options.request.time),
            keeps: false,
            notes_origin: pick.notes_origin,
            portable_names: options.settings.portable_names,
        };
        let mut tx = Transaction::within_budget(self, &options.request)?;
        let line = replay::replay(&mut tx, ours, &picks, &how, job)?;
        land(tx, &site, ours, line, "this cherry-pick", options, job)
    }

    /// Makes the commits that the head has and `upstream` does not have again, on top of `onto`.
    ///
    /// Leaves out merge commits and commits whose changes are already there. Fails and completes
    /// like [`cherry_pick`](Self::cherry_pick).
    pub fn rebase(
        &self,
        upstream: ObjectId,
        onto: ObjectId,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<PickReport, RepoError> {
        let _lock = worktree::lock_if_worktree(self)?;
        let site = merge::site(self, &options.settings)?;
        self.read_commit(&upstream)?;
        whole::check_complete(self, &[onto])?;
        let mut tx = Transaction::within_budget(self, &options.request)?;
        let Some(ours) = site.ours else {
            let line = replay::replay(&mut tx, onto, &[], &how_to_rebase(options), job)?;
            return land(tx, &site, onto, line, "this rebase", options, job);
        };
        let mut picks = Vec::new();
        for commit in in_order(self, ours, upstream)? {
            if let [] | [_] = self.read_commit(&commit)?.parents[..] {
                picks.push(pick_of(self, commit, None, "rebase")?);
            }
        }
        let line = replay::replay(&mut tx, onto, &picks, &how_to_rebase(options), job)?;
        let mut report = land(tx, &site, ours, line, "this rebase", options, job)?;
        let goes_on = !report.merge.up_to_date && is_ancestor(self.objects(), &ours, &onto)?;
        report.merge.fast_forward = goes_on && report.merge.commit == onto;
        Ok(report)
    }
}

fn how_to_rebase(options: &MergeOptions) -> How {
    How {
        committer: options.committer.at(options.request.time),
        keeps: true,
        notes_origin: false,
        portable_names: options.settings.portable_names,
    }
}

/// Makes the worktree equal to the end of a line of commits, and publishes the line.
fn land(
    tx: Transaction<'_>,
    site: &Site,
    ours: ObjectId,
    line: Line,
    what: &'static str,
    options: &MergeOptions,
    job: &Job,
) -> Result<PickReport, RepoError> {
    let Line {
        tip: (id, commit),
        made,
        dropped,
        ..
    } = line;
    let mut report = MergeReport::new(id, merge::moved(site.head(), id));
    report.up_to_date = site.ours == Some(id) && ours == id;
    report.moves = line.moves;
    report.moves_skipped = line.moves_skipped;
    report.coarse = line.coarse;
    report.content_bytes = line.content_bytes;
    if !report.up_to_date {
        let form = report.form_of(tx.repo(), &commit)?;
        let done = merge::go_to(tx, site, id, form, what, options, job)?;
        report.take(done);
    }
    Ok(PickReport {
        merge: report,
        made,
        dropped,
    })
}

/// Returns the commits that `tip` has and `hidden` does not have, each after its parents. A line of
/// commits stays together.
fn in_order(repo: &Repo, tip: ObjectId, hidden: ObjectId) -> Result<Vec<ObjectId>, RepoError> {
    let mut left: HashSet<ObjectId> = only_in(repo, tip, hidden)?.into_iter().collect();
    let mut order = Vec::with_capacity(left.len());
    // Each commit waits for its parents, from the first one on.
    let mut stack = Vec::new();
    if left.remove(&tip) {
        stack.push((tip, repo.read_commit(&tip)?.parents.into_iter()));
    }
    while let Some((id, parents)) = stack.last_mut() {
        match parents.next() {
            Some(parent) if left.remove(&parent) => {
                let above = repo.read_commit(&parent)?.parents.into_iter();
                stack.push((parent, above));
            }
            Some(_) => {}
            None => {
                order.push(*id);
                stack.pop();
            }
        }
    }
    Ok(order)
}

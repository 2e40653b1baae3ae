//! Pull: fetch from a remote, then merge its branch into the current one, or rebase onto it.

use super::caller::Caller;
use super::error::OpsError;
use super::fetch::{FetchOptions, FetchReport, fetch};
use super::peer::SilentPeer;
use super::refs::tip_at;
use super::remote::Remote;
use super::supply::supplied;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    FastForward, MergeOptions, MergeReport, PickReport, Repo, RepoError, ResetReport,
};

/// What to do with the fetched branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrate {
    /// Merge it into the current branch. Refuse if the remote has rewritten the branch.
    Merge,
    /// Move the current branch forward to it, and refuse unless that is possible.
    FastForward,
    /// Make the commits again on top of it that the current branch has and the remote's branch never
    /// had.
    Rebase,
    /// Move the current branch to it, also if that leaves commits behind.
    Reset,
}

/// What to pull.
pub struct PullOptions {
    /// The remote.
    pub remote: Remote,
    /// The branch of the remote.
    pub branch: String,
    /// What to do with it.
    pub integrate: Integrate,
    /// How to merge.
    pub merge: MergeOptions,
}

impl PullOptions {
    /// Returns the options of a pull that merges `branch` of `remote`.
    pub fn new(remote: Remote, branch: impl Into<String>, merge: MergeOptions) -> PullOptions {
        PullOptions {
            remote,
            branch: branch.into(),
            integrate: Integrate::Merge,
            merge,
        }
    }
}

/// What a pull did. What was fetched counts also if the merge has failed.
#[derive(Debug)]
pub struct PullReport {
    /// What was fetched.
    pub fetched: FetchReport,
    /// A commit of the current branch that the remote's branch had once and has no more.
    pub rewritten: Option<ObjectId>,
    /// Remotes that did not answer when the merge lacked content.
    pub skipped: Vec<SilentPeer>,
    /// What became of the current branch.
    pub outcome: Result<PullOutcome, OpsError>,
}

/// What a pull did with the current branch.
#[derive(Debug)]
pub enum PullOutcome {
    /// Nothing: the remote has no such branch.
    NoBranch,
    /// Nothing: the remote has rewritten the branch. A merge would restore the removed commits.
    Refused,
    /// The branch was merged, or moved forward.
    Merged(Box<MergeReport>),
    /// The own commits were made again on top of the branch.
    Rebased(Box<PickReport>),
    /// The branch was reset.
    Reset(Box<ResetReport>),
}

/// Fetches from a remote, and then merges its branch into the current one, or rebases or resets the
/// current one.
pub fn pull(
    repo: &Repo,
    options: &PullOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<PullReport, OpsError> {
    let request = options.merge.request.clone();
    let fetched = fetch(
        repo,
        &FetchOptions::new(options.remote.clone(), request),
        caller,
        job,
    )?;
    let theirs = tip_at(&fetched.offered, &format!("branch/{}", options.branch));
    let mut report = PullReport {
        fetched,
        rewritten: None,
        skipped: Vec::new(),
        outcome: Ok(PullOutcome::NoBranch),
    };
    if let Some(theirs) = theirs {
        report.outcome = integrate(repo, options, theirs, caller, job, &mut report);
    }
    Ok(report)
}

fn integrate(
    repo: &Repo,
    options: &PullOptions,
    theirs: ObjectId,
    caller: &dyn Caller,
    job: &Job,
    report: &mut PullReport,
) -> Result<PullOutcome, OpsError> {
    if options.integrate == Integrate::Reset {
        let reset = supplied(repo, caller, job, || {
            repo.reset_branch(theirs, &options.merge, job)
        })?;
        report.skipped = reset.skipped;
        return Ok(PullOutcome::Reset(Box::new(reset.done?)));
    }
    report.rewritten = rewritten(repo, options, theirs)?;
    if options.integrate == Integrate::Rebase {
        // What the remote's branch had once is not the user's own: it was removed there on purpose.
        let upstream = report.rewritten.unwrap_or(theirs);
        let rebased = supplied(repo, caller, job, || {
            repo.rebase(upstream, theirs, &options.merge, job)
        })?;
        report.skipped = rebased.skipped;
        return Ok(PullOutcome::Rebased(Box::new(rebased.done?)));
    }
    let how = match options.integrate {
        Integrate::FastForward => FastForward::Only,
        _ if report.rewritten.is_some() => return Ok(PullOutcome::Refused),
        _ => FastForward::Auto,
    };
    let merged = supplied(repo, caller, job, || {
        repo.merge(theirs, how, &options.merge, job)
    })?;
    report.skipped = merged.skipped;
    Ok(PullOutcome::Merged(Box::new(merged.done?)))
}

/// Returns a commit that the current branch has, and that the remote's branch had once and has no
/// more.
fn rewritten(
    repo: &Repo,
    options: &PullOptions,
    theirs: ObjectId,
) -> Result<Option<ObjectId>, RepoError> {
    match repo.head_commit()? {
        // What was fetched from an address before says nothing about this one.
        _ if options.remote.once => Ok(None),
        Some(ours) => repo.replaced_commit(&options.remote.name, &options.branch, (ours, theirs)),
        None => Ok(None),
    }
}

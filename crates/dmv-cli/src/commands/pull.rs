//! `dmv pull`

use crate::candidates;
use crate::commands::push::way_past_replaced;
use crate::commands::{cherry_pick, merge, rebase};
use crate::context::Context;
use crate::failure::{EXIT_OK, EXIT_OTHER, EXIT_REFUSED, Failure};
use crate::format::text::{SHORT_ID, clean, count};
use crate::peers::{Call, remote, tell_gone, tell_skipped};
use crate::supply::{ops_failure, remote_failure};
use crate::traffic::Report;
use dmv_core::escape::Argument;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::history::is_ancestor;
use dmv_core::repo::{MergeReport, Repo};
use dmv_net::ops::{self, Integrate, PullOptions, PullOutcome, PullReport};

/// Fetch from a remote, and merge into or rebase the current branch
///
/// Merges the remote branch with the name of your current branch. Without new local commits, this is a
/// fast-forward. Changes that dmv cannot combine become conflicts: see 'dmv conflicts'.
///
/// With --rebase, dmv makes your new commits again on top of the remote branch. The setting pull.rebase
/// makes this the default.
///
/// If somebody has rewritten the remote branch, for example with 'dmv push --force', dmv does not merge,
/// because that would restore the removed commits. It tells you how to continue. --rebase leaves the
/// removed commits out.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv pull\n  dmv pull --rebase\n  dmv pull disk\n  dmv pull /media/usb/film\n  dmv pull --reset\n\n\
                  Exit code 4: the merge or rebase is complete, and the last commit has conflicts."
)]
pub struct Args {
    /// The remote to pull from, or an address [default: origin, or the only remote]
    #[arg(value_name = "REMOTE", add = candidates::remote())]
    remote: Option<String>,
    /// The message of the merge commit
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Refuse unless a fast-forward is possible
    #[arg(long, conflicts_with = "reset")]
    ff_only: bool,
    /// Make your commits again on top of the remote branch
    #[arg(short, long, conflicts_with_all = ["ff_only", "reset", "message", "no_rebase"])]
    rebase: bool,
    /// Merge, even if pull.rebase is set
    #[arg(long, conflicts_with = "reset")]
    no_rebase: bool,
    /// Move your branch to the remote's commit, even if it was rewritten; 'dmv undo' restores yours
    #[arg(long, conflicts_with = "message")]
    reset: bool,
}

/// Commits that are named one by one.
const MAX_NAMED: usize = 5;

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let Some(branch) = repo.head()?.branch().map(str::to_owned) else {
        let failure = Failure::usage("no branch is checked out, so there is nothing to merge into");
        return Err(failure.hint("dmv checkout BRANCH; or dmv fetch, to download only"));
    };
    let remote = remote(context, args.remote.as_deref())?;
    let name = if remote.once {
        format!("'{branch}' of {}", remote.name)
    } else {
        format!("'{}/{branch}'", remote.name)
    };
    let message = args.message.clone();
    let message = message.unwrap_or_else(|| format!("Merge {name} into {branch}"));
    let mut options = PullOptions::new(remote, branch, merge::options(context, message)?);
    options.integrate = integrate(context, args)?;
    let doing = match options.integrate {
        Integrate::Reset => "resetting",
        Integrate::Rebase => "rebasing",
        Integrate::Merge | Integrate::FastForward => "merging",
    };
    let call = Call::to(context, doing).with(&options.remote);
    let done = ops::pull(&repo, &options, &call, &context.job);
    drop(call);
    let done = done.map_err(|e| remote_failure(context, &options.remote, e))?;
    tell(context, &repo, &options, done)
}

/// What to do with the fetched branch. A message asks for a merge.
fn integrate(context: &Context, args: &Args) -> Result<Integrate, Failure> {
    let merges = args.no_rebase || args.message.is_some();
    Ok(match (args.reset, args.ff_only) {
        (true, _) => Integrate::Reset,
        (_, true) => Integrate::FastForward,
        _ if args.rebase => Integrate::Rebase,
        _ if merges => Integrate::Merge,
        _ => default_integrate(context)?,
    })
}

/// Says what a pull did, and what it refused.
fn tell(
    context: &Context,
    repo: &Repo,
    options: &PullOptions,
    done: PullReport,
) -> Result<u8, Failure> {
    let remote = &options.remote.name;
    let rewritten = rewritten(repo, options, &done);
    let refusal = refused(repo, options, &done);
    let mut report = Report::default();
    report.add(done.fetched.summary, Vec::new());
    report.idle = Some(format!("nothing new from {remote}"));
    tell_gone(context, remote, &done.fetched.gone, false);
    let goes_on = [Integrate::FastForward, Integrate::Rebase].contains(&options.integrate);
    if let (Some(message), true) = (&rewritten, goes_on) {
        context.ui.warn(clean(message));
    }
    tell_skipped(context, done.skipped);
    match done.outcome.map_err(|e| ops_failure(context, e))? {
        PullOutcome::NoBranch | PullOutcome::Refused => {
            report.print(context, &[])?;
            refusal.map_or(Ok(EXIT_OK), Err)
        }
        PullOutcome::Reset(done) => {
            let mut value = merge::value(&done.merge)?;
            value["left"] = done.left.iter().map(ObjectId::to_string).collect();
            report.print(context, &[("merge", value)])?;
            let code = merge::tell(context, &done.merge, reset_word(&done.merge))?;
            tell_left(context, repo, &done.left)?;
            Ok(code)
        }
        PullOutcome::Rebased(done) => {
            report.print(context, &[("rebase", cherry_pick::document(&done)?)])?;
            cherry_pick::tell_picked(context, repo, &done, &rebase::word(&done))
        }
        PullOutcome::Merged(merged) => {
            report.print(context, &[("merge", merge::value(&merged)?)])?;
            merge::tell(context, &merged, merge::word(&merged))
        }
    }
}

/// The failure of a pull that has changed no branch, if it has not.
pub fn refused(repo: &Repo, options: &PullOptions, done: &PullReport) -> Option<Failure> {
    let (remote, branch) = (&options.remote.name, &options.branch);
    match done.outcome {
        Ok(PullOutcome::NoBranch) => {
            let message = format!("{remote} has no branch '{branch}'");
            Some(Failure::new("no-ref", EXIT_OTHER, message).hint("dmv push"))
        }
        Ok(PullOutcome::Refused) => {
            let why = rewritten(repo, options, done).unwrap_or_default();
            let message = format!("{why}; nothing was merged");
            let failure = Failure::new("remote-replaced", EXIT_REFUSED, message);
            Some(failure.hint(way_past_replaced(remote, branch)))
        }
        _ => None,
    }
}

/// What is said of a remote's branch that no longer has a commit that it had.
fn rewritten(repo: &Repo, options: &PullOptions, done: &PullReport) -> Option<String> {
    let (remote, branch) = (&options.remote.name, &options.branch);
    let old = done.rewritten?;
    let what = if went_back(repo, options.remote.recorded(), branch, &old) {
        "went back to an earlier commit"
    } else {
        "was rewritten"
    };
    let old = old.short(SHORT_ID);
    Some(format!(
        "{remote}/{branch} {what}: it no longer has commit {old}, which your branch {branch} has"
    ))
}

/// How a pull without options integrates what it has fetched.
pub fn default_integrate(context: &Context) -> Result<Integrate, Failure> {
    Ok(if context.config()?.is_set("pull.rebase")? {
        Integrate::Rebase
    } else {
        Integrate::Merge
    })
}

/// Whether a remote's branch lacks a commit because somebody has undone a push there: it has nothing new.
fn went_back(repo: &Repo, remote: &str, branch: &str, old: &ObjectId) -> bool {
    let now = repo.ref_at(&format!("remote/{remote}/{branch}"));
    let is_before = |now| is_ancestor(repo.objects(), &now, old).unwrap_or(false);
    now.ok().flatten().is_some_and(is_before)
}

fn reset_word(report: &MergeReport) -> &'static str {
    if report.up_to_date {
        "already up to date"
    } else {
        "reset"
    }
}

/// Names the commits that are no longer on the branch, and says how to get them back.
pub fn tell_left(context: &Context, repo: &Repo, left: &[ObjectId]) -> Result<(), Failure> {
    let Some(newest) = left.first() else {
        return Ok(());
    };
    let ui = &context.ui;
    let n = left.len();
    let are = count(n as u64, "commit is", "commits are");
    ui.note(format_args!("{are} no longer on the branch:"));
    for id in left.iter().take(MAX_NAMED) {
        let commit = repo.read_commit(id)?;
        let subject = commit.message.lines().next().unwrap_or_default().to_owned();
        ui.note(format_args!("  {} {subject}", id.short(SHORT_ID)));
    }
    if n > MAX_NAMED {
        ui.note(format_args!("  and {} more", n - MAX_NAMED));
    }
    ui.note(hint!(
        "to restore them: dmv undo; to keep them on another branch: dmv branch NAME {}",
        Argument::value(newest.short(SHORT_ID))
    ));
    Ok(())
}

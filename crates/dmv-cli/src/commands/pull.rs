//! `dmv pull`

use crate::on_demand::{ops_failure, remote_failure};
use crate::peers::{Call, remote, tell_gone, tell_skipped};
use crate::prelude::*;
use crate::print::merge::{merge_value, merge_word, tell_merge};
use crate::print::pull::{default_integrate, refused, rewritten, tell_left};
use crate::print::replay::{rebase_word, replay_value, tell_replay};
use crate::traffic::Report;
use dmv_core::repo::MergeReport;
use dmv_net::ops;
use dmv_net::ops::{Integrate, PullOptions, PullOutcome, PullReport};

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
    let mut options = PullOptions::new(remote, branch, context.merge_options(message)?);
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
            report.print(context, object! {})?;
            refusal.map_or(Ok(EXIT_OK), Err)
        }
        PullOutcome::Reset(done) => {
            let mut value = merge_value(&done.merge);
            value.add("left", &done.left);
            report.print(context, object! { merge: value })?;
            let code = tell_merge(context, &done.merge, reset_word(&done.merge))?;
            tell_left(context, repo, &done.left)?;
            Ok(code)
        }
        PullOutcome::Rebased(done) => {
            report.print(context, object! { rebase: replay_value(repo, &done)? })?;
            tell_replay(context, repo, &done, &rebase_word(&done))
        }
        PullOutcome::Merged(merged) => {
            report.print(context, object! { merge: merge_value(&merged) })?;
            tell_merge(context, &merged, merge_word(&merged))
        }
    }
}

fn reset_word(report: &MergeReport) -> &'static str {
    if report.up_to_date {
        "already up to date"
    } else {
        "reset"
    }
}

//! `dmv sync`

use crate::failure::EXIT_UNREACHABLE;
use crate::mirror;
use crate::on_demand::{ops_failure, remote_failure};
use crate::peers::{Call, remote, tell_gone, why_closed};
use crate::prelude::*;
use crate::print::replaced_branches::{is_replaced, way_past_replaced};
use crate::traffic::Report;
use dmv_core::repo::Mirror;
use dmv_net::ops;
use dmv_net::ops::{FetchOptions, Remote, SyncOptions, SyncReport};
use std::collections::BTreeSet;

/// Fetch from remotes, then push all branches that are ahead
///
/// Pushes every local branch that is ahead, and every branch or tag that the remote does not have. Your
/// own branches do not move: use 'dmv pull' to update the current one. If you and the remote both have
/// new commits on a branch, dmv reports it and leaves that branch alone.
///
/// In a mirror ('dmv clone --mirror'), sync only fetches, and its branches and tags follow those of the
/// remote. --mirror also deletes branches and tags that the remote has deleted, and works in every bare
/// repository. 'dmv undo' brings back what they named.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv sync\n  dmv sync disk nas\n  dmv sync /media/usb/film")]
pub struct Args {
    /// The remotes to sync with, or addresses [default: all remotes]
    #[arg(value_name = "REMOTE", add = candidates::remote())]
    remotes: Vec<String>,
    /// In a bare repository: set its branches and tags to those of REMOTE, delete the others, push nothing
    #[arg(long)]
    mirror: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut names = args.remotes.clone();
    if names.is_empty() {
        names = context
            .config()?
            .remotes()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
    }
    if names.is_empty() {
        // Says what to do.
        remote(context, None)?;
    }
    if args.mirror {
        mirror::require_bare(&repo)?;
        if let [_, second, ..] = &names[..] {
            let message =
                format!("a mirror follows one remote; name one of them, such as {second}");
            return Err(Failure::usage(message).hint("dmv sync --mirror REMOTE"));
        }
    }
    let mut report = Report::default();
    let (mut left, mut behind) = (false, false);
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for name in &names {
        let one = remote(context, Some(name))?;
        match sync(context, &repo, &one, args.mirror, names.len() == 1) {
            Ok(found) => {
                left |= found.is_left();
                behind |= !found.behind.is_empty();
                done.push(name.as_str());
                report.add(found.summary.clone(), found.pushed.clone());
                report.held.extend_from_slice(&found.held);
                if names.len() > 1 {
                    report.name_taker(name);
                }
                tell(context, &repo, &one, &found)?;
            }
            // It is about this repository, or the user has had enough.
            Err(e)
                if names.len() == 1 || e.exit == EXIT_INTERRUPTED || context.job.is_cancelled() =>
            {
                return Err(e);
            }
            // The others may be there.
            Err(e) => {
                context
                    .ui
                    .warn(format_args!("not synced with {name}: {}", e.message));
                if let Some(hint) = &e.hint {
                    context.ui.note(format_args!("hint: {hint}"));
                }
                failed.push((name, e));
            }
        }
    }
    if failed.len() == names.len() {
        return Err(all_failed(failed));
    }
    let refused = !report.refused().is_empty();
    report.idle = Some(if left || refused || behind {
        "nothing was transferred".to_owned()
    } else {
        format!("already up to date with {}", done.join(", "))
    });
    let silent = failed.iter();
    let silent = silent
        .map(|(name, e)| object! { remote: name, e.{code}, exit: u32::from(e.exit), e.{message} });
    let document = object! { failed: Json::List(silent.collect()) };
    report.print(context, document)?;
    Ok(if left || refused || !failed.is_empty() {
        EXIT_INCOMPLETE
    } else {
        EXIT_OK
    })
}

/// The failure where none of several remotes could be synced with. Each has been told of.
fn all_failed(failed: Vec<(&String, Failure)>) -> Failure {
    let names: Vec<&str> = failed.iter().map(|(name, _)| &name[..]).collect();
    let message = format!(
        "could not sync with any of the remotes: {}",
        names.join(", ")
    );
    let exits: BTreeSet<u8> = failed.iter().map(|(_, e)| e.exit).collect();
    // A disk that is not there is no repository; all of them together are out of reach.
    let exit = match exits.first() {
        Some(exit) if exits.len() == 1 && *exit != EXIT_NO_REPOSITORY => *exit,
        _ => EXIT_UNREACHABLE,
    };
    Failure::new("unreachable", exit, message)
}

/// Says what was not made equal, and how it is.
fn tell(
    context: &Context,
    repo: &Repo,
    remote: &Remote,
    found: &SyncReport,
) -> Result<(), Failure> {
    let name = &remote.name;
    let head = repo.head()?;
    let is_current = |branch: &String| head.branch() == Some(branch);
    let pull = hint!("dmv pull {}", Argument::value(name));
    for branch in &found.diverged {
        let ours = repo.ref_at(&format!("branch/{branch}"))?;
        let theirs = repo.ref_at(&format!("remote/{}/{branch}", remote.recorded()))?;
        let pull = match ours.zip(theirs) {
            Some((ours, theirs)) if is_replaced(repo, name, branch, ours, theirs) => {
                way_past_replaced(name, branch)
            }
            _ => pull.clone(),
        };
        let join = if is_current(branch) {
            pull
        } else {
            hint!("dmv checkout {}, then {}", Argument::value(branch), pull)
        };
        context.ui.warn(format_args!(
            "you and {name} both have new commits on {branch}; to combine them: {join}"
        ));
    }
    for branch in found.behind.iter().filter(|branch| is_current(branch)) {
        context.ui.note(format_args!(
            "{branch} is behind {}/{branch}; to update it: {pull}",
            remote.recorded()
        ));
    }
    if !found.unsent.is_empty() {
        let unsent = found.unsent.join(", ");
        let why = why_closed(&remote.url, found.read_only);
        context
            .ui
            .warn(format_args!("not pushed to {name}: {unsent}; {why}"));
    }
    Ok(())
}

/// Exchanges both ways with one remote. `alone`: a failure has to name it.
fn sync(
    context: &Context,
    repo: &Repo,
    remote: &Remote,
    deleting: bool,
    alone: bool,
) -> Result<SyncReport, Failure> {
    let mirror = if deleting {
        Some(Mirror::MoveAndDelete)
    } else {
        mirror::wanted(context, repo, remote)?
    };
    let call = Call::new(context);
    let done = match mirror {
        Some(mirror) => {
            let mut options = FetchOptions::new(remote.clone(), context.request()?);
            options.mirror = Some(mirror);
            ops::fetch(repo, &options, &call, &context.job).map(SyncReport::from)
        }
        None => {
            let options = SyncOptions::new(remote.clone(), context.request()?);
            ops::sync(repo, &options, &call, &context.job)
        }
    };
    drop(call);
    let done = done.map_err(|e| {
        if alone {
            remote_failure(context, remote, e)
        } else {
            ops_failure(context, e)
        }
    })?;
    tell_gone(context, &remote.name, &done.gone, deleting);
    if mirror.is_some() {
        mirror::tell_overwritten(context, repo, &done.summary.refs);
    }
    Ok(done)
}

//! `dmv pull`

use crate::commands::merge;
use crate::commands::push::way_past_replaced;
use crate::context::Context;
use crate::error::{EXIT_OTHER, EXIT_REFUSED, Failure};
use crate::format::text::{SHORT_ID, clean, count};
use crate::peers::{Report, remote, tell_gone, tips, with_client};
use crate::supply::supplied;
use dmv_core::hash::ObjectId;
use dmv_core::repo::{FastForward, MergeReport, Repo, ResetReport};

/// Fetch from a remote and merge into the current branch
///
/// Merges the remote branch with the name of your current branch. Without new local commits, this is a
/// fast-forward. Changes that dmv cannot combine become conflicts: see 'dmv conflicts'.
///
/// If somebody has rewritten the remote branch, for example with 'dmv push --force', dmv does not merge,
/// because that would restore the removed commits. It tells you how to continue.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv pull\n  dmv pull disk\n  dmv pull --reset\n\n\
                  Exit code 4: the merge is complete, and it has conflicts."
)]
pub struct Args {
    /// The remote to pull from [default: origin, or the only remote]
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// The message of the merge commit
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Refuse unless a fast-forward is possible
    #[arg(long, conflicts_with = "reset")]
    ff_only: bool,
    /// Move your branch to the remote's commit, even if it was rewritten; 'dmv undo' restores yours
    #[arg(long, conflicts_with = "message")]
    reset: bool,
}

/// Commits that are named one by one.
const MAX_NAMED: usize = 5;

/// Runs the command.
pub fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let Some(branch) = repo.head()?.branch().map(str::to_owned) else {
        let failure = Failure::usage("no branch is checked out, so there is nothing to merge into");
        return Err(failure.hint("dmv checkout BRANCH; or dmv fetch, to download only"));
    };
    let remote = remote(context, args.remote.as_deref())?;
    let asked = context.asked()?;
    let (summary, theirs, gone) = with_client(context, &repo, &remote.url, |mut client| {
        client.fetch(&tips(&client.offered))?;
        let ours = Default::default();
        let gone = repo.gone_from(&remote.name, &client.offered)?;
        let refs = repo.note_remote(&remote.name, &client.offered, &ours, &asked)?;
        let theirs = crate::peers::offered(&client.offered, &format!("branch/{branch}"));
        Ok((client.finish(refs), theirs, gone))
    })?;
    let mut report = Report::default();
    report.add(summary, Vec::new());
    report.idle = Some(format!("nothing new from {}", remote.name));
    tell_gone(context, &remote.name, &gone, false);
    let name = format!("{}/{branch}", remote.name);
    let Some(theirs) = theirs else {
        report.print(context, &[])?;
        let message = format!("{} has no branch '{branch}'", remote.name);
        return Err(Failure::new("no-ref", EXIT_OTHER, message).hint("dmv push"));
    };
    let message = args
        .message
        .unwrap_or_else(|| format!("Merge '{name}' into {branch}"));
    let options = merge::options(context, message)?;
    if args.reset {
        let done = supplied(context, &repo, "resetting", || {
            repo.reset_branch(theirs, &options, &context.job)
        })?;
        let mut value = merge::value(&done.merge)?;
        value["left"] = done.left.iter().map(ObjectId::to_string).collect();
        report.print(context, &[("merge", value)])?;
        let code = merge::tell(context, &done.merge, reset_word(&done.merge))?;
        tell_left(context, &repo, &done)?;
        return Ok(code);
    }
    let replaced = match repo.head_commit()? {
        Some(ours) => repo.replaced_commit(&remote.name, &branch, (ours, theirs))?,
        None => None,
    };
    if let Some(old) = replaced {
        let message = format!(
            "{name} was rewritten: it no longer has commit {}, which your branch {branch} has",
            old.short(SHORT_ID)
        );
        if !args.ff_only {
            report.print(context, &[])?;
            let message = format!("{message}; nothing was merged");
            let failure = Failure::new("remote-replaced", EXIT_REFUSED, message);
            return Err(failure.hint(way_past_replaced(&remote.name, &branch)));
        }
        context.ui.warn(clean(&message));
    }
    let how = match args.ff_only {
        true => FastForward::Only,
        false => FastForward::Auto,
    };
    let merged = supplied(context, &repo, "merging", || {
        repo.merge(theirs, how, &options, &context.job)
    })?;
    report.print(context, &[("merge", merge::value(&merged)?)])?;
    merge::tell(context, &merged, merge::word(&merged))
}

fn reset_word(report: &MergeReport) -> &'static str {
    match report.up_to_date {
        true => "already up to date",
        false => "reset",
    }
}

/// Names the commits that are no longer on the branch, and says how to get them back.
fn tell_left(context: &Context, repo: &Repo, done: &ResetReport) -> Result<(), Failure> {
    let Some(newest) = done.left.first() else {
        return Ok(());
    };
    let ui = &context.ui;
    let n = done.left.len();
    let are = count(n as u64, "commit is", "commits are");
    ui.note(format_args!("{are} no longer on the branch:"));
    for id in done.left.iter().take(MAX_NAMED) {
        let commit = repo.read_commit(id)?;
        let subject = commit.message.lines().next().unwrap_or_default().to_owned();
        ui.note(format_args!("  {} {subject}", id.short(SHORT_ID)));
    }
    if n > MAX_NAMED {
        ui.note(format_args!("  and {} more", n - MAX_NAMED));
    }
    ui.note(format_args!(
        "to restore them: dmv undo; to keep them on another branch: dmv branch NAME {}",
        newest.short(SHORT_ID)
    ));
    Ok(())
}

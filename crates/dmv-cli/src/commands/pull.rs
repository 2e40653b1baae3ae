//! `dmv pull`

use crate::commands::merge;
use crate::context::Context;
use crate::error::{EXIT_OTHER, Failure};
use crate::peers::{Report, remote, tell_gone, tips, with_client};
use crate::supply::supplied;
use dmv_core::repo::FastForward;

/// Fetch from a remote, and merge its branch of the same name into the current one
///
/// Where nothing was committed here, the branch is simply moved. What cannot be put together is
/// committed as a conflict: dmv conflicts.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv pull\n  dmv pull disk\n\nExit code 4: merged, with conflicts."
)]
pub struct Args {
    /// The remote; origin, or the only one, by default
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// The message of the merge commit
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let Some(branch) = repo.head()?.branch().map(str::to_owned) else {
        let failure = Failure::usage("no branch is checked out: into which is to be merged?");
        return Err(failure.hint("dmv fetch"));
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
    tell_gone(context, &remote.name, &gone, false);
    let name = format!("{}/{branch}", remote.name);
    let Some(theirs) = theirs else {
        report.print(context, &[])?;
        let message = format!("{} has no branch {branch}", remote.name);
        return Err(Failure::new("no-ref", EXIT_OTHER, message).hint("dmv push"));
    };
    let message = args
        .message
        .unwrap_or_else(|| format!("Merge '{name}' into {branch}"));
    let options = merge::options(context, message)?;
    let merged = supplied(context, &repo, "merging", || {
        repo.merge(theirs, FastForward::Auto, &options, &context.job)
    })?;
    report.print(context, &[("merge", merge::value(&merged)?)])?;
    merge::tell(context, &merged, merge::word(&merged))
}

//! `dmv fetch`

use crate::mirror;
use crate::on_demand::remote_failure;
use crate::partial_repository::{HistoryArgs, tell_longer, told_slice, words};
use crate::peers::{Call, remote, tell_gone};
use crate::prelude::*;
use crate::traffic::Report;
use dmv_net::ops;
use dmv_net::ops::{FetchOptions, FetchReport};
use dmv_net::session::History;

/// Download new commits and files from a remote
///
/// The branches of the remote become REMOTE/BRANCH. Your own branches and your files stay unchanged; in a
/// mirror ('dmv clone --mirror'), its own branches and tags follow.
/// If a fetch is interrupted, run the same command again to continue it.
///
/// With a path or URL in place of REMOTE, the branches become FETCH_HEAD/BRANCH, until the next such
/// fetch. No remote is added.
///
/// In a clone with limited history, --depth, --since and --all-history fetch older commits. They never
/// remove commits; to have less history, make a new clone with --depth.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv fetch\n  dmv fetch --prune\n  dmv log origin/main\n  \
                  dmv fetch --depth 100\n  dmv fetch /media/usb/film"
)]
pub struct Args {
    /// The remote to fetch from, or an address [default: origin, or the only remote]
    #[arg(value_name = "REMOTE", add = candidates::remote())]
    remote: Option<String>,
    /// Delete REMOTE/BRANCH for each branch that the remote has deleted
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    history: HistoryArgs,
    /// Fetch the complete history
    #[arg(long, conflicts_with_all = ["depth", "since"])]
    all_history: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, args.remote.as_deref())?;
    let history = if args.all_history {
        History::All
    } else {
        args.history.read()
    };
    let mut options = FetchOptions::new(remote.clone(), context.request()?);
    (options.history, options.prune) = (history, args.prune);
    options.mirror = mirror::wanted(context, &repo, &remote)?;
    let call = Call::new(context);
    let done = ops::fetch(&repo, &options, &call, &context.job);
    drop(call);
    let FetchReport {
        summary,
        gone,
        offered,
    } = done.map_err(|e| remote_failure(context, &remote, e))?;
    let mut report = Report::default();
    let moved = summary.refs.clone();
    report.add(summary, Vec::new());
    report.idle = Some(format!("nothing new from {}", remote.name));
    let names = gone
        .iter()
        .map(|name| format!("{}/{name}", remote.recorded()));
    let document = object! { gone: texts(names), pruned: args.prune };
    report.print(context, document)?;
    tell_gone(context, &remote.name, &gone, args.prune);
    mirror::tell_overwritten(context, &repo, &moved);
    for (key, _) in offered
        .refs
        .iter()
        .filter(|_| options.mirror.is_none() && !remote.once)
    {
        key.strip_prefix("branch/")
            .inspect(|name| mirror::tell_behind(context, &repo, name));
    }
    let slice = told_slice(context, &repo);
    let tips = offered.refs.iter().map(|(_, id)| *id).collect();
    tell_longer(context, &repo, (history, tips), &remote.url);
    if let (true, Some(words)) = (history != History::New, words(&slice)) {
        context
            .ui
            .note(format_args!("note: stored here in part: {words}"));
    }
    Ok(EXIT_OK)
}

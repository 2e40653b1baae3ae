//! `dmv fetch`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::partial::{HistoryArgs, told_slice, words};
use crate::peers::{Report, remote, tell_gone, tips, with_client};
use dmv_core::repo::OwnBranches;
use dmv_net::session::History;
use serde_json::json;

/// Download new commits and files from a remote
///
/// The branches of the remote become REMOTE/BRANCH. Your own branches and your files stay unchanged.
/// If a fetch is interrupted, run the same command again to continue it.
///
/// In a clone with limited history, --depth, --since and --all-history fetch older commits.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv fetch\n  dmv fetch --prune\n  dmv log origin/main\n  \
                  dmv fetch --depth 100"
)]
pub struct Args {
    /// The remote to fetch from [default: origin, or the only remote]
    #[arg(value_name = "REMOTE")]
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
    let history = match args.all_history {
        true => History::All,
        false => args.history.read(),
    };
    let asked = context.asked()?;
    let (summary, gone) = with_client(context, &repo, &remote.url, |mut client| {
        client.fetch_history(&tips(&client.offered), history)?;
        let gone = repo.gone_from(&remote.name, &client.offered)?;
        let ours = OwnBranches {
            forget: if args.prune { gone.clone() } else { Vec::new() },
            ..Default::default()
        };
        let refs = repo.note_remote(&remote.name, &client.offered, &ours, &asked)?;
        Ok((client.finish(refs), gone))
    })?;
    let mut report = Report::default();
    report.add(summary, Vec::new());
    report.idle = Some(format!("nothing new from {}", remote.name));
    let names: Vec<String> = gone
        .iter()
        .map(|b| format!("{}/{b}", remote.name))
        .collect();
    report.print(
        context,
        &[("gone", json!(names)), ("pruned", json!(args.prune))],
    )?;
    tell_gone(context, &remote.name, &gone, args.prune);
    let slice = told_slice(context, &repo);
    if let (true, Some(words)) = (history != History::New, words(&slice)) {
        context
            .ui
            .note(format_args!("note: this is a partial repository: {words}"));
    }
    Ok(EXIT_OK)
}

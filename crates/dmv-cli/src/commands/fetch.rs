//! `dmv fetch`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::peers::{Report, remote, tell_gone, tips, with_client};
use dmv_core::repo::OwnBranches;
use serde_json::json;

/// Bring what a remote has and this repository has not
///
/// Its branches are then known as REMOTE/BRANCH; branches and files here stay as they are. Cut off,
/// the same command goes on where it was.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv fetch\n  dmv fetch --prune\n  dmv log origin/main")]
pub struct Args {
    /// The remote; origin, or the only one, by default
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// Forget branches that the remote has no more
    #[arg(long)]
    prune: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, args.remote.as_deref())?;
    let asked = context.asked()?;
    let (summary, gone) = with_client(context, &repo, &remote.url, |mut client| {
        client.fetch(&tips(&client.offered))?;
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
    let names: Vec<String> = gone
        .iter()
        .map(|b| format!("{}/{b}", remote.name))
        .collect();
    report.print(
        context,
        &[("gone", json!(names)), ("pruned", json!(args.prune))],
    )?;
    tell_gone(context, &remote.name, &gone, args.prune);
    Ok(EXIT_OK)
}

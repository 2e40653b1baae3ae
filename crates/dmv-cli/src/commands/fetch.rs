//! `dmv fetch`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::peers::{Report, remote, tips, with_client};

/// Bring what a remote has and this repository has not
///
/// Its branches are then known as REMOTE/BRANCH; branches and files here stay as they are. Cut off,
/// the same command goes on where it was.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv fetch\n  dmv log origin/main")]
pub struct Args {
    /// The remote; origin, or the only one, by default
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, args.remote.as_deref())?;
    let asked = context.asked()?;
    let summary = with_client(context, &repo, &remote.url, |mut client| {
        client.fetch(&tips(&client.offered))?;
        let ours = Default::default();
        let refs = repo.note_remote(&remote.name, &client.offered, &ours, &asked)?;
        Ok(client.finish(refs))
    })?;
    let mut report = Report::default();
    report.add(summary, Vec::new());
    report.print(context, &[])?;
    Ok(EXIT_OK)
}

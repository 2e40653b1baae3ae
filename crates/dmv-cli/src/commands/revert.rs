//! `dmv revert`

use super::merge::{finish, options};
use crate::context::Context;
use crate::error::Failure;
use crate::supply::supplied;

/// Make a commit that takes another one back
///
/// History stays; what the commit did is undone in a new commit. What was changed since and meets it
/// becomes a conflict, as in a merge. To take back the last command, see `dmv undo`.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv revert @\n  dmv revert 3f2a90c1 --message \"back to the old grade\"\n  \
                  dmv revert @ -m 1\n\n\
                  Exit code 4: taken back, with conflicts."
)]
pub struct Args {
    /// The commit to take back
    #[arg(value_name = "REV")]
    revision: String,
    /// The message of the new commit
    #[arg(long, value_name = "MSG")]
    message: Option<String>,
    /// Of a merge, which parent to go back to: 1 is the branch that was merged into
    #[arg(short, long, value_name = "N")]
    mainline: Option<usize>,
}

/// Runs the command.
pub fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let id = repo.resolve(&args.revision)?;
    let message = match args.message {
        Some(message) => message,
        None => {
            let commit = repo.read_commit(&id)?;
            let subject = commit.message.lines().next().unwrap_or_default().to_owned();
            format!("Revert \"{subject}\"\n\nThis takes back commit {id}.")
        }
    };
    let options = options(context, message)?;
    let report = supplied(context, &repo, "reverting", || {
        repo.revert(id, args.mainline, &options, &context.job)
    })?;
    let done = match report.up_to_date {
        true => "nothing to take back",
        false => "taken back",
    };
    finish(context, &report, done)
}

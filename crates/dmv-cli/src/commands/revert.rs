//! `dmv revert`

use crate::message::given;
use crate::prelude::*;
use crate::print::merge::print_merge;

/// Create a commit that reverses another commit
///
/// The old commit stays in the history. If later commits changed the same lines, dmv commits a conflict,
/// as in a merge. To reverse the last command instead, use 'dmv undo'.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv revert @\n  dmv revert 3f2a90c1 --message \"back to the old grade\"\n  \
                  dmv revert @ -m 1\n\n\
                  Exit code 4: reverted, with conflicts."
)]
pub struct Args {
    /// The commit to reverse
    #[arg(value_name = "REV", add = candidates::revision())]
    revision: String,
    /// The message of the new commit
    #[arg(long, value_name = "MSG")]
    message: Option<String>,
    /// The parent to return to, if REV is a merge; 1 is the branch that was merged into
    #[arg(short, long, value_name = "N")]
    mainline: Option<usize>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let id = repo.resolve(&args.revision)?;
    let message = match &args.message {
        Some(message) => given(message)?,
        None => {
            let commit = repo.read_commit(&id)?;
            let subject = subject(&commit.message);
            format!("Revert \"{subject}\"\n\nThis reverts commit {id}.")
        }
    };
    let options = context.merge_options(message)?;
    let report = supplied(context, &repo, "reverting", || {
        repo.revert(id, args.mainline, &options, &context.job)
    })?;
    let done = if report.up_to_date {
        "nothing to revert"
    } else {
        "reverted"
    };
    print_merge(context, &report, done)
}

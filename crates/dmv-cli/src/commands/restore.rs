//! `dmv restore`

use crate::prelude::*;
use crate::print::checkout::print_checkout;

/// Restore files from a commit
///
/// Overwrites uncommitted changes in these files; 'dmv undo' brings the changes back. Files that the
/// commit does not have stay.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv restore media/scene4\n  dmv restore --from @~3 notes.txt\n  dmv restore --from '2 days ago' media/scene4"
)]
pub struct Args {
    /// Restore from this commit (default: @), or from the branch as it was at a date: '2 days ago'
    #[arg(long, value_name = "REV|DATE", add = candidates::revision())]
    from: Option<String>,
    /// The files and directories to restore
    #[arg(value_name = "PATH", required = true, add = candidates::path())]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let from = match &args.from {
        Some(revision) => Some(context.revision_or_date(&repo, revision)?),
        None => None,
    };
    let paths = context.paths(&repo, &args.paths)?;
    let request = context.request()?;
    let report = keep_or_ask(context, &repo, "restoring", |settings| {
        repo.restore(from, &paths, settings, request.clone(), &context.job)
    })?;
    print_checkout(context, &report, false)
}

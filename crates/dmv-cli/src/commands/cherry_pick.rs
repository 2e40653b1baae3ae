//! `dmv cherry-pick`

use crate::prelude::*;
use crate::print::replay::{never_stops, print_replay};
use dmv_core::repo::{PickFrom, PickOptions};

/// Apply the changes of other commits to the current branch
///
/// Each commit is made again on the current branch, with its author and message. dmv leaves out commits
/// that would change nothing there, and names them.
///
/// A cherry-pick always completes. If dmv cannot combine the changes to a file, the new commit has a
/// conflict that keeps every version. 'dmv conflicts' lists the conflicts, and 'dmv resolve' resolves
/// them. 'dmv undo' takes back the complete cherry-pick.
#[derive(clap::Args)]
#[command(
    override_usage = "dmv cherry-pick [OPTIONS] <REV>...",
    after_help = "Example:\n  dmv cherry-pick 3f2a90c1\n  dmv cherry-pick fixes~2 fixes\n  \
                  dmv cherry-pick main..fixes\n\n\
                  Exit code 4: complete, and the last commit has conflicts."
)]
pub struct Args {
    /// The commits to apply; A..B means the commits that B has and A does not have
    #[arg(value_name = "REV", required_unless_present = "stopped", add = candidates::revision())]
    revisions: Vec<String>,
    /// For a merge commit, the parent that its change starts from; 1 is the branch merged into
    #[arg(short, long, value_name = "N")]
    mainline: Option<usize>,
    /// Add a line to each message that names the original commit
    #[arg(short = 'x')]
    note_origin: bool,
    /// As Git's options for a command that has stopped
    #[arg(long = "abort", hide = true, aliases = ["continue", "skip", "quit"])]
    stopped: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.stopped {
        return Err(never_stops("cherry-pick"));
    }
    let repo = context.repo()?;
    let from = args.revisions.iter().map(|text| commits(&repo, text));
    let from: Vec<PickFrom> = from.collect::<Result<_, _>>()?;
    let pick = PickOptions {
        mainline: args.mainline,
        notes_origin: args.note_origin,
    };
    let options = context.merge_options(String::new())?;
    let report = supplied(context, &repo, "picking", || {
        repo.cherry_pick(&from, pick, &options, &context.job)
    })?;
    let done = match (report.made.len() as u64, report.dropped.len()) {
        (0, 0) => "no commits to pick".to_owned(),
        (0, _) => "nothing to pick".to_owned(),
        (n, _) => format!("picked {}", count(n, "commit", "commits")),
    };
    print_replay(context, &repo, &report, &done)
}

/// The commits that an argument names: one, or those of a range.
fn commits(repo: &Repo, text: &str) -> Result<PickFrom, RepoError> {
    let end = |name: &str| repo.resolve(if name.is_empty() { "@" } else { name });
    match text.split_once("..") {
        Some((hidden, tip)) => Ok(PickFrom::Range(end(hidden)?, end(tip)?)),
        None => repo.resolve(text).map(PickFrom::One),
    }
}

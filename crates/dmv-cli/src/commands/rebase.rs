//! `dmv rebase`

use crate::prelude::*;
use crate::print::replay::{never_stops, print_replay, rebase_word};

/// Move the commits of the current branch on top of another commit
///
/// Takes the commits that the current branch has and ONTO does not have, and makes them again on top of
/// ONTO, each with its author and message. Merge commits are left out, and so are commits whose changes
/// ONTO already has. Commits that others have pulled get new ids: merge instead if you have pushed them.
///
/// A rebase always completes. If dmv cannot combine the changes to a file, the new commit has a conflict
/// that keeps every version, and the later commits go on from there. 'dmv conflicts' lists the conflicts
/// of the last commit. 'dmv undo' takes back the complete rebase.
#[derive(clap::Args)]
#[command(
    override_usage = "dmv rebase [OPTIONS] <ONTO>",
    after_help = "Example:\n  dmv rebase main\n  dmv rebase origin/main\n  \
                  dmv rebase old-base --onto main\n\n\
                  Exit code 4: complete, and the last commit has conflicts."
)]
pub struct Args {
    /// The branch or commit to move on top of
    #[arg(value_name = "ONTO", add = candidates::revision())]
    onto: Option<String>,
    /// Move on top of this commit instead; ONTO then only says which commits to take
    #[arg(long = "onto", value_name = "NEW", add = candidates::revision())]
    new: Option<String>,
    /// As Git's options for a command that has stopped
    #[arg(long = "abort", hide = true, aliases = ["continue", "skip", "quit"])]
    stopped: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.stopped {
        return Err(never_stops("rebase"));
    }
    let repo = context.repo()?;
    let Some(upstream) = &args.onto else {
        return Err(no_base(&repo));
    };
    let upstream = repo.resolve(upstream)?;
    let onto = match &args.new {
        Some(new) => repo.resolve(new)?,
        None => upstream,
    };
    let options = context.merge_options(String::new())?;
    let report = supplied(context, &repo, "rebasing", || {
        repo.rebase(upstream, onto, &options, &context.job)
    })?;
    print_replay(context, &repo, &report, &rebase_word(&report))
}

/// The failure where no branch is named to move on top of. The hint names that of a remote.
fn no_base(repo: &Repo) -> Failure {
    let head = repo.head().ok();
    let branch = head.as_ref().and_then(|head| head.branch());
    let theirs = repo.refs().with_prefix("remote/").unwrap_or_default();
    let names = theirs
        .iter()
        .filter_map(|(key, _)| key.strip_prefix("remote/"));
    let is_same = |name: &&str| name.split_once('/').map(|(_, name)| name) == branch;
    let name = names.clone().find(is_same).or_else(|| names.clone().next());
    let name = Argument::value(name.unwrap_or("BRANCH"));
    let message = "a rebase needs the branch or commit to move on top of";
    Failure::usage(message).hint(hint!("dmv rebase {}", name))
}

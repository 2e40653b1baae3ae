//! `dmv reset`

use crate::prelude::*;
use crate::print::merge::{merge_value, tell_merge};
use crate::print::pull::tell_left;
use dmv_core::repo::ResetFiles;

/// Move the current branch to another commit
///
/// The files stay as they are, so everything in which they differ from REV is uncommitted afterwards. For
/// example, 'dmv reset @~1' takes back the last commit and keeps its changes. With --hard, the files become
/// equal to REV, too. Untracked files stay, unless REV has a file of that name.
///
/// 'dmv undo' takes a reset back, and brings back the files that --hard has overwritten.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv reset @~1\n  dmv reset --hard\n  dmv reset --hard origin/main"
)]
pub struct Args {
    /// The commit to move the branch to (default: @)
    #[arg(value_name = "REV", add = candidates::revision())]
    revision: Option<String>,
    /// Make the files equal to REV: discard uncommitted changes to tracked files
    #[arg(long, conflicts_with_all = ["soft", "mixed"])]
    hard: bool,
    /// Keep the files. This is the default
    #[arg(long, hide = true)]
    soft: bool,
    /// Keep the files. This is the default
    #[arg(long, hide = true, conflicts_with = "soft")]
    mixed: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let to = repo.resolve(args.revision.as_deref().unwrap_or("@"))?;
    let files = if args.hard {
        ResetFiles::Match
    } else {
        ResetFiles::Keep
    };
    let request = context.request()?;
    let report = keep_or_ask(context, &repo, "resetting", |settings| {
        repo.reset(to, files, &request, settings, &context.job)
    })?;
    if context.ui.is_json() {
        let mut document = merge_value(&report.merge);
        document.extend(object! {
            report.{left, outside},
            overwritten: overwritten_value(&report.overwritten),
        });
        context.ui.json(&document.sorted())?;
    }
    let done = match (report.merge.up_to_date, args.hard) {
        (true, true) => "nothing to reset",
        (true, false) => "nothing to reset (--hard discards uncommitted changes)",
        _ => "reset",
    };
    let code = tell_merge(context, &report.merge, done)?;
    tell_overwritten(context, &report.overwritten);
    if report.outside > 0 {
        let files = count(report.outside, "file", "files");
        context.ui.warn(format_args!(
            "{files} outside this worktree's subset differ between the two commits; these are not uncommitted changes"
        ));
    }
    tell_left(context, &repo, &report.left)?;
    Ok(code)
}

//! `dmv mv`

use crate::prelude::*;
use dmv_core::repo::MoveOptions;

/// Move or rename files and directories
///
/// Uncommitted changes move along. The next commit records the move; there is no need to tell it. If
/// the last path is a directory, the others move into it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv mv shot.mov scene4/a.mov\n  dmv mv titles/*.png credits.txt archive/"
)]
pub struct Args {
    /// The files and directories to move, then the new path or a directory
    #[arg(value_name = "PATH", num_args = 2.., required = true, add = candidates::path())]
    paths: Vec<OsString>,
    /// Replace a file at the new path; 'dmv undo' restores it
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let Some((to, sources)) = args.paths.split_last() else {
        return Err(Failure::usage("mv needs a path and a new path"));
    };
    let repo = context.repo()?;
    let mut options = MoveOptions {
        sources: context.paths(&repo, sources)?,
        to: context.path(&repo, to)?,
        into: to.as_encoded_bytes().ends_with(b"/"),
        force: args.force,
        settings: context.settings()?,
        request: context.request()?,
    };
    let report = keep_or_ask(context, &repo, "moving", |settings| {
        options.settings = settings.clone();
        repo.move_files(&options, &context.job)
    })?;
    let document = || {
        object! {
            report.{moved},
            problems: report.refused,
            overwritten?: overwritten_value(&report.overwritten),
        }
    };
    context.ui.report(document, |out| {
        for moved in &report.moved {
            writeln!(
                out,
                "moved {} -> {}",
                escape(&moved.from),
                escape(&moved.to)
            )?;
        }
        Ok(())
    })?;
    tell_overwritten(context, &report.overwritten);
    context.ui.warn_of("not moved: ", &report.refused);
    Ok(exit_for(&report.refused))
}

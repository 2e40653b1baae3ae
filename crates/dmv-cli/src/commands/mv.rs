//! `dmv mv`

use crate::candidates;
use crate::context::Context;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{MovedValue, ProblemValue, problems};
use crate::keeping::{OverwrittenValue, keeping, tell_overwritten};
use dmv_core::object::name::escape;
use dmv_core::repo::MoveOptions;
use dmv_core::worktree::snapshot::Problem;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

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

#[derive(Serialize)]
struct Document {
    moved: Vec<MovedValue>,
    problems: Vec<ProblemValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwritten: Option<OverwrittenValue>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let Some((to, sources)) = args.paths.split_last() else {
        return Err(Failure::usage("mv needs a path and a new path"));
    };
    let repo = context.repo()?;
    let mut options = MoveOptions {
        sources: context.repo_paths(&repo, sources)?,
        to: context.repo_path(&repo, to)?,
        into: to.as_encoded_bytes().ends_with(b"/"),
        force: args.force,
        settings: context.settings()?,
        request: context.request()?,
    };
    let report = keeping(context, &repo, "moving", |settings| {
        options.settings = settings.clone();
        repo.move_files(&options, &context.job)
    })?;
    if context.globals.json {
        context.ui.json(&Document {
            moved: report.moved.iter().map(MovedValue::new).collect(),
            problems: problems(&report.refused),
            overwritten: OverwrittenValue::new(&report.overwritten),
        })?;
    } else if !context.ui.quiet() {
        let mut out = context.ui.out();
        for moved in &report.moved {
            writeln!(
                out,
                "moved {} -> {}",
                escape(&moved.from),
                escape(&moved.to)
            )?;
        }
    }
    tell_overwritten(context, &report.overwritten);
    tell_refused(context, &report.refused);
    Ok(if report.refused.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn tell_refused(context: &Context, refused: &[Problem]) {
    for problem in refused {
        let (path, why) = (escape(&problem.path), &problem.why);
        context.ui.warn(format_args!("not moved: {path}: {why}"));
    }
}

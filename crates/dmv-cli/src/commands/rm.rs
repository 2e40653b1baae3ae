//! `dmv rm`

use crate::candidates;
use crate::context::Context;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{PathValue, ProblemValue, problems};
use crate::format::text::{clean, count};
use crate::keeping::{OverwrittenValue, keeping};
use crate::ui::{ask, can_ask};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{
    IgnoreOffer, RemoveOptions, RemoveReport, Repo, UntrackOptions, UntrackReport,
};
use dmv_core::worktree::snapshot::Problem;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

/// Remove tracked files, or stop tracking them
///
/// Removes the files from the worktree; the next commit does not have them. If a file has uncommitted
/// changes, dmv refuses, unless --force is given. 'dmv undo' brings everything back.
///
/// With --cached the files stay on disk and are no longer tracked: the next commit leaves them out.
/// So that later commits do not include them again, dmv offers to add them to .dmvignore.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv rm old/take1.mov\n  dmv rm -r renders\n  dmv rm --cached local.cfg"
)]
pub struct Args {
    /// The files to remove
    #[arg(value_name = "PATH", required = true, add = candidates::path())]
    paths: Vec<OsString>,
    /// Keep the files on disk, and stop tracking them; -y also adds them to .dmvignore
    #[arg(long)]
    cached: bool,
    /// Also remove directories with all tracked files in them
    #[arg(short)]
    recursive: bool,
    /// Remove files with uncommitted changes, too; 'dmv undo' restores them
    #[arg(short, long, conflicts_with = "cached")]
    force: bool,
}

#[derive(Serialize)]
struct Document {
    /// Files that are gone.
    removed: Vec<PathValue>,
    /// Files outside of the subset, which the next commit leaves out.
    outside: Vec<PathValue>,
    problems: Vec<ProblemValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwritten: Option<OverwrittenValue>,
}

#[derive(Serialize)]
struct UntrackDocument<'a> {
    untracked: Vec<PathValue>,
    /// Lines added to .dmvignore.
    ignored: &'a [String],
    problems: Vec<ProblemValue>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.repo_paths(&repo, &args.paths)?;
    if args.cached {
        return untrack(context, &repo, paths, args);
    }
    let mut options = RemoveOptions {
        paths,
        recursive: args.recursive,
        force: args.force,
        settings: context.settings()?,
        request: context.request()?,
    };
    let report = keeping(context, &repo, "removing", |settings| {
        options.settings = settings.clone();
        repo.remove(&options, &context.job)
    })?;
    if context.globals.json {
        context.ui.json(&Document {
            removed: values(&report.removed),
            outside: values(&report.outside),
            problems: problems(&report.refused),
            overwritten: OverwrittenValue::new(&report.overwritten),
        })?;
    } else if !context.ui.quiet() {
        print(context, &report)?;
    }
    tell_overwritten(context, &report);
    Ok(tell_kept(context, &report.refused))
}

fn print(context: &Context, report: &RemoveReport) -> Result<(), Failure> {
    let mut out = context.ui.out();
    for path in &report.removed {
        writeln!(out, "removed {}", escape(path))?;
    }
    for path in &report.outside {
        let path = escape(path);
        writeln!(
            out,
            "removed {path} (outside of the subset) from the next commit"
        )?;
    }
    if report.removed.is_empty() && report.outside.is_empty() && report.refused.is_empty() {
        writeln!(out, "nothing to remove: these files are gone already")?;
    }
    Ok(())
}

fn tell_overwritten(context: &Context, report: &RemoveReport) {
    let files = report.overwritten.files;
    if files == 0 {
        return;
    }
    let files = count(files, "file", "files");
    if report.overwritten.kept {
        context.ui.note(format_args!(
            "{files} had uncommitted changes; to restore them: dmv undo"
        ))
    } else {
        context.ui.warn(format_args!(
            "{files} had uncommitted changes, which were too large to keep for undo"
        ))
    }
}

/// Says which files stay, and returns the exit code.
fn tell_kept(context: &Context, refused: &[Problem]) -> u8 {
    for problem in refused {
        let (path, why) = (escape(&problem.path), &problem.why);
        context.ui.warn(format_args!("not removed: {path}: {why}"));
    }
    if refused.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    }
}

fn values(paths: &[RepoPath]) -> Vec<PathValue> {
    paths.iter().map(PathValue::new).collect()
}

/// Stops tracking files, and adds them to the ignore file if the user wants that.
fn untrack(
    context: &Context,
    repo: &Repo,
    paths: Vec<RepoPath>,
    args: &Args,
) -> Result<u8, Failure> {
    let settings = context.settings()?;
    let IgnoreOffer { lines, uncovered } = repo.ignore_offer(&settings, &paths)?;
    let question = format!("Add {} to .dmvignore?", clean(&lines.join(" and ")));
    let adds = !lines.is_empty() && (context.globals.yes || can_ask() && ask(&question));
    let mut options = UntrackOptions {
        paths,
        recursive: args.recursive,
        ignore: if adds { lines.clone() } else { Vec::new() },
        settings,
        request: context.request()?,
    };
    let report = keeping(context, repo, "removing", |settings| {
        options.settings = settings.clone();
        repo.untrack(&options, &context.job)
    })?;
    if context.globals.json {
        context.ui.json(&UntrackDocument {
            untracked: values(&report.untracked),
            ignored: &options.ignore,
            problems: problems(&report.refused),
        })?;
    } else if !context.ui.quiet() {
        print_untracked(context, &report, &options.ignore)?;
    }
    if !lines.is_empty() && !adds {
        let r = if args.recursive { " -r" } else { "" };
        let named = args.paths.iter().map(Argument::on_disk);
        let named = Hint::join(named.map(|path| hint!(" {}", path)), "");
        context.ui.note(hint!(
            "hint: without a line in .dmvignore, a later commit includes {} again; to add it: \
             dmv rm --cached -y{}{}",
            if lines.len() == 1 { "it" } else { "them" },
            r,
            named
        ));
    }
    for path in &uncovered {
        context.ui.warn(format_args!(
            "no line in the root's .dmvignore keeps {} out of later commits: deeper rules include \
             it, or an ignore file cannot be used; see: dmv status",
            escape(path)
        ));
    }
    for problem in &report.refused {
        let (path, why) = (escape(&problem.path), &problem.why);
        context.ui.warn(format_args!("not written: {path}: {why}"));
    }
    Ok(if report.refused.is_empty() && uncovered.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn print_untracked(
    context: &Context,
    report: &UntrackReport,
    ignored: &[String],
) -> Result<(), Failure> {
    let mut out = context.ui.out();
    for path in &report.untracked {
        let path = escape(path);
        writeln!(out, "no longer tracked after the next commit: {path}")?;
    }
    for line in ignored {
        writeln!(out, "added to .dmvignore: {}", clean(line))?;
    }
    Ok(())
}

//! `dmv rm`

use crate::format::json;
use crate::prelude::*;
use crate::ui::{ask, can_ask};
use dmv_core::repo::{IgnoreOffer, RemoveOptions, RemoveReport, UntrackOptions};

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

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.paths(&repo, &args.paths)?;
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
    let report = keep_or_ask(context, &repo, "removing", |settings| {
        options.settings = settings.clone();
        repo.remove(&options, &context.job)
    })?;
    let document = || {
        object! {
            removed: json::paths(&report.removed),
            outside: json::paths(&report.outside),
            problems: report.refused,
            overwritten?: overwritten_value(&report.overwritten),
        }
    };
    context.ui.report(document, |out| print(out, &report))?;
    tell_overwritten(context, &report);
    context.ui.warn_of("not removed: ", &report.refused);
    Ok(exit_for(&report.refused))
}

fn print(out: &mut impl Write, report: &RemoveReport) -> Result<(), Failure> {
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
    let report = keep_or_ask(context, repo, "removing", |settings| {
        options.settings = settings.clone();
        repo.untrack(&options, &context.job)
    })?;
    let document = || {
        object! {
            untracked: json::paths(&report.untracked),
            ignored: options.ignore,
            problems: report.refused,
        }
    };
    context.ui.report(document, |out| {
        for path in &report.untracked {
            let path = escape(path);
            writeln!(out, "no longer tracked after the next commit: {path}")?;
        }
        for line in &options.ignore {
            writeln!(out, "added to .dmvignore: {}", clean(line))?;
        }
        Ok(())
    })?;
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
    context.ui.warn_of("not written: ", &report.refused);
    Ok(if uncovered.is_empty() {
        exit_for(&report.refused)
    } else {
        EXIT_INCOMPLETE
    })
}

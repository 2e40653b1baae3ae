//! `dmv resolve`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::format::json::{PathValue, ProblemValue, problems};
use crate::format::text::count;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::Choice;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Settle conflicts in the worktree; the next commit records it
///
/// Until then a conflict can be settled again, or put back with `dmv restore`. A file that was
/// edited by hand is not overwritten: commit it, or restore it first.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv resolve shots/s4.exr --theirs\n  dmv resolve audio --ours\n  \
                  dmv resolve --all --both\n  dmv resolve title.psd --with ~/title-merged.psd"
)]
#[command(group(clap::ArgGroup::new("choice").required(true)))]
pub struct Args {
    /// Conflicts, or directories with conflicts in them
    #[arg(
        value_name = "PATH",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    paths: Vec<OsString>,
    /// All conflicts
    #[arg(long)]
    all: bool,
    /// Take what the branch had that was merged into
    #[arg(long, group = "choice")]
    ours: bool,
    /// Take what the merged branch had
    #[arg(long, group = "choice")]
    theirs: bool,
    /// Take what both started from
    #[arg(long, group = "choice")]
    base: bool,
    /// Keep every version: ours under the name, theirs as NAME-theirs
    #[arg(long, group = "choice")]
    both: bool,
    /// Take a copy of FILE
    #[arg(long, group = "choice", value_name = "FILE")]
    with: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    resolved: Vec<Resolved>,
    conflicts: Vec<PathValue>,
    problems: Vec<ProblemValue>,
}

#[derive(Serialize)]
struct Resolved {
    #[serde(flatten)]
    path: PathValue,
    files: Vec<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = match args.all {
        true => vec![Vec::new()],
        false => context.paths(&repo, &args.paths)?,
    };
    let choice = match args {
        Args {
            with: Some(file), ..
        } => Choice::With(file.clone()),
        Args { ours: true, .. } => Choice::Ours,
        Args { theirs: true, .. } => Choice::Theirs,
        Args { both: true, .. } => Choice::Both,
        _ => Choice::Base,
    };
    let watch = context.watch("resolving");
    let report = repo.resolve_conflicts(&paths, &choice, &context.settings()?, &context.job)?;
    drop(watch);
    let ui = &context.ui;
    if context.globals.json {
        let text = |path: &RepoPath| String::from_utf8_lossy(path.as_bytes()).into_owned();
        let resolved = report.settled.iter().map(|(path, files)| Resolved {
            path: PathValue::new(path.as_bytes()),
            files: files.iter().map(text).collect(),
        });
        ui.json(&Document {
            resolved: resolved.collect(),
            conflicts: report
                .open
                .iter()
                .map(|path| PathValue::new(path))
                .collect(),
            problems: problems(&report.kept),
        })?;
    } else if !ui.quiet() {
        let mut out = ui.out();
        for (path, files) in &report.settled {
            let files: Vec<String> = files.iter().map(RepoPath::to_string).collect();
            match files.is_empty() {
                true => writeln!(out, "resolved {path}: deleted")?,
                false => writeln!(out, "resolved {path}: {}", files.join(", "))?,
            }
        }
        match report.open.len() as u64 {
            0 => writeln!(
                out,
                "no conflicts left; record it with: dmv commit -m MESSAGE"
            )?,
            n => writeln!(out, "{} left", count(n, "conflict", "conflicts"))?,
        }
    }
    for problem in &report.kept {
        ui.warn(format_args!("{}: {}", escape(&problem.path), problem.why));
    }
    Ok(EXIT_OK)
}

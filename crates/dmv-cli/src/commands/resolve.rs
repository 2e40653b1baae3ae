//! `dmv resolve`

use crate::prelude::*;
use dmv_core::platform::bytes_of;
use dmv_core::repo::{Choice, ResolveReport};
use dmv_core::worktree::snapshot::Problem;
use std::io;
use std::path::{Path, PathBuf};

/// Resolve conflicts: choose a version; the next commit records it
///
/// Before that commit you can choose again, or bring the conflict back with 'dmv restore'. dmv does not
/// overwrite a file that you edited by hand: commit it, or restore it first.
///
/// Outside of the worktree's subset, dmv writes no file and stores only the choice. In a bare repository,
/// dmv commits the choice immediately.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv resolve shots/s4.exr --theirs\n  dmv resolve audio --ours\n  \
                  dmv resolve --all --both\n  dmv resolve title.psd --with ~/title-merged.psd"
)]
#[command(group(clap::ArgGroup::new("choice").required(true)))]
pub struct Args {
    /// The files with conflicts, or directories that contain them
    #[arg(
        value_name = "PATH",
        required_unless_present = "all",
        conflicts_with = "all",
        add = candidates::path()
    )]
    paths: Vec<OsString>,
    /// Resolve all conflicts
    #[arg(long)]
    all: bool,
    /// Use the version of the current branch
    #[arg(long, group = "choice")]
    ours: bool,
    /// Use the version of the merged branch
    #[arg(long, group = "choice")]
    theirs: bool,
    /// Use the version before both changes
    #[arg(long, group = "choice")]
    base: bool,
    /// Keep both: ours under its name, theirs as NAME-theirs
    #[arg(long, group = "choice")]
    both: bool,
    /// Use a copy of FILE
    #[arg(long, group = "choice", value_name = "FILE")]
    with: Option<PathBuf>,
    /// The commit message, only in a bare repository
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let has_files = repo.worktree_root().is_some();
    let paths = if args.all {
        vec![RepoPath::root()]
    } else {
        context.paths(&repo, &args.paths)?
    };
    let (choice, word) = choice(args);
    if let Choice::With(file) = &choice {
        check_file(file)?;
    }
    let request = context.request()?;
    let (report, commit) = match (has_files, &args.message) {
        (true, Some(_)) => {
            let failure = Failure::usage(
                "-m works only in a bare repository; here, the next commit records the resolution",
            );
            return Err(failure.hint("dmv resolve PATH --ours, then dmv commit -m MESSAGE"));
        }
        (true, None) => {
            let settings = context.settings()?;
            let report = supplied(context, &repo, "resolving", || {
                repo.resolve_conflicts(&paths, &choice, &settings, request.clone(), &context.job)
            })?;
            (report, None)
        }
        (false, message) => {
            let message = message
                .clone()
                .unwrap_or_else(|| default_message(&paths, word));
            let options = context.merge_options(message)?;
            let (report, done) = supplied(context, &repo, "resolving", || {
                repo.resolve_in_commit(&paths, &choice, &options, &context.job)
            })?;
            (report, Some(done.commit))
        }
    };
    print(context, &report, commit)?;
    context.ui.warn_of("", &report.kept);
    context.ui.warn_of("", &report.refused);
    Ok(exit_for(&report.refused))
}

/// Refuses what cannot be taken in place of a conflict.
fn check_file(file: &Path) -> Result<(), Failure> {
    let name = escape(bytes_of(file));
    let message = match std::fs::metadata(file) {
        Ok(meta) if meta.is_file() => return Ok(()),
        Ok(_) => format!("'{name}' is not a file; nothing was resolved"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            format!("there is no file '{name}'; nothing was resolved")
        }
        Err(e) => return Err(Failure::file("read", file, &e)),
    };
    Err(Failure::new("no-file", EXIT_OTHER, message).hint("dmv conflicts"))
}

fn choice(args: &Args) -> (Choice, &'static str) {
    match args {
        Args {
            with: Some(file), ..
        } => (Choice::With(file.clone()), "a file"),
        Args { ours: true, .. } => (Choice::Ours, "ours"),
        Args { theirs: true, .. } => (Choice::Theirs, "theirs"),
        Args { both: true, .. } => (Choice::Both, "both"),
        _ => (Choice::Base, "base"),
    }
}

fn default_message(paths: &[RepoPath], word: &str) -> String {
    let what = match paths {
        [path] if !path.is_root() => String::from_utf8_lossy(path.as_bytes()).into_owned(),
        _ => "conflicts".to_owned(),
    };
    format!("Resolve {what}: {word}")
}

fn print(
    context: &Context,
    report: &ResolveReport,
    commit: Option<ObjectId>,
) -> Result<(), Failure> {
    let document = || {
        let resolved = report.settled.iter();
        let resolved = resolved.map(|(at, files)| {
            object! { ..path(at), files: texts(files.iter().map(text_of)) }
        });
        let problems: Vec<&Problem> = report.kept.iter().chain(&report.refused).collect();
        object! {
            commit?: commit,
            resolved: Json::List(resolved.collect()),
            conflicts: paths(&report.open),
            problems: problems,
        }
    };
    context.ui.report(document, |out| {
        for (path, files) in &report.settled {
            let files: Vec<String> = files.iter().map(RepoPath::to_string).collect();
            if files.is_empty() {
                writeln!(out, "resolved {path}: deleted")?
            } else {
                writeln!(out, "resolved {path}: {}", files.join(", "))?
            }
        }
        match (report.open.len() as u64, commit) {
            (0, None) => writeln!(
                out,
                "no conflicts left; to record the resolution: dmv commit -m MESSAGE"
            )?,
            (0, Some(_)) => writeln!(out, "no conflicts left")?,
            (n, _) => writeln!(out, "{} left", count(n, "conflict", "conflicts"))?,
        }
        if let Some(id) = commit {
            writeln!(out, "committed as {}", id.short(SHORT_ID))?;
        }
        Ok(())
    })
}

//! `dmv import dirs` and `dmv import --series`: versions that somebody kept by hand.

use crate::config::DEFAULT_BRANCH;
use crate::context::from_root_of;
use crate::prelude::*;
use dmv_core::platform::{bytes_of, name_of};
use dmv_core::repo::{
    IntakeOptions, IntakeReport, IntakeVersion, OfferedRefs, OwnBranches, PatternFault,
    SeriesOptions, SeriesPattern,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make a commit of each directory, in their order
///
/// Each commit has everything that is in its directory, and the date of the newest file there. The commits
/// become the branch that you are on if it has none yet. Otherwise they become dirs/BRANCH, and your own
/// branches and files stay unchanged. Run it again with more directories to take these.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv import dirs ../film-2024 ../film-2025 ../film")]
pub struct DirsArgs {
    /// The directories, the oldest first
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Record the commits as NAME/BRANCH
    #[arg(long, value_name = "NAME", default_value = "dirs", add = candidates::remote())]
    name: String,
    /// Only report what would become a commit
    #[arg(long)]
    dry_run: bool,
}

/// Options of `--series`.
#[derive(clap::Args)]
pub struct SeriesArgs {
    /// Make versions of one file of the numbered copies that PATTERN matches
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    pub series: Vec<OsString>,
    /// Let each version have the name of its copy, in place of the copy before
    #[arg(long, requires = "series")]
    keep_names: bool,
}

/// Runs `dmv import dirs`.
pub fn from_dirs(context: &Context, args: &DirsArgs) -> Result<u8, Failure> {
    let intake = Intake::open(context, &args.name, args.dry_run)?;
    let watch = context.watch("reading");
    let done = intake
        .repo
        .take_directories(&args.dirs, &intake.options, &context.job);
    drop(watch);
    intake.end(&done?)
}

/// Runs `dmv import --series`.
pub fn from_series(
    context: &Context,
    args: &SeriesArgs,
    name: &str,
    dry_run: bool,
) -> Result<u8, Failure> {
    let intake = Intake::open(context, name, dry_run)?;
    let series = series(&intake.repo, args)?;
    let watch = context.watch("reading");
    let done = intake
        .repo
        .take_series(&series, &intake.options, &context.job);
    drop(watch);
    let done = done?;
    if done.versions.is_empty() && done.problems.is_empty() {
        let patterns: Vec<String> = args.series.iter().map(quoted).collect();
        let message = format!("no file matches {}", patterns.join(" or "));
        return Err(Failure::new("no-copies", EXIT_OTHER, message)
            .hint("quote the patterns, so that the shell does not expand them"));
    }
    intake.end(&done)
}

fn quoted(text: &OsString) -> String {
    format!("'{}'", escape(bytes_of(text)))
}

/// Reads the patterns. Those in the worktree start from its root, others from the directory before their
/// first wildcard.
fn series(repo: &Repo, args: &SeriesArgs) -> Result<SeriesOptions, Failure> {
    let here = std::env::current_dir()
        .map_err(|e| Failure::file("find", Path::new("the current directory"), &e))?;
    let mut roots = Vec::new();
    let mut patterns = Vec::new();
    for given in &args.series {
        let (dir, rest) = fixed_part(bytes_of(given));
        let dir = here.join(name_of(dir));
        let in_worktree = repo
            .worktree_root()
            .and_then(|root| Some((root, from_root_of(root, &dir)?)));
        let (root, prefix) = match in_worktree {
            Some((root, prefix)) => (root.to_owned(), prefix.into_os_string()),
            None => (dir, OsString::new()),
        };
        let mut prefix = bytes_of(&prefix).to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        roots.push(root);
        let pattern = SeriesPattern::parse(&prefix, rest).map_err(|e| refused(given, e))?;
        patterns.push(pattern);
    }
    if roots.iter().any(|root| *root != roots[0]) {
        return Err(Failure::usage(
            "all patterns must be in the worktree, or in the same directory outside of it",
        ));
    }
    let target = patterns[0].without_number();
    let target = target.map_err(|e| refused(&args.series[0], e))?;
    for (pattern, given) in patterns.iter().zip(&args.series) {
        if !pattern.fits(&target) {
            return Err(refused(given, PatternFault::OtherWildcards));
        }
    }
    Ok(SeriesOptions {
        root: roots.swap_remove(0),
        patterns,
        target,
        keep_names: args.keep_names,
    })
}

fn refused(given: &OsString, fault: PatternFault) -> Failure {
    Failure::usage(format!("{}: {fault}", quoted(given)))
}

/// Splits a pattern after the last directory that has no wildcard.
fn fixed_part(pattern: &[u8]) -> (&[u8], &[u8]) {
    let is_wild = |rest: &[u8]| rest.starts_with(b"*") || rest.starts_with(b"{N}");
    let wild = (0..pattern.len()).find(|at| is_wild(&pattern[*at..]));
    let before = &pattern[..wild.unwrap_or(pattern.len())];
    let end = before.iter().rposition(|b| *b == b'/');
    pattern.split_at(end.map_or(0, |at| at + 1))
}

/// An import of versions into the repository.
struct Intake<'c> {
    context: &'c Context,
    repo: Arc<Repo>,
    /// The name under which the commits are recorded.
    name: &'c str,
    branch: String,
    options: IntakeOptions,
}

impl<'c> Intake<'c> {
    fn open(context: &'c Context, name: &'c str, dry_run: bool) -> Result<Intake<'c>, Failure> {
        let repo = context.repo()?;
        let branch = match repo.head()? {
            Head::Branch(branch) => branch,
            Head::Commit(_) => DEFAULT_BRANCH.to_owned(),
        };
        let options = IntakeOptions {
            after: repo.ref_at(&format!("remote/{name}/{branch}"))?,
            who: context.who()?,
            tz_minutes: context.request()?.time.tz_minutes,
            settings: context.settings()?,
            dry_run,
        };
        Ok(Intake {
            context,
            repo,
            name,
            branch,
            options,
        })
    }

    /// Names the commits, and reports them.
    fn end(&self, done: &IntakeReport) -> Result<u8, Failure> {
        let named = if self.options.dry_run {
            NamingOutcome::default()
        } else {
            self.name_commits(done)?
        };
        let ui = &self.context.ui;
        ui.report(
            || self.document(done),
            |out| self.print(out, done, named.is_first),
        )?;
        if !ui.is_json() {
            ui.warn_of("not taken: ", &done.problems);
            ui.warn_of("", &done.warnings);
        }
        if let Some(failure) = named.not_written {
            return Err(failure);
        }
        Ok(if done.problems.is_empty() {
            EXIT_OK
        } else {
            EXIT_INCOMPLETE
        })
    }

    /// Names the commits, and writes the files of those that became the branch of this worktree.
    fn name_commits(&self, done: &IntakeReport) -> Result<NamingOutcome, Failure> {
        let (context, repo) = (self.context, &self.repo);
        let Some(tip) = done.tip else {
            return Ok(NamingOutcome::default());
        };
        let mut not_written = None;
        let key = format!("branch/{}", self.branch);
        let is_first = repo.ref_at(&key)?.is_none() && repo.head_commit()?.is_none();
        let offered = OfferedRefs {
            head: None,
            refs: vec![(key, tip)],
        };
        let mut ours = OwnBranches {
            imported: Some(done.commits),
            ..OwnBranches::default()
        };
        if is_first {
            ours.make.push((self.branch.clone(), tip));
        }
        if is_first && repo.worktree_root().is_some() {
            let options = super::check_out(context)?;
            let watch = context.watch("writing files");
            let (branch, job) = (&self.branch, &context.job);
            let done =
                repo.note_remote_and_check_out(self.name, &offered, &ours, branch, &options, job);
            drop(watch);
            if let Some(Err(e)) = done?.written {
                not_written = Some(super::not_written(e.into(), Some(branch)));
            }
        } else {
            repo.note_remote(self.name, &offered, &ours, &context.request()?)?;
        }
        Ok(NamingOutcome {
            is_first,
            not_written,
        })
    }

    fn print(
        &self,
        out: &mut impl Write,
        done: &IntakeReport,
        is_first: bool,
    ) -> Result<(), Failure> {
        for version in done.versions.iter().filter(|version| version.is_new) {
            writeln!(out, "  {}", line(version))?;
        }
        let known = done.versions.len() as u64 - done.commits;
        let commits = count(done.commits, "commit", "commits");
        let known = match known {
            0 => String::new(),
            known => format!("; {known} were there already"),
        };
        let recorded = format!("{}/{}", self.name, self.branch);
        if self.options.dry_run {
            writeln!(out, "{commits} to make{known}")?;
        } else if done.commits == 0 {
            writeln!(out, "nothing new{known}")?;
        } else if is_first {
            writeln!(out, "{commits} made on {}{known}", clean(&self.branch))?;
        } else {
            let merge = hint!("dmv merge {}", Argument::value(&recorded));
            writeln!(out, "{commits} made as {}{known}", clean(&recorded))?;
            self.context
                .ui
                .note(format_args!("to have them on your branch: {merge}"));
        }
        Ok(())
    }

    fn document(&self, done: &IntakeReport) -> Json {
        let new = || done.versions.iter().filter(|version| version.is_new);
        let versions = done.versions.iter().map(|version| {
            let time = version.time;
            object! {
                source: escape(&version.source).to_string(),
                ..path(&version.path),
                time: rfc3339(time.seconds, time.nanos, time.tz_minutes),
                version.{files, bytes},
                new: version.is_new,
            }
        });
        let refused = done.problems.iter().map(|problem| {
            object! { ..path(&problem.path), problem.{why} }
        });
        object! {
            dry_run: self.options.dry_run,
            done.{commits},
            files: new().map(|version| version.files).sum::<u64>(),
            bytes: new().map(|version| version.bytes).sum::<u64>(),
            commit: done.tip.map(|id| id.to_string()),
            versions: Json::List(versions.collect()),
            refused: Json::List(refused.collect()),
        }
    }
}

/// How the commits of an import got their names.
#[derive(Default)]
struct NamingOutcome {
    /// Whether they became the branch of this worktree.
    is_first: bool,
    /// Why its files were not written.
    not_written: Option<Failure>,
}

/// What became what: `rock_v1.psd → rock.psd  2026-11-21 15:04:05 +01:00, 34 MiB`.
fn line(version: &IntakeVersion) -> String {
    let source = escape(&version.source).to_string();
    let is_directory = version.path.is_root();
    let from = if is_directory || version.source.as_bytes() == version.path.as_bytes() {
        source
    } else {
        format!("{source} → {}", version.path)
    };
    let time = time(version.time.seconds, version.time.tz_minutes);
    let files = if is_directory {
        format!(", {}", count(version.files, "file", "files"))
    } else {
        String::new()
    };
    format!("{from}  {time}{files}, {}", bytes(version.bytes))
}

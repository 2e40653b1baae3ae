//! `dmv merge`

use crate::candidates;
use crate::commands::checkout::tell_refused;
use crate::context::Context;
use crate::failure::{EXIT_CONFLICTS, EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{ConflictValue, ProblemValue, conflict_values, problems};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use crate::limit::{EmptiedValue, tell_emptied};
use crate::message::given;
use crate::supply::supplied;
use crate::whose::path_argument;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{
    ConflictAt, FastForward, Head, MergeOptions, MergeReport, Repo, RepoError, is_previous,
};
use serde::Serialize;
use std::io::Write;

/// Merge another branch into the current branch
///
/// A merge always completes. If dmv cannot combine the changes to a file, it commits a conflict that
/// keeps every version. 'dmv conflicts' lists the conflicts. 'dmv resolve' resolves them, now or later,
/// in this clone or in another one.
///
/// Uncommitted changes stay if the merge does not touch those files. If it would overwrite them, dmv
/// refuses and changes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv merge regrade\n  dmv merge regrade -m \"use the new grade\"\n\n\
                  Exit code 4: the merge is complete, and it has conflicts."
)]
pub struct Args {
    /// The branch or commit to merge
    #[arg(value_name = "REV", add = candidates::revision())]
    revision: String,
    /// The message of the merge commit
    #[arg(short, long, value_name = "MSG")]
    message: Option<String>,
    /// Create a merge commit even if a fast-forward is possible
    #[arg(long, conflicts_with = "ff_only")]
    no_ff: bool,
    /// Refuse unless a fast-forward is possible
    #[arg(long)]
    ff_only: bool,
}

#[derive(Serialize)]
struct Document {
    commit: String,
    fast_forward: bool,
    up_to_date: bool,
    conflicts: Vec<ConflictValue>,
    /// Paths of conflicts that lie outside of what this repository holds.
    conflicts_elsewhere: Vec<String>,
    renames: Vec<RenameValue>,
    files: u64,
    bytes: u64,
    removed: u64,
    problems: Vec<ProblemValue>,
    emptied_patterns: Vec<EmptiedValue>,
}

#[derive(Serialize)]
struct RenameValue {
    from: String,
    to: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let theirs = repo.resolve(&args.revision)?;
    let fast_forward = match (args.no_ff, args.ff_only) {
        (true, _) => FastForward::Never,
        (_, true) => FastForward::Only,
        _ => FastForward::Auto,
    };
    let message = match &args.message {
        Some(message) => given(message)?,
        None => default_message(&repo, &args.revision, &theirs)?,
    };
    let options = options(context, message)?;
    let report = supplied(context, &repo, "merging", || {
        repo.merge(theirs, fast_forward, &options, &context.job)
    })?;
    finish(context, &report, word(&report))
}

/// What a merge came to.
pub fn word(report: &MergeReport) -> &'static str {
    match (report.up_to_date, report.fast_forward) {
        (true, _) => "already up to date",
        (_, true) => "fast-forward",
        _ => "merged",
    }
}

/// What merges and reverts have in common.
pub fn options(context: &Context, message: String) -> Result<MergeOptions, Failure> {
    Ok(MergeOptions {
        message,
        committer: context.who()?,
        settings: context.settings()?,
        request: context.request()?,
    })
}

fn default_message(repo: &Repo, revision: &str, id: &ObjectId) -> Result<String, RepoError> {
    let previous = if is_previous(revision) {
        repo.previous_head(revision)?.branch().map(str::to_owned)
    } else {
        None
    };
    let revision = previous.as_deref().unwrap_or(revision);
    let what = if let Some(name) = repo.named_branch(revision)? {
        format!("branch '{name}'")
    } else if revision.len() <= 64 && !id.to_string().starts_with(revision) {
        format!("'{revision}'")
    } else {
        format!("commit {}", id.short(SHORT_ID))
    };
    let into = match repo.head()? {
        Head::Branch(name) => format!(" into {name}"),
        Head::Commit(_) => String::new(),
    };
    Ok(format!("Merge {what}{into}"))
}

/// Tells what a merge or revert did.
pub fn finish(context: &Context, report: &MergeReport, done: &str) -> Result<u8, Failure> {
    if context.globals.json {
        context.ui.json(&document(report))?;
    }
    tell(context, report, done)
}

/// What a merge did, for a document of which it is a part.
pub fn value(report: &MergeReport) -> Result<serde_json::Value, Failure> {
    Ok(serde_json::to_value(document(report)).map_err(std::io::Error::from)?)
}

/// Tells people what a merge or revert did. Returns the exit code.
pub fn tell(context: &Context, report: &MergeReport, done: &str) -> Result<u8, Failure> {
    let ui = &context.ui;
    if !context.globals.json && !ui.quiet() {
        let mut out = ui.out();
        let on = match &report.head {
            Head::Branch(name) => clean(name),
            Head::Commit(_) => "no branch".to_owned(),
        };
        writeln!(out, "{done}: {on} is at {}", report.commit.short(SHORT_ID))?;
        for moved in &report.moves {
            writeln!(out, "  followed the rename {} -> {}", moved.from, moved.to)?;
        }
        if !report.up_to_date && report.files + report.removed > 0 {
            let removed = match report.removed {
                0 => String::new(),
                n => format!(", {n} removed"),
            };
            let files = count(report.files, "file", "files");
            writeln!(out, "{files} written ({}){removed}", bytes(report.bytes))?;
        }
        list(context, &mut *out, &report.conflicts)?;
        for path in &report.unseen {
            writeln!(
                out,
                "  {:<14}  {} (absent from this repository)",
                "conflict",
                escape(path)
            )?;
        }
    }
    if report.moves_skipped {
        ui.warn("too many files were added or changed to find all renames; a file that one side renamed and the other changed may be a delete/modify conflict");
    }
    warn_of_coarse(context, &report.coarse);
    tell_refused(context, None, &report.refused);
    if !report.emptied.is_empty() {
        tell_emptied(context, &report.emptied, &context.repo()?.subset()?);
    }
    if let Some(first) = report.conflicts.first() {
        let path = path_argument(first.path.as_bytes());
        ui.note("hint: dmv conflicts");
        ui.note(hint!(
            "hint: dmv resolve {} --ours|--theirs|--base|--both|--with FILE",
            path
        ));
    }
    Ok(
        match (
            report.conflicts.is_empty() && report.unseen.is_empty(),
            report.refused.is_empty(),
        ) {
            (false, _) => EXIT_CONFLICTS,
            (true, false) => EXIT_INCOMPLETE,
            (true, true) => EXIT_OK,
        },
    )
}

/// Says of texts why they were not merged line by line.
fn warn_of_coarse(context: &Context, coarse: &[RepoPath]) {
    let Some(first) = coarse.first() else {
        return;
    };
    let more = match coarse.len() as u64 - 1 {
        0 => String::new(),
        n => format!(" (and {} more)", count(n, "file", "files")),
    };
    context.ui.warn(format_args!(
        "{first} has too many changes to merge it line by line{more}; the conflict keeps all versions"
    ));
}

/// One line for each conflict, and their number.
pub fn list(
    context: &Context,
    out: &mut impl Write,
    conflicts: &[ConflictAt],
) -> Result<(), Failure> {
    for at in conflicts {
        let word = format!("{:<14}", at.kind().word());
        let red = anstyle::Style::new().fg_color(Some(anstyle::AnsiColor::Red.into()));
        writeln!(out, "  {}  {}", context.ui.paint(red, word), at.path)?;
    }
    if !conflicts.is_empty() {
        let n = count(conflicts.len() as u64, "conflict", "conflicts");
        writeln!(out, "{n}")?;
    }
    Ok(())
}

fn document(report: &MergeReport) -> Document {
    let renames = report.moves.iter().map(|moved| RenameValue {
        from: String::from_utf8_lossy(moved.from.as_bytes()).into_owned(),
        to: String::from_utf8_lossy(moved.to.as_bytes()).into_owned(),
    });
    Document {
        commit: report.commit.to_string(),
        fast_forward: report.fast_forward,
        up_to_date: report.up_to_date,
        conflicts: conflict_values(&report.conflicts),
        conflicts_elsewhere: report
            .unseen
            .iter()
            .map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned())
            .collect(),
        renames: renames.collect(),
        files: report.files,
        bytes: report.bytes,
        removed: report.removed,
        problems: problems(&report.refused),
        emptied_patterns: EmptiedValue::list(&report.emptied),
    }
}

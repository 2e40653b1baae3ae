//! `dmv status`

use crate::commands::checkout::hint_restore;
use crate::commands::subset::patterns;
use crate::compare::share;
use crate::context::{Context, quoted};
use crate::error::{EXIT_DIFFERS, EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{PathValue, ProblemValue, base64_unless_text, problems};
use crate::format::text::{SHORT_ID, clean, count};
use crate::half::go_on;
use crate::partial::{SliceValue, brief, told_slice, words};
use anstyle::{AnsiColor, Style};
use dmv_core::hash::ObjectId;
use dmv_core::object::name::escape;
use dmv_core::repo::{
    BranchMoved, ChangeKind, Head, Mover, PathChange, Rename, Repo, RepoSlice, StatusOptions,
    StatusReport, moved_clause,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::Write;

/// Show uncommitted changes, conflicts and the state of the branch
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv status\n  dmv status --exit-code media/raw")]
pub struct Args {
    /// Show only these files and directories
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Exit with 1 if there are changes
    #[arg(long)]
    exit_code: bool,
}

#[derive(Serialize)]
struct Document {
    branch: Option<String>,
    commit: Option<String>,
    clean: bool,
    moved: bool,
    base: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished: Option<UnfinishedValue>,
    /// The command that goes on with a clone that is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    half_clone: Option<String>,
    upstream: Option<Upstream>,
    subset: Vec<String>,
    partial: Option<SliceValue>,
    outside: Vec<PathValue>,
    changes: Vec<ChangeValue>,
    /// What differs because a command could not write it.
    not_written: Vec<PathValue>,
    conflicts: Vec<PathValue>,
    settled: Vec<PathValue>,
    problems: Vec<ProblemValue>,
    warnings: Vec<ProblemValue>,
}

/// How the branch stands to the same branch of a remote, as last seen there.
#[derive(Clone, Serialize)]
struct Upstream {
    name: String,
    ahead: usize,
    behind: usize,
}

/// A checkout or the like that was cut off.
#[derive(Serialize)]
struct UnfinishedValue {
    go_on: String,
    go_back: String,
}

#[derive(Serialize)]
struct ChangeValue {
    #[serde(flatten)]
    path: PathValue,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<u8>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let select = Paths::new(context.paths_to_look_at(&repo, &args.paths, None)?);
    let options = StatusOptions {
        select: &select,
        settings: context.settings()?,
    };
    let watch = context.watch("scanning");
    let mut report = repo.status(&options, &context.job)?;
    let renames = repo.renames(&report.changes, &context.job)?;
    drop(watch);
    super::diff::tell_limited(context, &renames);
    report
        .changes
        .retain(|change| select.includes(&change.path));
    let renames: Renames = renames
        .list
        .into_iter()
        .map(|r| (r.to.clone(), r))
        .collect();
    let gone: HashSet<&[u8]> = renames.values().map(|r| &r.from[..]).collect();
    // The old path is told with the new one.
    let told = |c: &PathChange| c.kind != ChangeKind::Deleted || !gone.contains(&c.path[..]);
    report.changes.retain(told);
    for paths in [
        &mut report.outside,
        &mut report.unwritten,
        &mut report.conflicts,
        &mut report.settled,
    ] {
        paths.retain(|path| select.includes(path));
    }
    let clean = report.changes.is_empty()
        && report.conflicts.is_empty()
        && report.outside.is_empty()
        && report.unwritten.is_empty();
    let upstream = upstream(context, &repo, &report)?;
    let slice = told_slice(context, &repo);
    let half = repo.half_clone()?.map(|half| go_on(&repo, &half));
    if context.globals.json {
        let mut document = document(&report, &renames, upstream, &slice, clean);
        document.half_clone = half;
        context.ui.json(&document)?;
    } else {
        if let Some(command) = half {
            let mut out = context.ui.out();
            writeln!(
                out,
                "this clone is incomplete: it is still running, or it was interrupted"
            )?;
            writeln!(
                out,
                "  to continue: {}",
                crate::format::text::clean(&command)
            )?;
        }
        let (report, upstream) = (&report, upstream.as_ref());
        print(context, &repo, report, &renames, upstream, &slice, clean)?;
        for problem in &report.problems {
            let (path, why) = (escape(&problem.path), &problem.why);
            context.ui.warn(format_args!("cannot read {path}: {why}"));
        }
        for warning in report.warnings.iter().filter(|_| context.ui.verbose()) {
            let (path, why) = (escape(&warning.path), &warning.why);
            context.ui.warn(format_args!("{path}: {why}"));
        }
    }
    Ok(match (report.problems.is_empty(), clean) {
        (false, _) => EXIT_INCOMPLETE,
        (true, false) if args.exit_code => EXIT_DIFFERS,
        _ => EXIT_OK,
    })
}

/// Files that were moved, by their new paths.
type Renames = HashMap<Vec<u8>, Rename>;

/// Where a new file came from.
fn origin<'r>(renames: &'r Renames, change: &PathChange) -> Option<&'r Rename> {
    renames
        .get(&change.path)
        .filter(|_| change.kind == ChangeKind::Added)
}

/// The branch's counterpart at the remote that commands use where none is named.
fn upstream(
    context: &Context,
    repo: &Repo,
    report: &StatusReport,
) -> Result<Option<Upstream>, Failure> {
    let (Some(branch), Some(ours)) = (report.head.branch(), report.commit) else {
        return Ok(None);
    };
    let Some(remote) = context.config()?.default_remote() else {
        return Ok(None);
    };
    let name = format!("{remote}/{branch}");
    let Some(theirs) = repo.ref_at(&format!("remote/{name}"))? else {
        return Ok(None);
    };
    let (ahead, behind) = match ours == theirs {
        true => (0, 0),
        false => repo.distance(ours, theirs)?,
    };
    Ok(Some(Upstream {
        name,
        ahead,
        behind,
    }))
}

fn document(
    report: &StatusReport,
    renames: &Renames,
    upstream: Option<Upstream>,
    slice: &RepoSlice,
    clean: bool,
) -> Document {
    let change = |change: &PathChange| {
        let from = origin(renames, change);
        ChangeValue {
            path: PathValue::new(&change.path),
            change: from.map_or(change.kind.word(), |_| "renamed"),
            from: from.map(|r| String::from_utf8_lossy(&r.from).into_owned()),
            from_b64: from.and_then(|r| base64_unless_text(&r.from)),
            similarity: from.map(|r| r.percent),
        }
    };
    Document {
        branch: report.head.branch().map(str::to_owned),
        commit: report.commit.map(|id| id.to_string()),
        clean,
        moved: report.moved.is_some(),
        base: match &report.moved {
            Some(moved) => moved.base.map(|id| id.to_string()),
            None => report.commit.map(|id| id.to_string()),
        },
        unfinished: report.unfinished.as_ref().map(|cut| UnfinishedValue {
            go_on: cut.command.clone(),
            go_back: go_back(&report.head),
        }),
        half_clone: None,
        upstream,
        subset: patterns(&report.subset),
        partial: SliceValue::new(slice),
        outside: report.outside.iter().map(|p| PathValue::new(p)).collect(),
        changes: report.changes.iter().map(change).collect(),
        not_written: report
            .unwritten
            .iter()
            .map(|path| PathValue::new(path))
            .collect(),
        conflicts: report
            .conflicts
            .iter()
            .map(|path| PathValue::new(path))
            .collect(),
        settled: report.settled.iter().map(|p| PathValue::new(p)).collect(),
        problems: problems(&report.problems),
        warnings: problems(&report.warnings),
    }
}

fn print(
    context: &Context,
    repo: &Repo,
    report: &StatusReport,
    renames: &Renames,
    upstream: Option<&Upstream>,
    slice: &RepoSlice,
    is_clean: bool,
) -> Result<(), Failure> {
    let ui = &context.ui;
    let mut out = ui.out();
    let commit = match &report.commit {
        Some(id) => id.short(SHORT_ID),
        None => "no commits yet".to_owned(),
    };
    match &report.head {
        Head::Branch(name) => writeln!(out, "on branch {}, {commit}", clean(name))?,
        Head::Commit(_) => writeln!(out, "on commit {commit}, on no branch")?,
    }
    if let Some(upstream) = upstream {
        let name = clean(&upstream.name);
        let commits = |n: usize| count(n as u64, "commit", "commits");
        match (upstream.ahead, upstream.behind) {
            (0, 0) => {}
            (ahead, 0) => writeln!(out, "{} ahead of {name}: dmv push", commits(ahead))?,
            (0, behind) => writeln!(out, "{} behind {name}: dmv pull", commits(behind))?,
            (ahead, behind) => writeln!(
                out,
                "you and {name} both have new commits ({ahead} here, {behind} there); to combine them: dmv pull"
            )?,
        }
    }
    if let Some(moved) = &report.moved {
        let by = repo.mover(&report.head)?;
        tell_moved(&mut *out, &report.head, moved, by)?;
    }
    if let Some(cut) = &report.unfinished {
        let command = clean(&cut.command);
        writeln!(
            out,
            "a checkout was interrupted: some files are from another commit or subset"
        )?;
        writeln!(out, "  to continue: {command}")?;
        writeln!(out, "  to go back:  {}", go_back(&report.head))?;
    }
    if report.subset == Subset::nothing() {
        let text = "this worktree has no files, by choice; to write some: dmv subset add PATH";
        writeln!(out, "{text}")?;
    } else if !report.subset.is_everything() {
        writeln!(out, "limited to the subset {}", brief(&report.subset))?;
    }
    if let Some(words) = words(slice) {
        writeln!(out, "partial repository: {words}")?;
    }
    if slice.metadata_only {
        writeln!(
            out,
            "file content is absent by choice; to fetch some: dmv get PATH"
        )?;
    }
    for path in &report.conflicts {
        let mark = ui.paint(color(AnsiColor::Red), "conflict");
        writeln!(out, "  {mark}  {}", escape(path))?;
    }
    let mut counts = [0u64; 5];
    for change in &report.changes {
        if let Some(from) = origin(renames, change) {
            counts[4] += 1;
            let word = ui.paint(color(AnsiColor::Cyan), "renamed ");
            let (old, new) = (escape(&from.from), escape(&change.path));
            writeln!(out, "  {word}  {old} -> {new}{}", share(from))?;
            continue;
        }
        let (index, shade) = match change.kind {
            ChangeKind::Added => (0, AnsiColor::Green),
            ChangeKind::Modified => (1, AnsiColor::Yellow),
            ChangeKind::Deleted => (2, AnsiColor::Red),
            ChangeKind::Type => (3, AnsiColor::Magenta),
        };
        counts[index] += 1;
        let word = ui.paint(color(shade), format_args!("{:<8}", change.kind.word()));
        let is_settled = report.settled.contains(&change.path);
        let note = if is_settled {
            " (resolved conflict)"
        } else {
            ""
        };
        writeln!(out, "  {word}  {}{note}", escape(&change.path))?;
    }
    for path in &report.unwritten {
        let word = ui.paint(color(AnsiColor::Red), "not written");
        writeln!(out, "  {word}  {}", escape(path))?;
    }
    for path in &report.outside {
        let word = ui.paint(color(AnsiColor::Red), "outside ");
        writeln!(out, "  {word}  {}", escape(path))?;
    }
    if is_clean {
        writeln!(out, "nothing changed")?;
        return Ok(());
    }
    let words = ["added", "modified", "deleted", "changed type", "renamed"];
    let mut parts: Vec<String> = counts
        .iter()
        .zip(words)
        .filter(|(n, _)| **n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    if !report.unwritten.is_empty() {
        parts.push(format!("{} not written", report.unwritten.len()));
    }
    if !report.outside.is_empty() {
        parts.push(format!("{} outside of the subset", report.outside.len()));
    }
    if !report.conflicts.is_empty() {
        let n = report.conflicts.len() as u64;
        parts.push(count(n, "conflict", "conflicts"));
    }
    writeln!(out, "{}", parts.join(", "))?;
    drop(out);
    let first = report.unwritten.first();
    hint_restore(context, None, first.map(|path| &path[..]));
    Ok(())
}

/// What to do where the branch was moved from elsewhere.
fn tell_moved(
    out: &mut impl Write,
    head: &Head,
    moved: &BranchMoved,
    by: Option<Mover>,
) -> Result<(), Failure> {
    let id = |id: Option<ObjectId>| id.map_or("no commit".to_owned(), |id| id.short(SHORT_ID));
    let base = id(moved.base);
    let clause = moved_clause("the branch", (moved.base, moved.tip), by.as_ref());
    writeln!(out, "{}; your files still come from {base}", clean(&clause))?;
    match moved.forward {
        true => writeln!(out, "  to keep your edits and merge: dmv commit -m MESSAGE")?,
        false => writeln!(
            out,
            "  to keep your edits on a new branch: dmv checkout -b NAME {base}"
        )?,
    }
    writeln!(out, "  to update your files: {}", go_back(head))?;
    Ok(())
}

/// The command that makes the files those of `head`.
pub fn go_back(head: &Head) -> String {
    match head {
        Head::Branch(name) => format!("dmv checkout {}", quoted(name)),
        Head::Commit(id) => format!("dmv checkout {}", id.short(SHORT_ID)),
    }
}

fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

//! `dmv status`

pub mod folded;
mod short;
mod unsent;

use crate::candidates;
use crate::commands::checkout::hint_restore;
use crate::commands::push::{is_replaced, way_past_replaced};
use crate::context::{CommandUse, Context};
use crate::damage::{KnownValue, print_known};
use crate::failure::{EXIT_DIFFERS, EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{ChangeValue, PathValue, ProblemValue, problems};
use crate::format::text::{SHORT_ID, clean, count, patterns, shown};
use crate::half::go_on;
use crate::partial::{
    ExpiredValue, GivenUpCounts, PurgedValue, SliceValue, brief, told_slice, words,
};
use anstyle::{AnsiColor, Style};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{
    Bisection, BranchPosition, ChangeKind, Head, KnownDamage, Mover, PathChange, Rename, Repo,
    RepoSlice, StatusOptions, StatusReport, moved_clause,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use folded::{DirectoryChange, FoldExtent, Line, UntrackedLine};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::Write;
use unsent::RemoteLack;

/// Show uncommitted changes, conflicts and the state of the branch
///
/// A directory that is new, deleted or renamed as a whole is one line, with the number of its files. With --short, prints one line per path, with
/// the letters of Git: ?? new, M modified, D deleted, R renamed, T another type, UU conflict. !W is a file
/// that dmv could not write, and !O a file outside of the worktree's subset.
///
/// With --verbose, also says when versions have expired and by which rule, and who has purged some.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv status\n  dmv status -s\n  dmv status -a media/raw\n  \
                  dmv status --exit-code media/raw"
)]
pub struct Args {
    /// Show only these files and directories
    #[arg(value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
    /// Print one line per path, with the letters of Git
    #[arg(short, long)]
    short: bool,
    /// With --short, print the branch first
    #[arg(short, long)]
    branch: bool,
    /// The same as --short, for scripts that were written for Git
    #[arg(long, value_name = "VERSION", num_args = 0..=1, require_equals = true, default_missing_value = "v1", hide = true)]
    porcelain: Option<String>,
    /// List every file, also in directories that are new, deleted or renamed as a whole
    #[arg(short, long, short_alias = 'u')]
    all: bool,
    /// Exit with 1 if there are changes
    #[arg(long)]
    exit_code: bool,
}

impl Args {
    /// How the command uses the terminal: no pager shows the output if the exit code is the answer.
    pub fn command_use(&self) -> CommandUse {
        if self.exit_code {
            CommandUse::Reads
        } else {
            CommandUse::Shows
        }
    }

    /// Whether each path gets one line with Git's letters.
    fn is_short(&self) -> Result<bool, Failure> {
        match self.porcelain.as_deref() {
            None => Ok(self.short),
            Some("v1" | "1") => Ok(true),
            Some(other) => {
                let message = format!("status has no form --porcelain={}", clean(other));
                Err(Failure::usage(message).hint("dmv status --porcelain, or dmv status --json"))
            }
        }
    }
}

/// For how many reasons --verbose says that versions were given up.
const REASONS_SHOWN: usize = 20;

#[derive(Serialize)]
struct Document {
    branch: Option<String>,
    commit: Option<String>,
    clean: bool,
    moved: bool,
    base: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished: Option<UnfinishedValue>,
    /// Whether a search for a first bad commit is under way.
    bisecting: bool,
    /// The command that goes on with a clone that is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    half_clone: Option<String>,
    upstream: Option<Upstream>,
    remotes: Vec<RemoteLack>,
    subset: Vec<String>,
    /// Patterns of the subset that match nothing in the commit.
    idle_patterns: Vec<String>,
    partial: Option<SliceValue>,
    /// What is known to be damaged or lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<KnownValue>,
    /// When versions have expired and by which rule, and how many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expired: Vec<ExpiredValue>,
    /// When versions were purged, by whom and why, and how many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    purged: Vec<PurgedValue>,
    outside: Vec<PathValue>,
    changes: Vec<ChangeValue>,
    /// What the next commit leaves out.
    untracking: Vec<UntrackingValue>,
    /// What differs because a command could not write it.
    not_written: Vec<PathValue>,
    conflicts: Vec<PathValue>,
    settled: Vec<PathValue>,
    /// Files with a conflict that is in no commit, such as after a stash pop.
    markers: Vec<PathValue>,
    problems: Vec<ProblemValue>,
    warnings: Vec<ProblemValue>,
}

/// How the branch stands to the same branch of a remote, as last seen there.
#[derive(Clone, Serialize)]
struct Upstream {
    name: String,
    ahead: usize,
    behind: usize,
    /// What to run if the remote's branch was replaced, so that a pull refuses.
    #[serde(skip)]
    way_past: Option<Hint>,
    #[serde(skip)]
    remote: String,
}

/// A checkout or the like that was cut off.
#[derive(Serialize)]
struct UnfinishedValue {
    go_on: String,
    go_back: String,
}

/// A file that is no longer tracked after the next commit.
#[derive(Serialize)]
struct UntrackingValue {
    #[serde(flatten)]
    path: PathValue,
    /// Whether it is on disk, where it stays.
    on_disk: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let is_short = args.is_short()?;
    let repo = context.repo_as_it_is()?;
    let select = Paths::new(context.paths_to_look_at(&repo, &args.paths, None)?);
    let (report, renames) = look(context, &repo, &select)?;
    let is_clean = report.changes.is_empty()
        && report.conflicts.is_empty()
        && report.outside.is_empty()
        && report.untracking.is_empty()
        && report.unwritten.is_empty()
        // What could not be examined, or is held back, may be a change.
        && report.problems.is_empty();
    let mut found = Overview {
        upstream: upstream(context, &repo, &report)?,
        lacks: unsent::lacks(context, &repo, report.commit)?,
        slice: told_slice(context, &repo),
        idle_patterns: idle_patterns(&repo, &report.subset)?,
        bisection: repo.bisection()?,
        damage: repo.known_damage(),
        report,
        renames,
        is_clean,
    };
    let half = repo.half_clone()?.map(|half| go_on(&repo, &half));
    if half.is_some() {
        // The clone writes the files: a checkout could not.
        found.report.unfinished = None;
    }
    if context.globals.json {
        context.ui.json(&document(&found, half.as_ref()))?;
    } else {
        if let Some(command) = half {
            print_half(context, &command)?;
        }
        let folding = match (args.all, is_short) {
            (true, _) => FoldExtent::Nothing,
            (false, true) => FoldExtent::New,
            (false, false) => FoldExtent::Whole,
        };
        let is_alone = |change: &PathChange| found.report.settled.contains(&change.path);
        let changes = (&found.report.changes[..], &found.renames);
        let lines = folded::lines(&repo, changes, &select, folding, &is_alone)?;
        if is_short {
            if found.damage.is_any() {
                let text = "stored objects are lost or damaged: dmv verify --quick";
                context.ui.warn(text);
            }
            short::print(context, &found, &lines, args.branch)?
        } else {
            let untracked = match folding {
                FoldExtent::Nothing => found
                    .report
                    .untracking
                    .iter()
                    .map(UntrackedLine::of)
                    .collect(),
                _ => folded::untracked(&repo, &found.report.untracking, &select)?,
            };
            print(context, &repo, &found, (&lines, &untracked))?
        }
        tell_problems(context, &found.report);
    }
    Ok(match (found.report.problems.is_empty(), is_clean) {
        (false, _) => EXIT_INCOMPLETE,
        (true, false) if args.exit_code => EXIT_DIFFERS,
        _ => EXIT_OK,
    })
}

/// What a status has found out.
struct Overview {
    report: StatusReport,
    renames: Renames,
    upstream: Option<Upstream>,
    lacks: Vec<RemoteLack>,
    slice: RepoSlice,
    /// A search for a first bad commit.
    bisection: Option<Bisection>,
    /// Patterns of the subset that match nothing in the commit, for printing.
    idle_patterns: Vec<String>,
    damage: KnownDamage,
    is_clean: bool,
}

/// The patterns of the worktree's subset that match nothing in its commit.
fn idle_patterns(repo: &Repo, subset: &Subset) -> Result<Vec<String>, Failure> {
    let Some(base) = repo
        .base_commit()?
        .filter(|_| !subset.is_everything() && *subset != Subset::nothing())
    else {
        return Ok(Vec::new());
    };
    let tree = repo.read_commit(&base)?.tree;
    // The status is of use without them, too.
    let idle = repo.idle_patterns(tree, &Subset::everything(), subset);
    let idle = idle.unwrap_or_default();
    Ok(idle.iter().map(|idle| shown(&idle.pattern)).collect())
}

/// Looks at the worktree, as far as `select` goes.
pub fn look(
    context: &Context,
    repo: &Repo,
    select: &Paths,
) -> Result<(StatusReport, Renames), Failure> {
    let options = StatusOptions {
        select,
        settings: context.settings()?,
    };
    let watch = context.watch("scanning");
    let mut report = repo.status(&options, &context.job)?;
    let renames = repo.renames(&report.changes, &context.job)?;
    drop(watch);
    super::diff::tell_limited(context, &renames);
    report
        .changes
        .retain(|change| select.includes(change.path.as_bytes()));
    let renames: Renames = renames
        .list
        .into_iter()
        .map(|r| (r.to.clone(), r))
        .collect();
    let gone: HashSet<&RepoPath> = renames.values().map(|r| &r.from).collect();
    // The old path is told with the new one.
    let told = |c: &PathChange| c.kind != ChangeKind::Deleted || !gone.contains(&c.path);
    report.changes.retain(told);
    report
        .untracking
        .retain(|at| select.includes(at.path.as_bytes()));
    report.outside.retain(|path| select.includes(path));
    for paths in [
        &mut report.unwritten,
        &mut report.conflicts,
        &mut report.pending,
        &mut report.settled,
        &mut report.marked,
    ] {
        paths.retain(|path| select.includes(path.as_bytes()));
    }
    Ok((report, renames))
}

/// Says how to go on with a clone that is not finished.
fn print_half(context: &Context, command: &Hint) -> Result<(), Failure> {
    let mut out = context.ui.out();
    writeln!(
        out,
        "this clone is incomplete: it is still running, or it was interrupted"
    )?;
    writeln!(out, "  to continue: {command}")?;
    Ok(())
}

/// Says which paths could not be looked at.
fn tell_problems(context: &Context, report: &StatusReport) {
    for problem in &report.problems {
        let (path, why) = (escape(&problem.path), &problem.why);
        context.ui.warn(format_args!("cannot read {path}: {why}"));
    }
    for warning in report.warnings.iter().filter(|_| context.ui.verbose()) {
        let (path, why) = (escape(&warning.path), &warning.why);
        context.ui.warn(format_args!("{path}: {why}"));
    }
}

/// Files that were moved, by their new paths.
pub type Renames = HashMap<RepoPath, Rename>;

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
    let (ahead, behind) = if ours == theirs {
        (0, 0)
    } else {
        repo.distance(ours, theirs)?
    };
    let is_other = behind > 0 && is_replaced(repo, &remote, branch, ours, theirs);
    Ok(Some(Upstream {
        name,
        ahead,
        behind,
        way_past: is_other.then(|| way_past_replaced(&remote, branch)),
        remote,
    }))
}

/// `half`: the command that goes on with a clone that is not finished.
fn document(found: &Overview, half: Option<&Hint>) -> Document {
    let report = &found.report;
    let given_up = GivenUpCounts::of(&found.slice);
    let change = |change: &PathChange| {
        let from = origin(&found.renames, change);
        let word = from.map_or(change.kind.word(), |_| "renamed");
        ChangeValue::new(change.path.as_bytes(), word, from)
    };
    Document {
        branch: report.head.branch().map(str::to_owned),
        commit: report.commit.map(|id| id.to_string()),
        clean: found.is_clean,
        moved: report.moved.is_some(),
        base: match &report.moved {
            Some(moved) => moved.base.map(|id| id.to_string()),
            None => report.commit.map(|id| id.to_string()),
        },
        unfinished: report.unfinished.as_ref().map(|cut| UnfinishedValue {
            go_on: cut.command.clone(),
            go_back: go_back(&report.head).to_string(),
        }),
        bisecting: found.bisection.is_some(),
        half_clone: half.map(Hint::to_string),
        upstream: found.upstream.clone(),
        remotes: found.lacks.clone(),
        subset: patterns(&report.subset),
        idle_patterns: found.idle_patterns.clone(),
        partial: SliceValue::new(&found.slice),
        damage: KnownValue::new(&found.damage),
        expired: given_up.expired_values(),
        purged: given_up.purged_values(),
        outside: report.outside.iter().map(PathValue::new).collect(),
        changes: report.changes.iter().map(change).collect(),
        untracking: report
            .untracking
            .iter()
            .map(|at| UntrackingValue {
                path: PathValue::new(&at.path),
                on_disk: at.on_disk,
            })
            .collect(),
        not_written: report.unwritten.iter().map(PathValue::new).collect(),
        conflicts: report.conflicts.iter().map(PathValue::new).collect(),
        settled: report.settled.iter().map(PathValue::new).collect(),
        markers: report.marked.iter().map(PathValue::new).collect(),
        problems: problems(&report.problems),
        warnings: problems(&report.warnings),
    }
}

fn print(
    context: &Context,
    repo: &Repo,
    found: &Overview,
    lines: (&[Line<'_>], &[UntrackedLine<'_>]),
) -> Result<(), Failure> {
    let Overview { report, slice, .. } = found;
    let mut out = context.ui.out();
    print_head(context, &mut *out, report)?;
    if let Some(upstream) = &found.upstream {
        print_upstream(&mut *out, upstream)?;
    }
    let said = found.upstream.as_ref().map(|upstream| &upstream.remote[..]);
    unsent::print(&mut *out, &found.lacks, said)?;
    if let Some(moved) = &report.moved {
        let by = repo.mover(&report.head)?;
        tell_moved(&mut *out, &report.head, moved, by)?;
    }
    print_unfinished(&mut *out, report)?;
    if let Some(bisection) = &found.bisection {
        print_bisection(&mut *out, bisection)?;
    }
    print_known(&mut *out, &found.damage)?;
    print_limits(&mut *out, report, slice)?;
    if context.ui.verbose() {
        print_given_up(&mut *out, slice)?;
    }
    for pattern in &found.idle_patterns {
        writeln!(out, "  nothing in the commit matches '{}'", clean(pattern))?;
    }
    let counts = print_paths(context, &mut *out, found, lines)?;
    if found.is_clean {
        writeln!(out, "nothing changed")?;
        return Ok(());
    }
    let sums = sums(report, &counts);
    if sums.is_empty() {
        writeln!(out, "nothing changed, as far as dmv can tell")?;
    } else {
        writeln!(out, "{}", sums.join(", "))?;
    }
    drop(out);
    hint_restore(
        context,
        None,
        report.unwritten.iter().map(RepoPath::as_bytes),
    );
    Ok(())
}

fn print_head(
    context: &Context,
    out: &mut impl Write,
    report: &StatusReport,
) -> Result<(), Failure> {
    let commit = match &report.commit {
        Some(id) => id.short(SHORT_ID),
        None => "no commits yet".to_owned(),
    };
    match &report.head {
        Head::Branch(name) => writeln!(out, "on branch {}, {commit}", context.ui.branch(name))?,
        Head::Commit(_) => writeln!(out, "on commit {commit}, on no branch")?,
    }
    Ok(())
}

fn print_upstream(out: &mut impl Write, upstream: &Upstream) -> Result<(), Failure> {
    let name = clean(&upstream.name);
    let commits = |n: usize| count(n as u64, "commit", "commits");
    let combine = upstream.way_past.as_ref().map_or("dmv pull", Hint::as_str);
    match (upstream.ahead, upstream.behind) {
        (0, 0) => {}
        (ahead, 0) => writeln!(out, "{} ahead of {name}: dmv push", commits(ahead))?,
        (0, behind) => writeln!(out, "{} behind {name}: {combine}", commits(behind))?,
        (ahead, behind) => writeln!(
            out,
            "you and {name} both have new commits ({ahead} here, {behind} there); to combine them: {combine}"
        )?,
    }
    Ok(())
}

/// How far a search for a first bad commit has come.
fn print_bisection(out: &mut impl Write, bisection: &Bisection) -> Result<(), Failure> {
    let bad = match &bisection.bad {
        Some(id) => format!("{} is bad", id.short(SHORT_ID)),
        None => "no bad commit yet".to_owned(),
    };
    let good = count(bisection.good.len() as u64, "good commit", "good commits");
    writeln!(out, "a bisection is under way: {bad}, {good}")?;
    writeln!(out, "  to go on:  dmv bisect good, or dmv bisect bad")?;
    writeln!(out, "  to end it: dmv bisect end")?;
    Ok(())
}

/// What to do where a checkout was interrupted.
fn print_unfinished(out: &mut impl Write, report: &StatusReport) -> Result<(), Failure> {
    let Some(cut) = &report.unfinished else {
        return Ok(());
    };
    let command = clean(&cut.command);
    writeln!(
        out,
        "a checkout was interrupted: some files are from another commit or subset"
    )?;
    writeln!(out, "  to continue: {command}")?;
    let back = go_back(&report.head);
    if back.as_str() != cut.command {
        writeln!(out, "  to go back:  {back}")?;
    }
    Ok(())
}

/// What the worktree and the repository are limited to.
fn print_limits(
    out: &mut impl Write,
    report: &StatusReport,
    slice: &RepoSlice,
) -> Result<(), Failure> {
    if report.subset == Subset::nothing() {
        let text = "this worktree has no files, by choice; to write some: dmv subset add PATH";
        writeln!(out, "{text}")?;
    } else if !report.subset.is_everything() {
        writeln!(out, "limited to the subset {}", brief(&report.subset))?;
    }
    if let Some(words) = words(slice) {
        writeln!(out, "stored here in part: {words}")?;
    }
    if slice.metadata_only {
        writeln!(
            out,
            "file content is absent by choice; to fetch some: dmv get PATH"
        )?;
    }
    Ok(())
}

/// When and why versions were given up, if somebody wants to know.
fn print_given_up(out: &mut impl Write, slice: &RepoSlice) -> Result<(), Failure> {
    let mut lines = GivenUpCounts::of(slice).lines();
    let more = lines.len().saturating_sub(REASONS_SHOWN);
    lines.truncate(REASONS_SHOWN);
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    if more > 0 {
        let more = count(more as u64, "more reason", "more reasons");
        writeln!(out, "  and {more}: dmv verify --quick")?;
    }
    Ok(())
}

/// How many changes there are of each kind.
#[derive(Default)]
struct Counts {
    added: u64,
    modified: u64,
    deleted: u64,
    retyped: u64,
    renamed: u64,
}

impl Counts {
    fn add(&mut self, line: &Line<'_>, renames: &Renames) {
        let (sum, files) = match line {
            Line::Directory(folded) => {
                let sum = match folded.how {
                    DirectoryChange::New => &mut self.added,
                    DirectoryChange::Gone => &mut self.deleted,
                    DirectoryChange::MovedFrom(_) => &mut self.renamed,
                };
                (sum, folded.files)
            }
            Line::Change(change) if origin(renames, change).is_some() => (&mut self.renamed, 1),
            Line::Change(change) => {
                let sum = match change.kind {
                    ChangeKind::Added => &mut self.added,
                    ChangeKind::Modified => &mut self.modified,
                    ChangeKind::Deleted => &mut self.deleted,
                    ChangeKind::Type => &mut self.retyped,
                };
                (sum, 1)
            }
        };
        *sum += files;
    }
}

/// One line for each path, or for a whole directory. Returns how many changes there are.
fn print_paths(
    context: &Context,
    out: &mut impl Write,
    found: &Overview,
    (lines, untracked): (&[Line<'_>], &[UntrackedLine<'_>]),
) -> Result<Counts, Failure> {
    let (ui, report) = (&context.ui, &found.report);
    let pending: HashSet<&RepoPath> = report.pending.iter().collect();
    for path in &report.conflicts {
        let mark = ui.paint(color(AnsiColor::Red), "conflict");
        let note = if pending.contains(path) {
            " (in no commit yet: the next commit leaves it out)"
        } else {
            ""
        };
        writeln!(out, "  {mark}  {}{note}", escape(path))?;
    }
    let mut counts = Counts::default();
    for line in lines {
        counts.add(line, &found.renames);
        let told = line.told(&found.renames);
        let word = ui.paint(color(told.shade), format_args!("{:<8}", told.word));
        let note = match line {
            Line::Change(change) if report.settled.contains(&change.path) => " (resolved conflict)",
            _ => "",
        };
        writeln!(out, "  {word}  {}{note}", told.text)?;
    }
    for line in untracked {
        let word = ui.paint(color(AnsiColor::Red), "untracked");
        let note = match (line.file.on_disk, line.whole) {
            (true, None) => "after the next commit; the file stays",
            (true, Some(_)) => "after the next commit; the files stay",
            (false, _) => "after the next commit; not in this worktree",
        };
        writeln!(out, "  {word} {} ({note})", line.path())?;
    }
    for path in &report.unwritten {
        let word = ui.paint(color(AnsiColor::Red), "not written");
        writeln!(out, "  {word}  {}", escape(path))?;
    }
    for path in &report.outside {
        let word = ui.paint(color(AnsiColor::Red), "outside ");
        writeln!(out, "  {word}  {}", escape(path))?;
    }
    Ok(counts)
}

/// How many paths there are of each sort, in words.
fn sums(report: &StatusReport, counts: &Counts) -> Vec<String> {
    let sums = [
        (counts.added, "added"),
        (counts.modified, "modified"),
        (counts.deleted, "deleted"),
        (counts.retyped, "changed type"),
        (counts.renamed, "renamed"),
        (report.untracking.len() as u64, "no longer tracked"),
        (report.unwritten.len() as u64, "not written"),
        (report.outside.len() as u64, "outside of the subset"),
    ];
    let some = sums.into_iter().filter(|(n, _)| *n > 0);
    let mut parts: Vec<String> = some.map(|(n, word)| format!("{n} {word}")).collect();
    if !report.conflicts.is_empty() {
        let n = report.conflicts.len() as u64;
        parts.push(count(n, "conflict", "conflicts"));
    }
    parts
}

/// What to do where the branch was moved from elsewhere.
fn tell_moved(
    out: &mut impl Write,
    head: &Head,
    moved: &BranchPosition,
    by: Option<Mover>,
) -> Result<(), Failure> {
    let id = |id: Option<ObjectId>| id.map_or("no commit".to_owned(), |id| id.short(SHORT_ID));
    if moved.base.is_none() && moved.forward {
        // No commit is possible before the files are there.
        writeln!(
            out,
            "no files were written here yet, for example because a clone was interrupted"
        )?;
        writeln!(out, "  to write them: {}", go_back(head))?;
        return Ok(());
    }
    let base = id(moved.base);
    let clause = moved_clause("the branch", (moved.base, moved.tip), by.as_ref());
    writeln!(out, "{}; your files still come from {base}", clean(&clause))?;
    if moved.forward {
        writeln!(out, "  to keep your edits and merge: dmv commit -m MESSAGE")?
    } else {
        let keep = hint!("dmv checkout -b NAME {}", Argument::value(base));
        writeln!(out, "  to keep your edits on a new branch: {keep}")?
    }
    writeln!(out, "  to update your files: {}", go_back(head))?;
    Ok(())
}

/// The command that makes the files those of `head`.
pub fn go_back(head: &Head) -> Hint {
    let to = match head {
        Head::Branch(name) => Argument::value(name),
        Head::Commit(id) => Argument::value(id.short(SHORT_ID)),
    };
    hint!("dmv checkout {}", to)
}

fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

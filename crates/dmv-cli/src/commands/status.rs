//! `dmv status`

mod short;
mod unsent;

use crate::context::CommandUse;
use crate::damage::{known_value, print_known};
use crate::format::json;
use crate::partial_repository::{GivenUpCounts, brief, slice_value, told_slice, words};
use crate::prelude::*;
use crate::print::checkout::hint_restore;
use crate::print::claims::ClaimedPath;
use crate::print::folded_directories;
use crate::print::folded_directories::{DirectoryChange, FoldExtent, Line, UntrackedLine};
use crate::print::replaced_branches::{is_replaced, way_past_replaced};
use crate::print::worktree_state::{Renames, look, origin};
use crate::print::{claims, newer};
use crate::unfinished_clone::go_on;
use dmv_core::repo::{
    BisectNext, Bisection, BranchPosition, ChangeKind, KnownDamage, Mover, NewerVersion,
    PathChange, RepoSlice, StatusReport, moved_clause,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::select::Paths;
use std::collections::HashSet;
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
    /// How the command uses the terminal.
    pub fn command_use(&self) -> CommandUse {
        CommandUse::of_look(self.exit_code)
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

/// How many newer versions are shown.
const NEWER_SHOWN: usize = 20;

/// For how many reasons --verbose says that versions were given up.
const REASONS_SHOWN: usize = 20;

/// How the branch stands to the same branch of a remote, as last seen there.
struct Upstream {
    name: String,
    ahead: usize,
    behind: usize,
    /// What to run if the remote's branch was replaced, so that a pull refuses.
    way_past: Option<Hint>,
    remote: String,
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
    let newer = newer_versions(context, &repo, &report)?;
    let mut found = Overview {
        newer,
        claims: claims::of_others(
            context,
            &repo,
            report.changes.iter().map(|change| &change.path),
        )?,
        unclaimed: unclaimed(&repo, &report)?,
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
    if context.ui.is_json() {
        let newer = newer::lines(&repo, &found.newer)?;
        let newer = newer.iter().map(ToJson::to_json).collect();
        context
            .ui
            .json(&document(&found, Json::List(newer), half.as_ref()))?;
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
        let lines = folded_directories::lines(&repo, changes, &select, folding, &is_alone)?;
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
                _ => folded_directories::untracked(&repo, &found.report.untracking, &select)?,
            };
            print(context, &repo, &found, &lines, &untracked)?
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
    /// Versions of the changed files that other branches have.
    newer: Vec<NewerVersion>,
    /// Claims of others on changed files.
    claims: Vec<ClaimedPath>,
    /// Changed files that were to be claimed before, and are not.
    unclaimed: Vec<RepoPath>,
    is_clean: bool,
}

/// The versions of changed files that other branches have.
fn newer_versions(
    context: &Context,
    repo: &Repo,
    report: &StatusReport,
) -> Result<Vec<NewerVersion>, Failure> {
    let Some(own) = repo.own_commit()? else {
        return Ok(Vec::new());
    };
    let changed = report.changes.iter().map(|change| &change.path);
    let changed = changed.chain(&report.conflicts).map(RepoPath::as_bytes);
    Ok(newer::of_paths(context, repo, own, changed.collect()).versions)
}

/// The changed files that the attribute file asks to claim, and that this device has not claimed. Nobody else can have
/// a new file.
fn unclaimed(repo: &Repo, report: &StatusReport) -> Result<Vec<RepoPath>, Failure> {
    let mut changes = report.changes.iter().peekable();
    if changes.peek().is_none() {
        return Ok(Vec::new());
    }
    let changed = changes.filter(|change| change.kind != ChangeKind::Added);
    Ok(repo.unclaimed(changed.map(|change| &change.path))?)
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
    context.ui.warn_of("cannot read ", &report.problems);
    if context.ui.verbose() {
        context.ui.warn_of("", &report.warnings);
    }
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
fn document(found: &Overview, newer: Json, half: Option<&Hint>) -> Json {
    let report = &found.report;
    let given_up = GivenUpCounts::of(&found.slice);
    let change = |change: &PathChange| {
        let from = origin(&found.renames, change);
        let word = from.map_or(change.kind.word(), |_| "renamed");
        json::change(change.path.as_bytes(), word, from)
    };
    let base = match &report.moved {
        Some(moved) => moved.base,
        None => report.commit,
    };
    let unfinished = report
        .unfinished
        .as_ref()
        .map(|cut| object! { go_on: cut.command, go_back: report.way_back() });
    let upstream = found.upstream.as_ref();
    let upstream = upstream.map(|upstream| object! { upstream.{name, ahead, behind} });
    let remotes = found.lacks.iter();
    let remotes = remotes.map(|lack| object! { lack.{name, missing} });
    let untracking = report.untracking.iter();
    let untracking = untracking.map(|at| object! { ..path(&at.path), at.{on_disk} });
    let (expired, purged) = (given_up.expired_values(), given_up.purged_values());
    object! {
        branch: report.head.branch(),
        report.{commit},
        clean: found.is_clean,
        moved: report.moved.is_some(),
        base: base,
        unfinished?: unfinished,
        bisecting: found.bisection.is_some(),
        half_clone?: half,
        upstream: upstream,
        remotes: Json::List(remotes.collect()),
        subset: patterns(&report.subset),
        found.{idle_patterns},
        partial: slice_value(&found.slice),
        damage?: known_value(&found.damage),
        expired?: (!expired.is_empty()).then_some(expired),
        purged?: (!purged.is_empty()).then_some(purged),
        outside: paths(&report.outside),
        changes: Json::List(report.changes.iter().map(change).collect()),
        untracking: Json::List(untracking.collect()),
        newer: newer,
        claims?: (!found.claims.is_empty()).then(|| claim_values(&found.claims)),
        unclaimed?: (!found.unclaimed.is_empty()).then(|| paths(&found.unclaimed)),
        not_written: paths(&report.unwritten),
        conflicts: paths(&report.conflicts),
        settled: paths(&report.settled),
        markers: paths(&report.marked),
        report.{problems, warnings},
    }
}

fn print(
    context: &Context,
    repo: &Repo,
    found: &Overview,
    lines: &[Line<'_>],
    untracked: &[UntrackedLine<'_>],
) -> Result<(), Failure> {
    let Overview { report, slice, .. } = found;
    let mut out = context.ui.out();
    writeln!(out, "{}", on(&context.ui, &report.head, report.commit))?;
    if let Some(upstream) = &found.upstream {
        print_upstream(&mut out, upstream)?;
    }
    let said = found.upstream.as_ref().map(|upstream| &upstream.remote[..]);
    unsent::print(&mut out, &found.lacks, said)?;
    if let Some(moved) = &report.moved {
        let by = repo.mover(&report.head)?;
        tell_moved(&mut out, &report.head, moved, by)?;
    }
    print_unfinished(&mut out, report)?;
    if let Some(bisection) = &found.bisection {
        print_bisection(context, &mut out, repo, bisection)?;
    }
    print_known(&mut out, &found.damage)?;
    print_limits(&mut out, report, slice)?;
    if context.ui.verbose() {
        print_given_up(&mut out, slice)?;
    }
    for pattern in &found.idle_patterns {
        writeln!(out, "  nothing in the commit matches '{}'", clean(pattern))?;
    }
    let counts = print_paths(context, &mut out, found, lines, untracked)?;
    print_newer(&mut out, repo, &found.newer)?;
    print_claims(&mut out, &found.claims)?;
    print_unclaimed(&mut out, &found.unclaimed)?;
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
    hint_restore(
        context,
        None,
        report.unwritten.iter().map(RepoPath::as_bytes),
    );
    Ok(())
}

/// Which of the changed files others have claimed, in JSON.
fn claim_values(claims: &[ClaimedPath]) -> Json {
    let value = |claimed: &ClaimedPath| claims::value_of_path(&claimed.path, &claimed.info);
    Json::List(claims.iter().map(value).collect())
}

/// Which of the changed files others have claimed.
fn print_claims(out: &mut impl Write, claims: &[ClaimedPath]) -> Result<(), Failure> {
    if claims.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "files that you have changed and others have claimed (dmv claims):"
    )?;
    for claimed in claims.iter().take(NEWER_SHOWN) {
        let told = claims::told(&claimed.path, &claimed.info);
        writeln!(out, "  claimed   {told}")?;
    }
    if let Some(more) = claims
        .len()
        .checked_sub(NEWER_SHOWN)
        .filter(|more| *more > 0)
    {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}

/// Which of the changed files were to be claimed before.
fn print_unclaimed(out: &mut impl Write, unclaimed: &[RepoPath]) -> Result<(), Failure> {
    if unclaimed.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "files that should be claimed before a change (dmv claim PATH):"
    )?;
    for path in unclaimed.iter().take(NEWER_SHOWN) {
        writeln!(out, "  unclaimed  {}", escape(path))?;
    }
    if let Some(more) = unclaimed.get(NEWER_SHOWN..).filter(|more| !more.is_empty()) {
        writeln!(out, "  and {} more", more.len())?;
    }
    Ok(())
}

/// Which of the changed files are newer elsewhere.
fn print_newer(
    out: &mut impl Write,
    repo: &Repo,
    versions: &[NewerVersion],
) -> Result<(), Failure> {
    if versions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "newer versions of files that you have changed (dmv newer):"
    )?;
    let (shown, more) = versions.split_at(versions.len().min(NEWER_SHOWN));
    for line in newer::lines(repo, shown)? {
        writeln!(out, "  newer     {}", line.text())?;
    }
    if !more.is_empty() {
        writeln!(out, "  and {} more", more.len())?;
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
fn print_bisection(
    context: &Context,
    out: &mut impl Write,
    repo: &Repo,
    bisection: &Bisection,
) -> Result<(), Failure> {
    let bad = match &bisection.bad {
        Some(id) => format!("{} is bad", id.short(SHORT_ID)),
        None => "no bad commit yet".to_owned(),
    };
    let good = count(bisection.good.len() as u64, "good commit", "good commits");
    let progress = repo.bisect_progress();
    if let Err(e) = &progress {
        // The rest of the status does not wait for it.
        context.ui.warn(format_args!("the bisection: {e}"));
    }
    match progress.map(|progress| progress.next) {
        Ok(BisectNext::Found(id)) => {
            let id = id.short(SHORT_ID);
            writeln!(out, "a bisection has found the first bad commit: {id}")?;
        }
        _ => {
            writeln!(out, "a bisection is under way: {bad}, {good}")?;
            writeln!(out, "  to go on:  dmv bisect good, or dmv bisect bad")?;
        }
    }
    writeln!(out, "  to end it: dmv bisect end")?;
    Ok(())
}

/// What to do where a checkout was interrupted, or a command on uncommitted files.
fn print_unfinished(out: &mut impl Write, report: &StatusReport) -> Result<(), Failure> {
    let Some(cut) = &report.unfinished else {
        return Ok(());
    };
    let command = clean(&cut.command);
    let what = if cut.is_switch() {
        "a checkout was interrupted: some files are from another commit or subset"
    } else {
        "a command was interrupted: it has changed some files, and others not yet"
    };
    writeln!(out, "{what}")?;
    writeln!(out, "  to continue: {command}")?;
    if let Some(back) = report.way_back() {
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

/// When and why versions were given up, for `--verbose`.
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
    lines: &[Line<'_>],
    untracked: &[UntrackedLine<'_>],
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
        writeln!(out, "  to write them: {}", head.checkout_command())?;
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
    writeln!(out, "  to update your files: {}", head.checkout_command())?;
    Ok(())
}

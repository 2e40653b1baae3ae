//! `dmv checkout`

use crate::candidates;
use crate::context::Context;
use crate::deleted::DeletedFiles;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{PathValue, ProblemValue, problems};
use crate::format::text::{SHORT_ID, bytes, clean, count, patterns, shown};
use crate::keeping::{OverwrittenValue, keeping, tell_overwritten};
use crate::limit::{EmptiedValue, LimitArgs, tell_adopted, tell_emptied, tell_idle};
use crate::whose::path_argument;
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::object::name::escape;
use dmv_core::repo::{
    CheckoutOptions, CheckoutReport, CheckoutTarget, Head, Location, Repo, RepoError, RepoSlice,
    RevisionError, is_previous,
};
use dmv_core::subset::Subset;
use dmv_core::worktree::snapshot::Problem;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Switch the worktree to a branch or revision
///
/// Uncommitted changes stay if the switch does not touch those files. If it would overwrite them, dmv
/// refuses and changes nothing. If only a remote has the branch REV, dmv creates the branch locally. The
/// revision - names the branch or commit that the worktree was on before.
///
/// In a bare repository, REV is the branch that clones start with.
///
/// --subset, --subset-file and --all change which paths the worktree has. The new subset stays until you
/// change it again.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv checkout regrade\n  dmv checkout v1.0\n  dmv checkout -\n  dmv checkout -b retime\n  \
                  dmv checkout main --subset media/scene4 'titles/*.png' '!media/scene4/raw'\n  \
                  dmv checkout --all"
)]
pub struct Args {
    /// The branch or revision to switch to (default: @)
    #[arg(value_name = "REV", required_unless_present_any = ["limit", "all", "new_branch"], add = candidates::revision())]
    revision: Option<String>,
    #[command(flatten)]
    limit: LimitArgs,
    /// Remove the limit on paths: write all files of the commit
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Overwrite uncommitted changes of tracked files; 'dmv undo' restores them
    #[arg(short, long)]
    force: bool,
    /// Create the branch NAME at REV and switch to it
    #[arg(short = 'b', long = "branch", value_name = "NAME")]
    new_branch: Option<String>,
}

#[derive(Serialize)]
struct Document {
    files: u64,
    bytes: u64,
    removed: u64,
    branch: Option<String>,
    commit: String,
    subset: Vec<String>,
    idle_patterns: Vec<String>,
    emptied_patterns: Vec<EmptiedValue>,
    /// Files that were there already and count as edits.
    kept: Vec<PathValue>,
    problems: Vec<ProblemValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwritten: Option<OverwrittenValue>,
}

/// The default branch of a bare repository, in JSON.
#[derive(Serialize)]
struct DefaultBranch<'a> {
    branch: &'a str,
    commit: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let is_plain = args.new_branch.is_none() && !args.all && !args.force && !args.limit.is_given();
    if let (None, Some(name), true) = (repo.worktree_root(), &args.revision, is_plain) {
        return set_default(context, &repo, name);
    }
    let revision = args.revision.as_deref().unwrap_or("@");
    let target = match &args.new_branch {
        Some(name) => CheckoutTarget::NewBranch(name.clone(), repo.resolve(revision)?),
        None => target(context, &repo, revision)?,
    };
    let subset = if args.all {
        Some(Subset::everything())
    } else {
        args.limit.read(context, &repo)?
    };
    let mut options = CheckoutOptions {
        subset,
        force: args.force,
        settings: context.settings()?,
        request: context.request()?,
    };
    let made = match &target {
        CheckoutTarget::NewBranch(name, _) => Some(clean(name)),
        _ => None,
    };
    let before = repo.head()?;
    let report = keeping(context, &repo, "checking out", |settings| {
        options.settings = settings.clone();
        repo.checkout(target.clone(), &options, &context.job)
    })?;
    if let (Some(name), false) = (made, context.globals.json || context.ui.quiet()) {
        writeln!(context.ui.out(), "created branch {name}")?;
    }
    let code = finish(context, &report, true)?;
    tell_left(context, &repo, &before, &report)?;
    if !context.globals.json
        && !context.ui.quiet()
        && let Some(deleted) = DeletedFiles::find(context, &repo)
    {
        deleted.tell(context);
    }
    Ok(code)
}

/// Makes a branch the default one of a bare repository.
fn set_default(context: &Context, repo: &Repo, name: &str) -> Result<u8, Failure> {
    let commit = repo.set_default_branch(name, context.request()?)?;
    if context.globals.json {
        context.ui.json(&DefaultBranch {
            branch: name,
            commit: commit.to_string(),
        })?;
    } else if !context.ui.quiet() {
        let (name, id) = (clean(name), commit.short(SHORT_ID));
        writeln!(
            context.ui.out(),
            "default branch {name}, {id}: clones start with it"
        )?;
    }
    Ok(EXIT_OK)
}

/// Names a commit that the worktree has left and that no branch leads to, or how to go back to a branch
/// that it has left for a commit.
fn tell_left(
    context: &Context,
    repo: &Repo,
    before: &Head,
    report: &CheckoutReport,
) -> Result<(), Failure> {
    let left = match (before, &report.head) {
        (Head::Branch(name), Head::Commit(_)) => {
            context.ui.note(hint!(
                "to go back: dmv checkout {}; to commit here: dmv checkout -b NAME",
                Argument::value(name)
            ));
            return Ok(());
        }
        (Head::Branch(_), _) => return Ok(()),
        (Head::Commit(left), _) => left,
    };
    if *left == report.commit || repo.is_on_a_branch(*left)? {
        return Ok(());
    }
    let id = left.short(SHORT_ID);
    let keep = hint!("dmv branch NAME {}", Argument::value(&id));
    context.ui.warn(format_args!(
        "you left commit {id}, which is on no branch; to keep it: {keep}"
    ));
    Ok(())
}

/// A branch where there is one of that name: then commits will move it. If there is none here and
/// the usual remote has one, or only one remote, that is made here.
fn target(context: &Context, repo: &Repo, revision: &str) -> Result<CheckoutTarget, Failure> {
    if (revision == "@" || revision == "HEAD")
        && let Head::Branch(name) = repo.head()?
    {
        return Ok(CheckoutTarget::Branch(name));
    }
    if let Some(name) = repo.named_branch(revision)? {
        return Ok(CheckoutTarget::Branch(name));
    }
    if is_previous(revision)
        && let Head::Branch(name) = repo.previous_head(revision)?
    {
        // Fails if the branch was deleted.
        repo.resolve(revision)?;
        return Ok(CheckoutTarget::Branch(name));
    }
    match repo.resolve(revision) {
        Err(RepoError::Revision(e @ RevisionError::OnlyRemote { .. })) => {
            let RevisionError::OnlyRemote { remotes, .. } = &e else {
                return Err(RepoError::Revision(e).into());
            };
            let usual = context.config()?.default_remote();
            let usual = usual.map(|remote| format!("{remote}/{revision}"));
            let usual = usual.filter(|usual| remotes.contains(usual));
            let only = || Some(remotes[0].clone()).filter(|_| remotes.len() == 1);
            match usual.or_else(only) {
                Some(theirs) => {
                    let commit = repo.resolve(&theirs)?;
                    Ok(CheckoutTarget::NewBranch(revision.to_owned(), commit))
                }
                None => Err(RepoError::Revision(e).into()),
            }
        }
        found => Ok(CheckoutTarget::Commit(found?)),
    }
}

/// Tells what could not be written in the worktree (the one at `dir`, if that is another), and how to
/// have it.
pub fn tell_refused(context: &Context, dir: Option<&Path>, refused: &[Problem]) {
    match dir {
        Some(_) => {
            warn_of(context, refused);
            hint_restore(context, dir, refused.iter().map(|one| one.path.as_bytes()));
        }
        None => tell_and_hint(context, refused, AGAIN),
    }
}

/// What helps if a restore would overwrite the user's work.
pub const AGAIN: &str = "dmv undo, then the same command again";

/// Tells what could not be written. The hint is a restore only if it overwrites nothing of the user,
/// otherwise `again`.
pub fn tell_and_hint(context: &Context, refused: &[Problem], again: &'static str) {
    warn_of(context, refused);
    if refused.is_empty() {
        return;
    }
    // The hint may be less exact than it could be, but it has to come.
    let former = unwritten(context).unwrap_or_default();
    let paths = refused.iter().map(|problem| problem.path.as_bytes());
    let mut former = paths
        .filter(|path| former.iter().any(|known| known == path))
        .peekable();
    match former.peek() {
        Some(_) => hint_restore(context, None, former),
        None => context
            .ui
            .note(hint!("hint: when that is mended: {}", again)),
    }
}

fn warn_of(context: &Context, refused: &[Problem]) {
    for problem in refused {
        let (path, why) = (escape(&problem.path), &problem.why);
        context.ui.warn(format_args!("not written: {path}: {why}"));
    }
}

/// Returns the paths that still have what a former commit had there, and no work of the user.
fn unwritten(context: &Context) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(context.repo()?.unwritten(&context.settings()?)?)
}

/// Names the command that writes the first path that could not be written.
pub fn hint_restore<'p>(
    context: &Context,
    dir: Option<&Path>,
    paths: impl Iterator<Item = &'p [u8]>,
) {
    let repo = match dir {
        Some(dir) => Repo::open(dir).ok(),
        None => context.repo().ok(),
    };
    if let Some(way) = way_to_restore(repo.as_ref(), dir, paths) {
        context.ui.note(hint!("hint: {}", way));
    }
}

/// Returns the command that writes the first of some paths. No command writes what was purged.
pub fn way_to_restore<'p>(
    repo: Option<&Repo>,
    dir: Option<&Path>,
    mut paths: impl Iterator<Item = &'p [u8]>,
) -> Option<Hint> {
    let slice = repo.and_then(|repo| repo.slice().ok());
    let is_purged = |path: &[u8]| match (repo, &slice) {
        (Some(repo), Some(slice)) => is_purged(repo, slice, path).unwrap_or(false),
        _ => false,
    };
    let path = paths.find(|path| !is_purged(path))?;
    Some(match dir {
        Some(dir) => hint!(
            "when that is mended: dmv -C {} restore {}",
            Argument::on_disk(dir),
            Argument::path(path, true)
        ),
        None => hint!("when that is mended: dmv restore {}", path_argument(path)),
    })
}

/// Whether the content that the worktree's commit has at `path` was purged, here or at a remote.
fn is_purged(repo: &Repo, slice: &RepoSlice, path: &[u8]) -> Result<bool, RepoError> {
    let Some(head) = repo.head_commit()? else {
        return Ok(false);
    };
    let commit = repo.read_commit(&head)?;
    Ok(match repo.locate("@", &commit, &Repo::parse_path(path)?)? {
        Location::Entry(entry) => slice.purge_of(&entry.id).is_some(),
        Location::Root { .. } => false,
    })
}

/// Tells what a checkout or restore did.
pub fn finish(context: &Context, report: &CheckoutReport, switched: bool) -> Result<u8, Failure> {
    let ui = &context.ui;
    if context.globals.json {
        ui.json(&Document {
            files: report.files,
            bytes: report.bytes,
            removed: report.removed,
            branch: report.head.branch().map(str::to_owned),
            commit: report.commit.to_string(),
            subset: patterns(&report.subset),
            idle_patterns: report
                .idle_patterns
                .iter()
                .map(|idle| shown(&idle.pattern))
                .collect(),
            emptied_patterns: EmptiedValue::list(&report.emptied),
            kept: report.adopted.iter().map(PathValue::new).collect(),
            problems: problems(&report.refused),
            overwritten: OverwrittenValue::new(&report.overwritten),
        })?;
    } else if !ui.quiet() {
        let mut out = ui.out();
        if switched {
            let id = report.commit.short(SHORT_ID);
            match &report.head {
                Head::Branch(name) => writeln!(out, "on branch {}, {id}", ui.branch(name))?,
                Head::Commit(_) => writeln!(out, "on commit {id}, on no branch")?,
            }
        }
        let removed = match report.removed {
            0 => String::new(),
            n => format!(", {n} removed"),
        };
        let files = count(report.files, "file", "files");
        writeln!(out, "{files} written ({}){removed}", bytes(report.bytes))?;
    }
    tell_overwritten(context, &report.overwritten);
    tell_idle(context, &report.idle_patterns);
    tell_refused(context, None, &report.refused);
    tell_adopted(context, &report.adopted);
    tell_emptied(context, &report.emptied, &report.subset);
    Ok(if report.refused.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

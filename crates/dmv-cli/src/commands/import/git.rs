//! `dmv import git`

use crate::config::DEFAULT_BRANCH;
use crate::context::scratch;
use crate::format::text::duration;
use crate::peers::refuse_address;
use crate::prelude::*;
use dmv_core::repo::RefChange;
use dmv_git::import::{
    ImportOptions, ImportPlan, ImportReport, LeftRef, PORTION_BYTES, PointersTaken, Problem,
    Trouble, import, plan,
};
use dmv_git::lfs_fetch::fetch_content;
use dmv_git::source::{GitSource, OtherRefs};
use dmv_git::stream::read_stream;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Problems that are told without -v.
const TOLD: usize = 10;
/// Branches and tags that are listed without -v.
const NAMED: usize = 20;

/// Take the history of a Git repository
///
/// In a repository, its branches become git/BRANCH, new branches and tags are created, and your own branches
/// and files stay unchanged. Run it again to take what is new. With DIR, or outside a repository, dmv
/// creates a repository and checks out the branch that SRC is on.
///
/// Every commit keeps its id in Git, and 'dmv export --git' gives it back byte for byte. Git reads SRC itself
/// and runs nothing that it names.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv import git ~/src/film.git film\n  dmv import git ../film --dry-run"
)]
pub struct GitArgs {
    /// The Git repository: a path, or a URL that Git knows
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The new directory [default: the last part of SRC, outside a repository]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Take only branches that match GLOB, and no tags
    #[arg(long, value_name = "GLOB")]
    branches: Vec<String>,
    /// Take content in place of the pointers of Git LFS: what SRC has, or also what 'git lfs' can fetch
    #[arg(long, value_name = "fetch|here|no", default_value = "no")]
    #[arg(value_parser = ["fetch", "here", "no"])]
    lfs: String,
    /// Record the branches as NAME/BRANCH
    #[arg(long, value_name = "NAME", default_value = "git", add = candidates::remote())]
    name: String,
    /// Create no worktree: DIR itself becomes the repository
    #[arg(long)]
    bare: bool,
    /// Only report what there is to take, what is left out, and about how long it takes
    #[arg(long)]
    dry_run: bool,
}

/// Runs `dmv import git`.
pub fn run(context: &Context, args: &GitArgs) -> Result<u8, Failure> {
    let scratch = scratch()?;
    let source = open(args, scratch.path())?;
    let options = ImportOptions {
        branches: args.branches.clone(),
        lfs: args.lfs != "no",
        ..options(context, &args.name)?
    };
    let here = match &args.dir {
        None => context.repo().ok(),
        Some(_) => None,
    };
    let is_new = here.is_none();
    if args.dry_run {
        return tell_what_comes(context, here.as_deref(), &source, &options, &scratch);
    }
    let repo = match here {
        Some(repo) => repo,
        None => create(context, args, &source)?,
    };
    if args.lfs == "fetch" {
        let _watch = context.watch("fetching from Git LFS");
        fetch_lfs(context, &source, scratch.path())?;
    }
    let done = take(context, &repo, &source, &options);
    let done = done.map_err(|e| go_on(e, args, is_new, &repo))?;
    tell(context, &args.source, &repo, &done)
}

/// Has Git LFS fetch what the source lacks. What is missing then, the import reports.
fn fetch_lfs(context: &Context, source: &GitSource, scratch: &Path) -> Result<(), Failure> {
    if let Some(said) = fetch_content(source, &scratch.join("lfs.git"))? {
        let said = clean(&said);
        context
            .ui
            .warn(format_args!("git lfs could not fetch everything: {said}"));
    }
    Ok(())
}

/// Runs `dmv import --stream`. Git reads the stream into a temporary directory first.
pub fn from_stream(
    context: &Context,
    file: &Path,
    name: &str,
    dry_run: bool,
) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let scratch = scratch()?;
    let watch = context.watch("reading the stream");
    let dir = scratch.path().join("stream.git");
    let source = if file == Path::new("-") {
        read_stream(&mut std::io::stdin().lock(), &dir, &context.job)
    } else {
        let mut stream = File::open(file).map_err(|e| Failure::file("open", file, &e))?;
        read_stream(&mut stream, &dir, &context.job)
    };
    drop(watch);
    let source = source?;
    let options = options(context, name)?;
    if dry_run {
        return tell_what_comes(context, Some(&repo), &source, &options, &scratch);
    }
    let done = take(context, &repo, &source, &options)?;
    tell(context, file.as_os_str(), &repo, &done)
}

/// Returns the options of an import of everything.
fn options(context: &Context, name: &str) -> Result<ImportOptions, Failure> {
    Ok(ImportOptions {
        remote: name.to_owned(),
        branches: Vec::new(),
        lfs: false,
        portion_bytes: PORTION_BYTES,
        check_out: Some(super::check_out(context)?),
    })
}

/// Takes what is new. A worktree without a commit gets the files of the branch that the source is on.
fn take(
    context: &Context,
    repo: &Repo,
    source: &GitSource,
    options: &ImportOptions,
) -> Result<ImportReport, Failure> {
    let watch = context.watch("importing");
    let done = import(repo, source, options, &context.request()?, &context.job);
    drop(watch);
    let mut done = done?;
    tell_pointers(context, done.pointers_taken);
    match done.not_written.take() {
        Some(e) => Err(super::not_written(e.into(), done.head.as_deref())),
        None => Ok(done),
    }
}

/// Says how to go on after a failure in a repository that this command has made.
fn go_on(failure: Failure, args: &GitArgs, is_new: bool, repo: &Repo) -> Failure {
    // Other failures say what is missing first.
    if !is_new || ![EXIT_OTHER, EXIT_INTERRUPTED].contains(&failure.exit) {
        return failure;
    }
    let dir = repo
        .worktree_root()
        .unwrap_or_else(|| repo.dmv_dir())
        .to_owned();
    let (dir, source) = (Argument::on_disk(&dir), Argument::on_disk(&args.source));
    failure.hint(hint!("dmv -C {} import git {}, to go on", dir, source))
}

/// Opens the source. Copies it into `scratch` first if it is not on this machine.
fn open(args: &GitArgs, scratch: &Path) -> Result<GitSource, Failure> {
    let path = Path::new(&args.source);
    let text = args.source.to_string_lossy();
    let is_url = !path.exists() && text.contains(':');
    if is_url {
        Ok(GitSource::mirror(
            &args.source,
            &scratch.join("mirror.git"),
        )?)
    } else {
        Ok(GitSource::open(path)?)
    }
}

/// Makes the repository.
fn create(context: &Context, args: &GitArgs, source: &GitSource) -> Result<Arc<Repo>, Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => last_part(&args.source).ok_or_else(|| {
            Failure::usage("cannot derive a directory name from SRC").hint("dmv import git SRC DIR")
        })?,
    };
    refuse_address(&dir)?;
    let branch = source.head().unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
    let repo = Repo::init(&dir, &branch, args.bare, context.request()?)?;
    repo.end_clone();
    Ok(Arc::new(repo))
}

fn last_part(source: &OsStr) -> Option<PathBuf> {
    let text = source.to_str()?.trim_end_matches('/');
    let text = text.strip_suffix("/.git").unwrap_or(text);
    let last = text.rsplit(['/', ':']).next()?;
    let last = last.strip_suffix(".git").unwrap_or(last);
    let is_name = !last.is_empty() && !last.starts_with('.');
    is_name.then(|| PathBuf::from(last))
}

/// Reports what an import would take.
fn tell_what_comes(
    context: &Context,
    repo: Option<&Repo>,
    source: &GitSource,
    options: &ImportOptions,
    scratch: &TempDir,
) -> Result<u8, Failure> {
    let watch = context.watch("looking");
    let sample = scratch.path().join("sample");
    let sample = Repo::init(&sample, DEFAULT_BRANCH, true, context.request()?)?;
    let planned = plan(repo, source, options, &sample, &context.job)?;
    drop(watch);
    tell_plan(context, &planned)
}

fn tell_plan(context: &Context, planned: &ImportPlan) -> Result<u8, Failure> {
    let missing = planned.missing_lfs.iter();
    let missing = missing.map(|(id, bytes)| object! { object: id.to_string(), bytes: *bytes });
    let document = || {
        let document = object! {
            dry_run: true,
            planned.{commits, files, bytes, refs},
            left: left(&planned.left),
            other_refs: others(&planned.others),
            missing_lfs: Json::List(missing.collect()),
            refused: refused(&planned.refused),
            about_seconds: planned.seconds.map(|seconds| seconds.ceil() as u64),
        };
        document.sorted()
    };
    context.ui.report(document, |out| {
        let commits = count(planned.commits, "commit", "commits");
        let refs = count(planned.refs, "branch or tag", "branches and tags");
        let (files, size) = (planned.files, bytes(planned.bytes));
        let files = count(files, "version of files", "versions of files");
        let time = planned.seconds.map(duration);
        let time = time.map_or_else(String::new, |time| format!("; that takes about {time}"));
        Ok(writeln!(
            out,
            "{commits} to take, for {refs}, with {files}, {size}{time}"
        )?)
    })?;
    tell_left(context, &planned.left, &planned.others);
    tell_problems(context, &planned.refused, "would leave out");
    let missing: u64 = planned.missing_lfs.iter().map(|(_, bytes)| bytes).sum();
    tell_missing_lfs(context, missing, "their pointers would be taken");
    if planned.has_pointers {
        let note = "note: the source has pointers of Git LFS, which would be taken as they are; \
                    to take their content instead: --lfs here, or --lfs fetch";
        context.ui.note(note);
    }
    Ok(EXIT_OK)
}

/// Says how much content of Git LFS the source lacks.
fn tell_missing_lfs(context: &Context, missing: u64, taken: &str) {
    if missing > 0 && !context.ui.is_json() {
        let missing = bytes(missing);
        context.ui.warn(format_args!(
            "{missing} of Git LFS are missing in the source; {taken}; \
             to have them there: git lfs fetch --all, or import with --lfs fetch"
        ));
    }
}

/// Says that pointers came in place of content. Later imports do not change that, so it is said at once.
fn tell_pointers(context: &Context, taken: PointersTaken) {
    if taken.count > 0 {
        let (pointers, size) = (taken.count, bytes(taken.bytes));
        let pointers = count(
            pointers,
            "version of a file is a pointer",
            "versions of files are pointers",
        );
        context.ui.note(format_args!(
            "note: {pointers} of Git LFS, for {size} of content; \
             to take the content instead, import into a new directory with --lfs here, or --lfs fetch"
        ));
    }
}

fn left(left: &[LeftRef]) -> Json {
    let left = left.iter().map(|left| object! { left.{name, why} });
    Json::List(left.collect())
}

fn others(others: &[OtherRefs]) -> Json {
    let others = others.iter().map(|other| object! { other.{place, count} });
    Json::List(others.collect())
}

/// Lists what is not taken: branches and tags, and how many other refs there are.
fn tell_left(context: &Context, left: &[LeftRef], others: &[OtherRefs]) {
    for left in left {
        let (name, why) = (clean(&left.name), &left.why);
        context.ui.warn(format_args!("not taken: {name}: {why}"));
    }
    let parts = others
        .iter()
        .map(|other| format!("{} in {}", other.count, clean(&other.place)));
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        let parts = parts.join(", ");
        context.ui.note(format_args!(
            "note: not taken: refs that are neither branches nor tags: {parts}"
        ));
    }
    if others.iter().any(|other| other.place == "refs/remotes") {
        let note =
            "note: the branches of a remote (refs/remotes) come by an import of the remote itself";
        context.ui.note(note);
    }
}

fn tell(
    context: &Context,
    source: &OsStr,
    repo: &Repo,
    done: &ImportReport,
) -> Result<u8, Failure> {
    let has_all = done.refs.iter().all(|change| change.refused.is_none());
    let is_complete = has_all && done.problems.is_empty() && done.left.is_empty();
    context.ui.report(
        || document(repo, done),
        |out| print(context, out, source, repo, done),
    )?;
    if !context.ui.is_json() {
        tell_left(context, &done.left, &done.others);
        for change in done.refs.iter().filter(|change| change.refused.is_some()) {
            let (kind, name) = change.key.split_once('/').unwrap_or_default();
            let name = clean(name);
            context.ui.warn(format_args!(
                "no {kind} '{name}' was created: the name can mean something else"
            ));
        }
        tell_problems(context, &done.problems, "left out");
        let missing: u64 = done.problems.iter().map(Problem::missing_bytes).sum();
        tell_missing_lfs(context, missing, "their pointers were taken");
        if done.has_replacements {
            let text = "the source replaces objects by others (git replace); the import has the original ones";
            context.ui.warn(text);
        }
    }
    Ok(if is_complete {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn print(
    context: &Context,
    out: &mut impl Write,
    source: &OsStr,
    repo: &Repo,
    done: &ImportReport,
) -> Result<(), Failure> {
    let source = escape(source.as_encoded_bytes());
    if done.commits == 0 && done.refs.is_empty() {
        writeln!(out, "nothing new in {source}")?;
        return Ok(());
    }
    let (commits, size) = (count(done.commits, "commit", "commits"), bytes(done.bytes));
    if done.commits == 0 {
        writeln!(out, "no new commits in {source}")?;
    } else {
        writeln!(out, "{commits} taken from {source}, {size} of content")?;
    }
    if done.returned > 0 {
        let own = count(done.returned, "of them is a commit", "of them are commits");
        writeln!(out, "{own} that dmv had exported")?;
    }
    let place = repo.worktree_root().unwrap_or_else(|| repo.dmv_dir());
    // The branches that came with this import are named by those of the source.
    let is_shown =
        |change: &&RefChange| change.refused.is_none() && !change.key.starts_with("branch/");
    let shown: Vec<&RefChange> = done.refs.iter().filter(is_shown).collect();
    if shown.len() > NAMED && !context.ui.verbose() {
        let names = count(shown.len() as u64, "branch or tag", "branches and tags");
        writeln!(out, "  {names} are new or moved; with -v all are listed")?;
    } else {
        for change in shown {
            let (_, name) = change.key.split_once('/').unwrap_or_default();
            let word = if change.old.is_some() { "moved" } else { "new" };
            writeln!(out, "  {word:<5}  {}", clean(name))?;
        }
    }
    if place.join(".gitignore").exists() && !place.join(".dmvignore").exists() {
        let note =
            "note: dmv does not read .gitignore; to have it do so: dmv config set ignore.git true";
        context.ui.note(note);
    }
    Ok(())
}

/// Lists problems. `leaves` says what becomes of names that DMV refuses.
fn tell_problems(context: &Context, problems: &[Problem], leaves: &str) {
    if context.ui.is_json() {
        return;
    }
    let shown = if context.ui.verbose() {
        usize::MAX
    } else {
        TOLD
    };
    for problem in problems.iter().take(shown) {
        let (object, why) = (problem.object.to_string(), &problem.why);
        let object = &object[..10];
        let text = match &problem.about {
            Trouble::Name(name) => format!("{object}: {leaves} {}: {why}", escape(name)),
            Trouble::Content { .. } | Trouble::Id => format!("{object}: {why}"),
        };
        context.ui.warn(text);
    }
    let more = problems.len().saturating_sub(shown);
    if more > 0 {
        let more = count(more as u64, "problem", "problems");
        context
            .ui
            .warn(format_args!("{more} more; with -v all are listed"));
    }
}

fn refused<'p>(problems: impl IntoIterator<Item = &'p Problem>) -> Json {
    let names = problems.into_iter().filter_map(|problem| {
        let Trouble::Name(name) = &problem.about else {
            return None;
        };
        let id = problem.object.to_string();
        Some(object! { object: id, ..path(name), problem.{why} })
    });
    Json::List(names.collect())
}

fn document(repo: &Repo, done: &ImportReport) -> Json {
    let (mut missing_lfs, mut changed) = (Vec::new(), Vec::new());
    for problem in &done.problems {
        let id = problem.object.to_string();
        match &problem.about {
            Trouble::Name(_) => {}
            Trouble::Content { bytes } => {
                missing_lfs.push(object! { object: id, bytes: *bytes, problem.{why} });
            }
            Trouble::Id => changed.push(object! { object: id, problem.{why} }),
        }
    }
    let refs = done.refs.iter().map(|change| {
        object! {
            "ref": change.key,
            old: change.old.map(|id| id.to_string()),
            new: change.new.map(|id| id.to_string()),
            refused: change.refused.is_some(),
        }
    });
    object! {
        repository: repo.dmv_dir(),
        done.{commits, returned, files, bytes},
        refs: Json::List(refs.collect()),
        left: left(&done.left),
        other_refs: others(&done.others),
        lfs_pointers: done.pointers_taken.count,
        missing_lfs: Json::List(missing_lfs),
        refused: refused(&done.problems),
        changed: Json::List(changed),
    }
}

//! `dmv import git`

use super::news;
use super::source::ImportSource;
use crate::config::DEFAULT_BRANCH;
use crate::context::scratch;
use crate::format::text::duration;
use crate::peers::refuse_address;
use crate::prelude::*;
use dmv_git::import::{
    ImportOptions, ImportPlan, ImportReport, LeftRef, LfsPolicy, PORTION_BYTES, PointersTaken,
    Problem, Trouble, import, plan,
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
    /// [default: no, or here if content was taken before]
    #[arg(long, value_name = "fetch|here|no")]
    #[arg(value_parser = ["fetch", "here", "no"])]
    lfs: Option<String>,
    /// Forget recorded branches that SRC no longer has
    #[arg(long)]
    prune: bool,
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
        lfs: match args.lfs.as_deref() {
            None => LfsPolicy::AsBefore,
            Some("no") => LfsPolicy::Pointers,
            Some(_) => LfsPolicy::Content,
        },
        prune: args.prune,
        ..options(context, &args.name)?
    };
    let here = match &args.dir {
        None => context.repo().ok(),
        Some(_) => None,
    };
    let is_new = here.is_none();
    let from = ImportSource::of(&args.source);
    if args.dry_run {
        return tell_what_comes(context, here.as_deref(), &source, &options, &scratch, from);
    }
    let repo = match here {
        Some(repo) => repo,
        None => create(context, args, &source)?,
    };
    if args.lfs.as_deref() == Some("fetch") {
        let _watch = context.watch("fetching from Git LFS");
        fetch_lfs(context, &source, scratch.path())?;
    }
    let done = take(context, &repo, &source, &options);
    let done = done.map_err(|e| go_on(e, args, is_new, &repo))?;
    end(context, from, &repo, done)
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
        let from = ImportSource::Stream(file.as_os_str());
        return tell_what_comes(context, Some(&repo), &source, &options, &scratch, from);
    }
    let done = take(context, &repo, &source, &options)?;
    let from = ImportSource::Stream(file.as_os_str());
    end(context, from, &repo, done)
}

/// Reports what came. Only then it fails if files are in the way: no later import tells the same again.
fn end(
    context: &Context,
    from: ImportSource<'_>,
    repo: &Repo,
    mut done: ImportReport,
) -> Result<u8, Failure> {
    let exit = tell(context, from, repo, &done)?;
    match done.not_written.take() {
        Some(e) => Err(super::not_written(e.into(), done.head.as_deref())),
        None => Ok(exit),
    }
}

/// Returns the options of an import of everything.
fn options(context: &Context, name: &str) -> Result<ImportOptions, Failure> {
    Ok(ImportOptions {
        remote: name.to_owned(),
        branches: Vec::new(),
        lfs: LfsPolicy::Pointers,
        prune: false,
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
    let done = done?;
    tell_pointers(context, done.pointers_taken, "is not taken");
    Ok(done)
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
    // The command is for another directory than this one.
    let source = match ImportSource::of(&args.source) {
        ImportSource::Path(path) => std::path::absolute(path).map(PathBuf::into_os_string),
        other => Ok(other.text().to_owned()),
    };
    let source = source.unwrap_or_else(|_| args.source.clone());
    let (dir, source) = (Argument::on_disk(&dir), Argument::on_disk(&source));
    failure.hint(hint!("dmv -C {} import git {}, to go on", dir, source))
}

/// Opens the source. Copies it into `scratch` first if it is not on this machine.
fn open(args: &GitArgs, scratch: &Path) -> Result<GitSource, Failure> {
    match ImportSource::of(&args.source) {
        ImportSource::Url(url) => Ok(GitSource::mirror(url, &scratch.join("mirror.git"))?),
        ImportSource::Path(path) | ImportSource::Stream(path) => {
            Ok(GitSource::open(Path::new(path))?)
        }
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
    if let Some(repo) = begun_in(&dir) {
        return Ok(Arc::new(repo));
    }
    let branch = source.head().unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
    let repo = Repo::init(&dir, &branch, args.bare, context.request()?)?;
    repo.end_clone();
    Ok(Arc::new(repo))
}

/// Returns the repository in `dir` if nothing is in it yet: an import was cut short there.
fn begun_in(dir: &Path) -> Option<Repo> {
    let dir = dir.canonicalize().ok()?;
    let repo = Repo::open(&dir).ok()?;
    let place = repo.worktree_root().unwrap_or_else(|| repo.dmv_dir());
    let is_there = place.canonicalize().is_ok_and(|place| place == dir);
    let is_empty = repo.offered().is_ok_and(|offered| offered.refs.is_empty());
    (is_there && is_empty).then_some(repo)
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
    from: ImportSource<'_>,
) -> Result<u8, Failure> {
    let watch = context.watch("looking");
    let sample = scratch.path().join("sample");
    let sample = Repo::init(&sample, DEFAULT_BRANCH, true, context.request()?)?;
    let planned = plan(repo, source, options, &sample, &context.job)?;
    drop(watch);
    tell_plan(context, &planned, from)
}

fn tell_plan(
    context: &Context,
    planned: &ImportPlan,
    from: ImportSource<'_>,
) -> Result<u8, Failure> {
    let document = || {
        let document = object! {
            dry_run: true,
            planned.{commits, files, bytes},
            ..news::document(&planned.news),
            left: left(&planned.left),
            other_refs: others(&planned.others),
            lfs_pointers: planned.pointers_taken.count,
            ..problems(&planned.problems),
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
        writeln!(
            out,
            "{commits} to take, for {refs}, with {files}, {size}{time}"
        )?;
        news::print(context, out, &planned.news)
    })?;
    if !context.ui.is_json() {
        tell_left(context, &planned.left, &planned.others);
        news::tell(context, &planned.news, from);
        tell_problems(context, &planned.problems, "would leave out");
        tell_missing_lfs(context, &planned.problems, from, true);
        tell_replacements(context, planned.has_replacements);
        tell_pointers(context, planned.pointers_taken, "would not be taken");
    }
    Ok(EXIT_OK)
}

/// Says how much content of Git LFS the source lacks, and what to do about it.
fn tell_missing_lfs(
    context: &Context,
    problems: &[Problem],
    from: ImportSource<'_>,
    is_dry_run: bool,
) {
    let missing = problems.iter().fold(0u64, |sum, problem| {
        sum.saturating_add(problem.missing_bytes())
    });
    if missing == 0 {
        return;
    }
    let (taken, again) = if is_dry_run {
        ("would be taken", "with --lfs here")
    } else {
        (
            "were taken",
            "into a new directory with --lfs here: commits that are here do not change",
        )
    };
    let size = bytes(missing);
    context.ui.warn(format_args!(
        "{size} of Git LFS are missing in the source; their pointers {taken}"
    ));
    let way = match from {
        ImportSource::Path(path) => hint!("git -C {} lfs fetch --all", Argument::on_disk(path)),
        ImportSource::Url(url) => hint!(
            "git clone --mirror {}, git lfs fetch --all there",
            Argument::value(url.as_encoded_bytes())
        ),
        // A stream has no content of Git LFS.
        ImportSource::Stream(_) => return,
    };
    context.ui.note(format_args!(
        "to have the content: {way}, then import {again}"
    ));
}

fn tell_replacements(context: &Context, has_replacements: bool) {
    if has_replacements {
        let text = "the source replaces objects by others (git replace); \
                    an import has the original ones";
        context.ui.warn(text);
    }
}

/// Says that pointers come in place of content. Later imports do not change that, so it is said at once. `taken`: what
/// becomes of them.
fn tell_pointers(context: &Context, pointers: PointersTaken, taken: &str) {
    if pointers.count > 0 {
        let (number, size) = (pointers.count, bytes(pointers.bytes));
        let number = count(
            number,
            "version of a file is a pointer",
            "versions of files are pointers",
        );
        context.ui.note(format_args!(
            "note: {number} of Git LFS, and {size} of content {taken}; \
             to have it, import into a new directory with --lfs here, or --lfs fetch"
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
    from: ImportSource<'_>,
    repo: &Repo,
    done: &ImportReport,
) -> Result<u8, Failure> {
    let has_all = done.news.refs.iter().all(|change| change.refused.is_none())
        && done.news.moved_tags.is_empty();
    let is_complete = has_all && done.problems.is_empty() && done.left.is_empty();
    context.ui.report(
        || document(repo, done),
        |out| print(context, out, from, repo, done),
    )?;
    if !context.ui.is_json() {
        tell_left(context, &done.left, &done.others);
        news::tell(context, &done.news, from);
        news::tell_merge(context, repo, &done.news)?;
        tell_problems(context, &done.problems, "left out");
        tell_missing_lfs(context, &done.problems, from, false);
        tell_replacements(context, done.has_replacements);
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
    from: ImportSource<'_>,
    repo: &Repo,
    done: &ImportReport,
) -> Result<(), Failure> {
    let source = escape(from.text().as_encoded_bytes());
    if done.commits == 0 && done.news.is_empty() {
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
    news::print(context, out, &done.news)?;
    let place = repo.worktree_root().unwrap_or_else(|| repo.dmv_dir());
    if place.join(".gitignore").exists() && !place.join(".dmvignore").exists() {
        let note =
            "note: dmv does not read .gitignore; to have it do so: dmv config set ignore.git true";
        context.ui.note(note);
    }
    Ok(())
}

/// Lists problems. `leaves` says what becomes of names that DMV refuses.
fn tell_problems(context: &Context, problems: &[Problem], leaves: &str) {
    let shown = if context.ui.verbose() {
        usize::MAX
    } else {
        TOLD
    };
    for problem in problems.iter().take(shown) {
        let (object, why) = (problem.object.to_string(), &problem.why);
        let object = &object[..10];
        let path = problem.path.as_deref().map(|path| escape(path).to_string());
        let text = match &problem.about {
            Trouble::Name(name) => format!("{object}: {leaves} {}: {why}", escape(name)),
            Trouble::Content {
                bytes: size,
                sha256,
            } => {
                let (path, size) = (path.unwrap_or_default(), bytes(*size));
                format!("{path}: {why} ({size}, blob {object}, sha256 {sha256})")
            }
            Trouble::Id => format!("{object}: {why}"),
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

/// Problems as lists of their kinds.
fn problems(all: &[Problem]) -> Json {
    let (mut missing_lfs, mut refused, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for problem in all {
        let object = problem.object.to_string();
        match &problem.about {
            Trouble::Name(name) => {
                refused.push(object! { object: object, ..path(name), problem.{why} });
            }
            Trouble::Content { bytes, sha256 } => {
                let at = problem.path.as_deref().unwrap_or_default();
                missing_lfs.push(
                    object! { object: object, ..path(at), bytes: *bytes, sha256: sha256.as_str(), problem.{why} },
                );
            }
            Trouble::Id => changed.push(object! { object: object, problem.{why} }),
        }
    }
    object! {
        missing_lfs: Json::List(missing_lfs),
        refused: Json::List(refused),
        changed: Json::List(changed),
    }
}

fn document(repo: &Repo, done: &ImportReport) -> Json {
    object! {
        repository: repo.dmv_dir(),
        done.{commits, returned, files, bytes},
        ..news::document(&done.news),
        left: left(&done.left),
        other_refs: others(&done.others),
        lfs_pointers: done.pointers_taken.count,
        ..problems(&done.problems),
    }
}

//! `dmv clone`

#[cfg(feature = "store")]
mod foresee;
mod upload;

use crate::config::{Config, MIRROR, ORIGIN};
use crate::devices::expand;
use crate::error::{IN_ONE_OF_BOTH, may_be_of_git, verify_there};
use crate::lean_setting::set_lean;
use crate::on_demand::ops_failure;
use crate::partial_repository::{SliceArgs, options_for, slice_value, words};
use crate::peers::{Call, session_failure};
use crate::prelude::*;
use crate::print::checkout::{tell_refused, way_to_restore};
use crate::remotes::set_remote;
use crate::room;
use crate::traffic::Report;
use dmv_core::job::Job;
use dmv_core::repo::{CONFIG_FILE, LookError, RepoSlice, StatusOptions};
use dmv_core::worktree::select::Paths;
use dmv_net::ops::{
    CloneDir, CloneError, CloneOptions, CloneReport, KnownSource, NewClone, SessionError,
};
use dmv_net::session::NetError;
use dmv_net::transport::Url;
use std::path::{Path, PathBuf};

/// Copy a repository, or a part of it
///
/// The source becomes the remote "origin" of the new repository.
///
/// A partial clone has fewer paths (--subset), less history (--depth, --since) or no file content
/// (--meta-only). You can commit, branch and merge in it: each commit keeps the absent files unchanged.
///
/// A complete clone on the same disk takes no space for file content: both repositories use the same
/// pack files, and each may be deleted without harm to the other. But damage to such a file affects
/// both, so this is no backup. --copy makes an independent copy.
///
/// With an address in place of DIR, --bare copies a repository of this machine to a new place: all its
/// branches and tags. The place becomes its remote "origin", unless it has a remote of this name. Over
/// ssh, the program dmv has to be installed there; dmv creates one directory, below one that exists.
///
/// --mirror makes a bare repository that follows SRC: 'dmv fetch' and 'dmv sync' there move its own branches
/// and tags, also back, and 'dmv sync --mirror' also deletes those that SRC has deleted. 'dmv undo' brings
/// back what they named.
///
/// If a clone is interrupted, run the same command again to continue it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv clone ssh://ada@nas/srv/film.dmv\n  dmv clone --bare film \
                  /media/ada/disk/film.dmv\n  dmv clone ssh://nas/srv/film.dmv film --subset \
                  media/scene4 'titles/*.png' --depth 1\n  dmv clone s3://studio/film --dry-run\n  dmv clone --bare . ssh://ada@nas/srv/film.dmv"
)]
pub struct Args {
    /// The repository to copy: a path, ssh://USER@HOST:PORT/PATH, dmv://DEVICE@HOST:PORT or s3://BUCKET/PATH
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The new directory, or with --bare an address [default: the last part of SRC]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Check out this branch or tag [default: the branch that SRC is on]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Create no worktree: DIR itself becomes the repository, with all branches of SRC
    #[arg(long)]
    bare: bool,
    /// The same as --bare, and the branches and tags of DIR follow those of SRC at each fetch
    #[arg(long, conflicts_with = "branch")]
    mirror: bool,
    /// Copy everything. Without it, a complete clone on the same disk shares the packs of SRC
    #[arg(long)]
    copy: bool,
    /// Keep no second copy of the files: their content is in the worktree and at the remote only (see:
    /// dmv lean --help)
    #[arg(long, conflicts_with_all = ["bare", "mirror", "copy", "subset", "meta_only"])]
    lean: bool,
    #[command(flatten)]
    slice: SliceArgs,
    /// Only report how much a clone of a bucket would receive. With --subset, --depth or --since, it
    /// receives the directories, into a temporary place
    #[cfg(feature = "store")]
    #[arg(long)]
    dry_run: bool,
    #[cfg(feature = "store")]
    #[command(flatten)]
    store: crate::store_options::Reach,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if let Some(url) = upload::target(args)? {
        return upload::run(context, args, url);
    }
    let options = options(context, args)?;
    #[cfg(feature = "store")]
    crate::bucket::take(context, &options.source, &args.store)?;
    #[cfg(feature = "store")]
    if args.dry_run {
        return foresee::run(context, &options);
    }
    let started = begin(context, &options, args.mirror)?;
    if args.lean {
        set_lean(started.repo(), true)?;
    }
    let call = Call::to(context, "writing files");
    let done = started.run(&options, &call, &context.job);
    drop(call);
    let done = done.map_err(|e| {
        let failure = match e {
            CloneError::Files(e) => ops_failure(context, *e),
            e => failure(args, &options, e),
        };
        // A clone that has received nothing has removed what it made.
        let mut places = options.dir.ancestors();
        let place = places.find(|dir| dir.exists()).unwrap_or(Path::new("."));
        room::told(&context.job, place, failure)
    })?;
    tell(context, &options.dir, done)
}

/// What the arguments ask for.
fn options(context: &Context, args: &Args) -> Result<CloneOptions, Failure> {
    let here = std::env::current_dir().map_err(|e| Failure::file("find", ".".as_ref(), &e))?;
    let source = expand(context, &args.source)?;
    let url = Url::parse(&source.text)?.absolute(&here);
    let dir = match &args.dir {
        Some(dir) => upload::plain_dir(dir)?,
        None => source
            .label
            .or_else(|| url.last_part())
            .map(PathBuf::from)
            .ok_or_else(|| {
                let message = format!("cannot derive a directory name from {url}");
                Failure::usage(message).hint("dmv clone SRC DIR")
            })?,
    };
    let mut options = CloneOptions::new(url, dir, context.request()?);
    args.slice.apply(&mut options)?;
    options.branch.clone_from(&args.branch);
    options.bare = args.bare || args.mirror;
    options.copy = args.copy;
    options.lean = args.lean;
    options.settings = context.settings()?;
    options.go_on = if args.lean {
        |_| "dmv checkout --all".to_owned()
    } else {
        |head| head.checkout_command().to_string()
    };
    Ok(options)
}

/// Makes the repository, or takes up what an earlier clone left, and records the remote.
fn begin(context: &Context, options: &CloneOptions, mirror: bool) -> Result<NewClone, Failure> {
    let dir = CloneDir::look(options).map_err(not_made)?;
    let recorded = match dir.found() {
        Some(repo) => recorded(repo, &options.source)?,
        None => KnownSource::Nothing,
    };
    let is_same = matches!(recorded, KnownSource::ThisSource);
    let begun = dir.begin(options, recorded);
    let started = begun.map_err(|e| match (&e, is_same) {
        (CloneError::IsRepository(_), true) => already_there(options),
        _ => not_made(e),
    })?;
    #[cfg(feature = "store")]
    let mut notes = crate::bucket::notes(context);
    #[cfg(not(feature = "store"))]
    let mut notes = Vec::new();
    notes.extend(mirror.then(|| (MIRROR, true.into())));
    set_remote(started.repo(), ORIGIN, &options.source, notes)?;
    started
        .repo()
        .store()
        .share_blocks(context.config()?.sharing()?);
    Ok(started)
}

/// The failure where the clone is there and finished. It may lack files that it could not write.
fn already_there(options: &CloneOptions) -> Failure {
    let dir = Argument::on_disk(&options.dir);
    let status = StatusOptions {
        select: &Paths::all(),
        settings: options.settings.clone(),
    };
    let repo = Repo::open(&options.dir);
    let report = repo
        .as_ref()
        .map(|repo| repo.status(&status, &Job::default()));
    let unwritten = match report {
        Ok(Ok(report)) => report.unwritten,
        _ => Vec::new(),
    };
    let paths = unwritten.iter().map(RepoPath::as_bytes);
    let (what, hint) = match way_to_restore(repo.as_ref().ok(), Some(&options.dir), paths) {
        Some(hint) => ("already a clone of it, and could not write all files", hint),
        None => (
            "already a clone of it",
            hint!("dmv -C {} pull, to update it", dir),
        ),
    };
    let message = format!("{} is {what}", options.dir.display());
    Failure::new("exists", EXIT_REFUSED, message).hint(hint)
}

/// What the settings of a repository say about where it comes from.
fn recorded(repo: &Repo, source: &Url) -> Result<KnownSource, Failure> {
    let remotes = Config::load(Some(&repo.dmv_dir().join(CONFIG_FILE)))?.remotes();
    Ok(if remotes.is_empty() {
        KnownSource::Nothing
    } else if remotes.contains(&(ORIGIN.to_owned(), source.to_string())) {
        KnownSource::ThisSource
    } else {
        KnownSource::Another
    })
}

/// The failure where no clone was begun.
fn not_made(e: CloneError) -> Failure {
    const ELSEWHERE: &str = "dmv clone SRC DIR, with another directory";
    let exists = |message: String| Failure::new("exists", EXIT_REFUSED, message).hint(ELSEWHERE);
    match e {
        CloneError::OtherSlice(dir) => exists(format!(
            "{} is already a clone, with other options (--subset, --meta-only)",
            dir.display()
        )),
        CloneError::Shares(_) => exists(e.to_string())
            .hint("run it without --copy to continue, or remove that directory to copy everything"),
        CloneError::IsRepository(_) | CloneError::NotEmpty(_) => exists(e.to_string()),
        CloneError::InsideSource { dir, source_dir } => {
            let (dir, source) = (dir.display(), source_dir.display());
            let message = format!("{dir} is inside {source}, the repository that you clone");
            Failure::new("inside-repository", EXIT_REFUSED, message).hint(ELSEWHERE)
        }
        CloneError::Source(e) => e.into(),
        CloneError::Repo(e) => e.into(),
        CloneError::Session(e) => session_failure(*e),
        // Only a lean clone fails like this, and it says what it lacks.
        CloneError::Files(e) => Failure::new("absent", EXIT_ABSENT, e.to_string()),
    }
}

/// The failure of a clone that was begun.
fn failure(args: &Args, options: &CloneOptions, e: CloneError) -> Failure {
    let CloneError::Session(e) = e else {
        return not_made(e);
    };
    let smaller = smaller_clone(args, &e);
    let literal = literal_clone(args, &e.source);
    let mut failure = session_failure(*e);
    let shares = |dir: &Path| Repo::open(dir).is_ok_and(|repo| repo.may_share_packs());
    if failure.exit == EXIT_DAMAGE && shares(&options.dir) {
        // What is damaged here has not been copied: it is a file of both.
        let message = failure.message.split(IN_ONE_OF_BOTH).next();
        let message = message.unwrap_or_default().to_owned();
        let dir = Argument::on_disk(&options.dir);
        failure.message = format!(
            "{message}; the damage is in a file of the source, which the unfinished clone uses, too"
        );
        return failure.hint(hint!(
            "{} --heal, then dmv -C {} verify --heal, then the same clone again",
            verify_there(&options.source),
            dir
        ));
    }
    if failure.exit == EXIT_ABSENT {
        return failure.hint(smaller);
    }
    if let Some(literal) = literal {
        return failure.hint(literal);
    }
    if may_be_of_git(&args.source.to_string_lossy()) {
        let source = Argument::on_disk(&args.source);
        return failure.hint(hint!(
            "if it is a repository of Git: dmv import git {}",
            source
        ));
    }
    if failure.code == NO_SUCH_PATH {
        let hint = "run it again with paths that exist in the source; see: dmv clone --help";
        return failure.hint(hint);
    }
    failure
}

/// The command for a clone of no more than the source has.
fn smaller_clone(args: &Args, e: &SessionError) -> Hint {
    let options = e.held.as_ref().map(options_for);
    let is_partial = e.held.as_ref().and_then(words).is_some();
    let Some(options) = options.filter(|options| !options.as_str().is_empty()) else {
        if !is_partial {
            let verify = verify_there(&e.url);
            return hint!(
                "the source is damaged, since it is not a partial repository: {}",
                verify
            );
        }
        return "the source is a partial repository; to clone a part of it, see: dmv clone --help"
            .into();
    };
    hint!("{}{}", clone_command(args), options)
}

/// The clone of a path that looks like a pattern and was given as one.
fn literal_clone(args: &Args, e: &NetError) -> Option<Hint> {
    match e {
        NetError::Repo(RepoError::Look(LookError::NothingMatches {
            namesake: Some(path),
            ..
        })) => Some(hint!(
            "{} --subset {}",
            clone_command(args),
            Argument::pattern(path.as_bytes())
        )),
        _ => None,
    }
}

/// The clone that was typed, without its options.
fn clone_command(args: &Args) -> Hint {
    let source = Argument::on_disk(&args.source);
    match &args.dir {
        Some(dir) => hint!("dmv clone {} {}", source, Argument::on_disk(dir)),
        None => hint!("dmv clone {}", source),
    }
}

/// The code of the failure for a path that is not in a commit.
const NO_SUCH_PATH: &str = "no-such-path";

/// Says what a clone has.
fn tell(
    context: &Context,
    dir: &Path,
    CloneReport {
        repo,
        shared,
        summary,
        head,
        written: files_written,
    }: CloneReport,
) -> Result<u8, Failure> {
    let mut report = Report::default();
    report.add(summary, Vec::new());
    if head.is_none() {
        context.ui.warn("the source has no commits yet");
    }
    let mut exit = EXIT_OK;
    if let Some(written) = &files_written {
        tell_idle(context, &written.idle_patterns);
        if !written.refused.is_empty() {
            exit = EXIT_INCOMPLETE;
            tell_refused(context, repo.worktree_root(), &written.refused);
        }
    }
    let slice = repo.slice()?;
    let has_files = files_written.is_some();
    let (files, size) = files_written.map_or((0, 0), |done| (done.files, done.bytes));
    let document = object! {
        path: dir,
        branch: head.as_ref().and_then(Head::branch),
        files: files,
        bytes: size,
        partial: slice_value(&slice),
        shared: shared.as_ref().map_or(0, |shared| shared.bytes),
    };
    report.print(context, document)?;
    context.ui.text(|out| {
        let dir = clean(&dir.to_string_lossy());
        if has_files {
            writeln!(out, "cloned into {dir}: {}", written(files, size, 0))?;
        } else {
            writeln!(out, "cloned into {dir}")?;
        }
        if let Some(shared) = shared {
            let (packs, size) = (count(shared.packs, "pack", "packs"), bytes(shared.bytes));
            let text = format!("shared with the source: {packs} ({size}); for a backup: --copy");
            writeln!(out, "{text}")?;
        }
        if repo.is_lean() {
            writeln!(
                out,
                "lean: content is in these files and at the remote; see: dmv lean"
            )?;
            return Ok(());
        }
        tell_left_out(out, &repo, &slice)
    })?;
    Ok(exit)
}

/// Says what a partial clone holds, and what of it all that is.
fn tell_left_out(out: &mut impl Write, repo: &Repo, slice: &RepoSlice) -> Result<(), Failure> {
    let Some(words) = words(slice) else {
        return Ok(());
    };
    writeln!(out, "stored here in part: {words}")?;
    if let Some(id) = repo.head_commit()? {
        let commit = repo.read_commit(&id)?;
        let all = count(commit.tree_files, "file", "files");
        let size = bytes(commit.tree_bytes);
        writeln!(out, "the complete commit has {all} ({size})")?;
    }
    Ok(())
}

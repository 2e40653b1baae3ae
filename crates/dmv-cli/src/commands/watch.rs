//! `dmv watch`

use crate::failure::EXIT_BUSY;
use crate::format::json;
use crate::prelude::*;
use dmv_core::hash::encode_hex;
use dmv_core::platform::is_reader_gone;
use dmv_core::repo::{FileState, StatusOptions, WorktreeError};
use dmv_core::worktree::select::Paths;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Tell what changes, until you stop it
///
/// Prints a line whenever a branch or tag moves, the worktree goes to another branch, somebody claims or releases
/// a file as far as it is known here, or a file changes, as status sees it. It looks once a second, and less often
/// where that takes long.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv watch\n  dmv watch --refs --json\n  dmv watch shots/")]
pub struct Args {
    /// Watch only these files and directories
    #[arg(value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
    /// Watch only branches and tags
    #[arg(long, conflicts_with = "paths")]
    refs: bool,
    /// Look every SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
}

/// So many may watch in one process: each takes the place of a request.
const MAX_WATCHES: usize = 4;

/// So many files that change at once are named.
const MAX_NAMED: usize = 10_000;

/// A look at the files takes at most this part of the time.
const SHARE: u32 = 20;

/// How soon a watch ends after it is stopped.
const PAUSE: Duration = Duration::from_millis(50);

static WATCHES: AtomicUsize = AtomicUsize::new(0);

/// One of the places of [`MAX_WATCHES`].
struct Place;

impl Place {
    fn take() -> Result<Place, Failure> {
        if WATCHES.fetch_add(1, Ordering::Relaxed) < MAX_WATCHES {
            return Ok(Place);
        }
        WATCHES.fetch_sub(1, Ordering::Relaxed);
        let message = format!("{MAX_WATCHES} requests watch already");
        Err(Failure::new("too-many-watches", EXIT_BUSY, message))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        WATCHES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Branches, tags and what the worktree is on, by their names.
type Names = BTreeMap<String, String>;

/// The files that are not as in the commit.
type Files = BTreeMap<Vec<u8>, &'static str>;

/// The claims on what is watched.
type Claims = BTreeMap<WatchedClaim, ClaimNews>;

/// Names a claim.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedClaim {
    path: RepoPath,
    device: String,
}

/// What is told of a claim.
#[derive(Clone, PartialEq, Eq)]
struct ClaimNews {
    by: String,
    state: &'static str,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let _place = Place::take()?;
    let _watch = context.interruptible();
    let repo = context.repo()?;
    let has_files = repo.worktree_root().is_some();
    if !has_files && !args.paths.is_empty() {
        return Err(RepoError::from(WorktreeError::NoWorktree).into());
    }
    let select = if args.refs || !has_files {
        None
    } else {
        Some(Paths::new(context.paths(&repo, &args.paths)?))
    };
    let (mut version, mut names) = (version(&repo)?, names(&repo)?);
    let mut files = Files::new();
    let mut next_look = Instant::now();
    if let Some(select) = &select {
        (files, next_look) = look(context, &repo, select)?;
    }
    let mut claimed = claims(&repo, args, select.as_ref())?;
    context.ui.event(&object! { event: "begin" }, "watching")?;
    drop(repo);
    loop {
        wait(context, Duration::from_secs(args.interval))?;
        // Another command may have replaced the database.
        let repo = context.repo()?;
        let now = self::version(&repo)?;
        if now != version {
            version = now;
            names = tell_names(context, &names, self::names(&repo)?)?;
            let now = claims(&repo, args, select.as_ref())?;
            tell_claims(context, &claimed, &now)?;
            claimed = now;
            next_look = Instant::now();
        }
        if let Some(select) = select.as_ref().filter(|_| next_look <= Instant::now()) {
            let (now, next) = look(context, &repo, select)?;
            tell_files(context, &files, &now)?;
            (files, next_look) = (now, next);
        }
    }
}

/// Waits, unless the watch ends.
fn wait(context: &Context, duration: Duration) -> Result<(), Failure> {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        if context.job.is_cancelled() {
            return Err(RepoError::Cancelled.into());
        }
        if !context.is_request() && is_reader_gone(io::stdout()) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        std::thread::sleep(PAUSE.min(duration));
    }
    Ok(())
}

/// Changes with each transaction.
fn version(repo: &Repo) -> Result<u64, Failure> {
    Ok(repo.refs().last_operation().map_err(RepoError::from)?)
}

fn names(repo: &Repo) -> Result<Names, Failure> {
    let mut names = Names::new();
    for prefix in ["branch/", "tag/", "remote/"] {
        let found = repo.refs().with_prefix(prefix).map_err(RepoError::from)?;
        for (name, value) in found {
            if let Ok(id) = <[u8; 32]>::try_from(&value[..]) {
                names.insert(name, ObjectId::from_bytes(id).to_string());
            }
        }
    }
    if repo.worktree_root().is_some() {
        let on = match repo.head()? {
            Head::Branch(name) => format!("branch/{name}"),
            Head::Commit(id) => id.to_string(),
        };
        names.insert("head".to_owned(), on);
    }
    Ok(names)
}

fn tell_names(context: &Context, before: &Names, now: Names) -> Result<Names, Failure> {
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    for name in now.keys().chain(gone) {
        let (old, new) = (before.get(name), now.get(name));
        if old != new {
            let document = object! { event: "ref", name: name, old: old, new: new };
            let at = new.map_or("gone", String::as_str);
            context
                .ui
                .event(&document, format_args!("{}  {}", clean(name), clean(at)))?;
        }
    }
    Ok(now)
}

/// Returns the claims on what is watched; of several of one device on a path, one.
fn claims(repo: &Repo, args: &Args, select: Option<&Paths>) -> Result<Claims, Failure> {
    let mut claims = Claims::new();
    if args.refs {
        return Ok(claims);
    }
    for info in repo.claims()?.claims() {
        let path = &info.claim.path;
        if select.is_none_or(|select| select.includes(path.as_bytes())) {
            let claim = WatchedClaim {
                path: path.clone(),
                device: encode_hex(&info.writer.device),
            };
            let (by, state) = (info.by.clone(), info.word());
            claims.insert(claim, ClaimNews { by, state });
        }
    }
    Ok(claims)
}

fn tell_claims(context: &Context, before: &Claims, now: &Claims) -> Result<(), Failure> {
    let gone = before.keys().filter(|claim| !now.contains_key(*claim));
    for claim in now.keys().chain(gone) {
        let (old, new) = (before.get(claim), now.get(claim));
        let Some(ClaimNews { by, .. }) = new.or(old).filter(|_| old != new) else {
            continue;
        };
        let state = new.map_or("released", |new| new.state);
        let at = json::path(&claim.path);
        let document = object! { event: "claim", ..at, by: by, device: claim.device, state: state };
        let (path, by) = (escape(&claim.path), clean(by));
        let text = format_args!("{state:<9}  {path}  by {by}");
        context.ui.event(&document, text)?;
    }
    Ok(())
}

/// Returns what is not as in the commit, and when to look again.
fn look(context: &Context, repo: &Repo, select: &Paths) -> Result<(Files, Instant), Failure> {
    let begin = Instant::now();
    let settings = context.settings()?;
    let report = repo.status(&StatusOptions { select, settings }, &context.job)?;
    let mut files = Files::new();
    for (path, state) in report.states() {
        if select.includes(path) {
            files.insert(path.to_vec(), state.word());
        }
    }
    Ok((files, Instant::now() + begin.elapsed() * SHARE))
}

fn tell_files(context: &Context, before: &Files, now: &Files) -> Result<(), Failure> {
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let changed = now
        .keys()
        .filter(|path| before.get(*path) != now.get(*path));
    let all: Vec<&Vec<u8>> = changed.chain(gone).collect();
    if all.len() > MAX_NAMED {
        let files = all.len() as u64;
        let text = count(files, "file has changed", "files have changed");
        return context
            .ui
            .event(&object! { event: "files", files: files }, text);
    }
    for path in all {
        let state = now
            .get(path)
            .copied()
            .unwrap_or(FileState::Unchanged.word());
        let at = json::path(path);
        let document = object! { event: "file", ..at, state: state };
        context
            .ui
            .event(&document, format_args!("{state:<9}  {}", escape(path)))?;
    }
    Ok(())
}

//! `dmv clone --bare DIR ADDRESS`: a repository of this machine is copied to a new place.

use super::Args;
use crate::config::{DEFAULT_BRANCH, ORIGIN};
use crate::error::like_ssh;
use crate::on_demand::remote_failure;
use crate::peers::{Call, closed, has_scheme};
use crate::prelude::*;
use crate::print::push::NOT_CREATED;
use crate::remotes::set_remote;
use crate::traffic::Report;
use dmv_core::repo::RefKind;
use dmv_net::ops;
use dmv_net::ops::{OpsError, PushOptions, PushReport, RefTip, Remote};
use dmv_net::transport::Url;
use std::path::{Path, PathBuf};

/// The place to copy to, if the second argument is an address. Fails if it, or an option, asks for what
/// no such copy can be.
pub fn target(args: &Args) -> Result<Option<Url>, Failure> {
    let Some(dir) = args.dir.as_ref().filter(|dir| has_scheme(dir)) else {
        return Ok(None);
    };
    let url = Url::parse(dir.as_os_str())?;
    let refused = |message: &str| Err(Failure::usage(message.to_owned()));
    match &url {
        Url::Path(_) => return Ok(None),
        #[cfg(feature = "quic")]
        Url::Quic(_) => {
            let failure = refused("a device that is reached by key serves only what it has");
            return failure
                .map_err(|e| e.hint("dmv init --bare DIR and dmv serve, on that device"));
        }
        _ => {}
    }
    if !args.bare {
        let again = hint!(
            "dmv clone --bare {} {}",
            Argument::on_disk(&args.source),
            Argument::value(url.to_string())
        );
        let failure = refused("a repository at an address has no worktree");
        return failure.map_err(|e| e.hint(again));
    }
    if args.mirror {
        return refused("a repository at an address does not follow this one: it fetches nothing");
    }
    if args.branch.is_some() || !args.slice.is_everything() {
        return refused("a copy to an address has all branches, all history and all content");
    }
    Ok(Some(url))
}

/// The directory of a clone on this machine, as a path.
pub fn plain_dir(dir: &Path) -> Result<PathBuf, Failure> {
    if has_scheme(dir)
        && let Url::Path(path) = Url::parse(dir.as_os_str())?
    {
        return Ok(path);
    }
    // As scp writes it. A directory may be called so, but its parent is then there.
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    match like_ssh(dir) {
        Some(url) if parent.is_some_and(|parent| !parent.exists()) => {
            let message = format!("{} looks like an ssh address", dir.display());
            let hint = hint!("dmv clone --bare SRC {}", Argument::value(url));
            Err(Failure::usage(message).hint(hint))
        }
        _ => Ok(dir.to_owned()),
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args, url: Url) -> Result<u8, Failure> {
    // The settings and remotes that count are those of the source.
    let context = &context.moved_to(&source(&args.source)?)?;
    let repo = context.repo()?;
    #[cfg(feature = "store")]
    crate::bucket::take(context, &url, &args.store)?;
    let to = named(context, &repo, url)?;
    let head = repo.head()?.branch().map(str::to_owned);
    let branch = head.unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
    let mut options = PushOptions::new(to.remote.clone(), all_refs(&repo)?, context.request()?);
    options.only_new = true;
    options.create = Some(branch.clone());
    #[cfg(feature = "store")]
    {
        options.dry_run = args.dry_run;
    }
    let call = Call::new(context);
    let done = ops::push(&repo, &options, &call, &context.job);
    drop(call);
    let done = done.map_err(|e| failure(context, &to.remote.url, e))?;
    let mut report = Report::default();
    report.closed = (!done.may_push).then(|| closed(&to.remote.url, done.read_only));
    report.idle = Some(format!("{} is already a copy", to.remote.url));
    report.add(done.summary.clone(), done.moved.clone());
    if done.foreseen.is_some() {
        report.print_foreseen(context, &done)?;
        return Ok(EXIT_OK);
    }
    if let Some(first) = report.refused().first() {
        let message = format!("{} was not created: {}", to.remote.url, report.why(first));
        let exit = report
            .closed
            .as_ref()
            .map_or(EXIT_REFUSED, |closed| closed.exit);
        return Err(Failure::new("not-allowed", exit, message));
    }
    if to.is_new {
        #[cfg(feature = "store")]
        let notes = crate::bucket::notes(context);
        #[cfg(not(feature = "store"))]
        let notes = Vec::new();
        set_remote(&repo, &to.remote.name, &to.remote.url, notes)?;
    }
    tell(context, &report, &done, &branch, &to)?;
    Ok(EXIT_OK)
}

/// The repository to copy, as a directory.
fn source(source: &OsString) -> Result<PathBuf, Failure> {
    match Url::parse(source)? {
        Url::Path(path) => Ok(path),
        url => {
            let message =
                format!("{url} is not on this machine, so it cannot be copied to an address");
            let hint = hint!(
                "dmv clone {}; then copy that clone",
                Argument::value(url.to_string())
            );
            Err(Failure::usage(message).hint(hint))
        }
    }
}

fn all_refs(repo: &Repo) -> Result<Vec<RefTip>, Failure> {
    let mut out = Vec::new();
    for info in repo.list_refs(RefKind::Branch)? {
        out.extend(info.commit.map(|commit| RefTip::branch(&info.name, commit)));
    }
    for info in repo.list_refs(RefKind::Tag)? {
        out.extend(info.commit.map(|commit| RefTip::tag(&info.name, commit)));
    }
    Ok(out)
}

/// The new place as a remote of the repository.
struct Target {
    remote: Remote,
    /// Whether it becomes one.
    is_new: bool,
}

/// The remote that has this address, or else `origin`, if no remote and no branch has the name.
fn named(context: &Context, repo: &Repo, url: Url) -> Result<Target, Failure> {
    let remotes = context.config()?.remotes();
    let text = url.to_string();
    if let Some((name, _)) = remotes.iter().find(|(_, known)| *known == text) {
        let (remote, is_new) = (Remote::new(name, url), false);
        return Ok(Target { remote, is_new });
    }
    let is_free = remotes.iter().all(|(name, _)| name != ORIGIN);
    let is_new = is_free && repo.named_like_remote(ORIGIN)?.is_none();
    let remote = if is_new {
        Remote::new(ORIGIN, url)
    } else {
        Remote::once(text, url)
    };
    Ok(Target { remote, is_new })
}

fn failure(context: &Context, url: &Url, e: OpsError) -> Failure {
    if let OpsError::NotNew { .. } = e {
        let message =
            format!("there is already a repository at {url}, with other branches or tags");
        let hint = hint!(
            "dmv sync {}, to send it what is new",
            Argument::value(url.to_string())
        );
        return Failure::new("exists", EXIT_REFUSED, message).hint(hint);
    }
    // It is no remote yet.
    let failure = remote_failure(context, &Remote::once(url.to_string(), url.clone()), e);
    match failure.exit {
        EXIT_NO_REPOSITORY => failure.hint(NOT_CREATED),
        _ => failure,
    }
}

/// Says what the new repository has, and how it is reached from now on.
fn tell(
    context: &Context,
    report: &Report,
    done: &PushReport,
    branch: &str,
    to: &Target,
) -> Result<(), Failure> {
    let remote = (!to.remote.once).then_some(&to.remote.name);
    let document = object! {
        url: to.remote.url.to_string(),
        branch: branch,
        created: done.created,
        remote: remote,
    };
    report.print(context, document)?;
    let url = clean(&to.remote.url.to_string());
    context.ui.text(|out| {
        if done.moved.is_empty() {
            return Ok(());
        }
        let branches = done.moved.iter();
        let branches = branches.filter(|moved| moved.key.starts_with("branch/"));
        let branches = branches.count();
        let tags = count((done.moved.len() - branches) as u64, "tag", "tags");
        let branches = count(branches as u64, "branch", "branches");
        Ok(writeln!(out, "copied to {url}: {branches}, {tags}")?)
    })?;
    if to.is_new {
        context.ui.note(format_args!(
            "it is now the remote {ORIGIN} of this repository"
        ));
    } else if to.remote.once {
        let add = hint!(
            "dmv remote add NAME {}",
            Argument::value(to.remote.url.to_string())
        );
        context
            .ui
            .note(format_args!("to use it as a remote: {add}"));
    }
    Ok(())
}

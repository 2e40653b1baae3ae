//! `dmv push`

use crate::config::DEFAULT_BRANCH;
use crate::on_demand::remote_failure;
use crate::peers::{Call, closed, remote};
use crate::prelude::*;
use crate::print::push::{NOT_CREATED, refusal};
use crate::stash_name;
use crate::traffic::Report;
use dmv_core::repo::{BranchError, LookError, RefKind};
use dmv_net::ops;
use dmv_net::ops::{PushOptions, RefTip, Remote};
#[cfg(feature = "store")]
use dmv_net::transport::Url;

/// Send branches and tags to a remote
///
/// Without BRANCH, sends the current branch. If the remote branch has commits that yours does not have,
/// dmv refuses: pull first, or use --force to overwrite it.
///
/// --delete deletes branches and tags on the remote, not your local ones. dmv refuses to delete the branch
/// that the remote is on. Without --force, it also refuses if no other branch or tag on the remote has
/// the commits. 'dmv undo', run on the remote, restores a deleted branch; for a bucket, 'dmv undo --at REMOTE'.
///
/// --create creates the repository, bare, if there is nothing at the address: one directory, below one
/// that exists. Without it, dmv creates nothing. The first push to a bucket needs no --create.
///
/// --dry-run estimates how much a push would send, and what it would cost at a bucket. It writes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv push\n  dmv push origin main regrade\n  dmv push origin --delete \
                  regrade\n  dmv push origin stash\n  dmv push --tags\n  dmv push --dry-run\n  dmv push nas --create"
)]
pub struct Args {
    /// The remote to push to, or an address [default: origin, or the only remote]
    #[arg(value_name = "REMOTE", add = candidates::remote())]
    remote: Option<String>,
    /// The branches or tags to send, or a stash: stash, or stash@{N} [default: the current branch]
    #[arg(value_name = "BRANCH", add = candidates::branch_or_tag())]
    branches: Vec<String>,
    /// Delete these branches or tags on the remote
    #[arg(short, long, value_name = "NAME", num_args = 1.., add = candidates::branch_or_tag())]
    delete: Vec<String>,
    /// Send all tags; without BRANCH, only them
    #[arg(long)]
    tags: bool,
    /// Send all branches
    #[arg(long)]
    all: bool,
    /// Overwrite or delete even if the remote branch loses commits
    #[arg(short, long)]
    force: bool,
    /// If there is nothing at the address, create a bare repository there
    #[arg(long, conflicts_with_all = ["delete", "dry_run"])]
    create: bool,
    /// Only report what would be sent
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, args.remote.as_deref())?;
    let refs = refs(&repo, args)?;
    let mut options = PushOptions::new(remote.clone(), refs, context.request()?);
    options.delete.clone_from(&args.delete);
    options.force = args.force;
    options.dry_run = args.dry_run;
    options.create = args.create.then(|| first_branch(&options.refs));
    let call = Call::new(context);
    let done = ops::push(&repo, &options, &call, &context.job);
    drop(call);
    let done = done.map_err(|e| {
        let failure = remote_failure(context, &remote, e);
        match failure.exit {
            EXIT_NO_REPOSITORY if args.create => failure.hint(NOT_CREATED),
            _ => failure,
        }
    })?;
    let gone = done.deleted();
    let mut report = Report::default();
    report.closed = (!done.may_push).then(|| closed(&remote.url, done.read_only));
    report.add(done.summary.clone(), done.moved.clone());
    report.held.clone_from(&done.held);
    report.idle = Some(format!("already up to date with {}", remote.name));
    report.way_back = way_back(&remote);
    if done.foreseen.is_some() {
        report.print_foreseen(context, &done)?;
        return refusal(&repo, &report, &remote).map(|()| EXIT_OK);
    }
    report.print(context, object! { done.{created} })?;
    if done.created && !context.ui.is_json() {
        let url = clean(&remote.url.to_string());
        context
            .ui
            .note(format_args!("created the repository {url}"));
    }
    for name in gone {
        // Else the next sync makes it there once more, to the user's surprise.
        if repo.ref_at(&format!("branch/{name}"))?.is_some() {
            let hint = hint!("dmv branch -d {}", Argument::value(&name));
            let note = format_args!("your local branch {name} stays; to delete it, too: {hint}");
            context.ui.note(note);
        }
    }
    refusal(&repo, &report, &remote)?;
    tell_stashes(context, &options.refs);
    Ok(EXIT_OK)
}

/// The branch that a new repository is on: the first one that it gets.
fn first_branch(refs: &[RefTip]) -> String {
    let mut branches = refs
        .iter()
        .filter_map(|tip| tip.key.strip_prefix("branch/"));
    branches.next().unwrap_or(DEFAULT_BRANCH).to_owned()
}

/// How a branch comes back that was deleted at a bucket, where no command can run.
#[cfg(feature = "store")]
fn way_back(remote: &Remote) -> Option<Hint> {
    let is_bucket = matches!(remote.url, Url::Bucket(_));
    is_bucket.then(|| hint!("dmv undo --at {}", Argument::value(&remote.name)))
}

#[cfg(not(feature = "store"))]
fn way_back(_: &Remote) -> Option<Hint> {
    None
}

/// The branches and tags to send.
fn refs(repo: &Repo, args: &Args) -> Result<Vec<RefTip>, Failure> {
    let is_elsewhere = !args.delete.is_empty() || args.tags || args.all;
    let mut refs = if args.branches.is_empty() && is_elsewhere {
        Vec::new()
    } else {
        wanted(repo, &args.branches)?
    };
    let kinds = [(RefKind::Branch, args.all), (RefKind::Tag, args.tags)];
    for (kind, _) in kinds.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        for info in repo.list_refs(kind)? {
            let tip = info.commit.map(|id| match kind {
                RefKind::Branch => RefTip::branch(&info.name, id),
                RefKind::Tag => RefTip::tag(&info.name, id),
            });
            let is_new = |tip: &RefTip| refs.iter().all(|known: &RefTip| known.key != tip.key);
            refs.extend(tip.filter(is_new));
        }
    }
    if refs.is_empty() && args.delete.is_empty() {
        return Err(Failure::usage("there is no tag to send").hint("dmv tag NAME"));
    }
    Ok(refs)
}

/// The branches or tags named; without any, the current branch.
fn wanted(repo: &Repo, names: &[String]) -> Result<Vec<RefTip>, Failure> {
    let mut out = Vec::new();
    let current = match (names, repo.head()?.branch()) {
        ([], Some(branch)) => vec![branch.to_owned()],
        ([], None) => {
            let failure = Failure::usage("no branch is checked out: name the branch to push");
            return Err(failure.hint("dmv push REMOTE BRANCH"));
        }
        (names, _) => names.to_vec(),
    };
    for name in current {
        let branch = repo.ref_at(&format!("branch/{name}"))?;
        let found = match branch {
            Some(id) => Some(RefTip::branch(&name, id)),
            None => repo
                .ref_at(&format!("tag/{name}"))?
                .map(|id| RefTip::tag(&name, id)),
        };
        out.push(match found {
            Some(found) => found,
            None if is_stash(&name) => {
                let n = if name == STASH {
                    Ok(0)
                } else {
                    stash_name::number(&name)
                };
                let commit = stash_name::numbered(repo, n.map_err(Failure::usage)?)?.commit;
                // Others see where it comes from, and two stashes never get the same name.
                RefTip::branch(&format!("{STASH}/{}", commit.short(SHORT_ID)), commit)
            }
            None if names.is_empty() => return Err(RepoError::Look(LookError::NoCommit).into()),
            None => {
                let kind = "branch";
                return Err(RepoError::Branch(BranchError::NoRef { kind, name }).into());
            }
        });
    }
    Ok(out)
}

/// The word for the newest stash, and the directory of the branches that others get stashes as.
const STASH: &str = "stash";

/// Whether a name that is no branch and no tag means a stash.
fn is_stash(name: &str) -> bool {
    name == STASH || name.starts_with("stash@{")
}

/// Says how the stashes that were sent are applied elsewhere.
fn tell_stashes(context: &Context, sent: &[RefTip]) {
    for tip in sent {
        if let Some(name) = tip.key.strip_prefix("branch/stash/") {
            context.ui.note(hint!(
                "to apply the stash in another clone: dmv fetch, then dmv stash apply {}",
                Argument::value(format!("origin/{STASH}/{name}"))
            ));
        }
    }
}

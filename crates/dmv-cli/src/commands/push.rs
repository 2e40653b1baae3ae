//! `dmv push`

use crate::candidates;
use crate::commands::stash;
use crate::config::DEFAULT_BRANCH;
use crate::context::Context;
use crate::failure::{EXIT_NO_REPOSITORY, EXIT_OK, EXIT_REFUSED, Failure};
use crate::format::text::{SHORT_ID, clean};
use crate::peers::{Call, closed, remote};
use crate::supply::remote_failure;
use crate::traffic::{Report, done_to, name};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::repo::{BranchError, LookError, RefChange, RefKind, Refusal, Repo, RepoError};
#[cfg(feature = "web")]
use dmv_net::ops::PushReport;
use dmv_net::ops::{self, PushOptions, RefTip, Remote};
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
    report.add(done.summary, done.moved);
    report.idle = Some(format!("already up to date with {}", remote.name));
    report.way_back = way_back(&remote);
    if let Some(foreseen) = &done.foreseen {
        report.print_foreseen(context, foreseen, (done.writes, done.reads))?;
        return refusal(&repo, &report, &remote).map(|()| EXIT_OK);
    }
    report.print(context, &[("created", done.created.into())])?;
    if done.created && !context.globals.json {
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

/// What helps where --create creates nothing.
pub const NOT_CREATED: &str =
    "run the same command again when the directory above it exists and it is missing or empty";

/// The branch that a new repository is on: the first one that it gets.
fn first_branch(refs: &[RefTip]) -> String {
    let mut branches = refs
        .iter()
        .filter_map(|tip| tip.key.strip_prefix("branch/"));
    branches.next().unwrap_or(DEFAULT_BRANCH).to_owned()
}

/// How a branch comes back that was deleted at a bucket, where nobody runs a command.
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
                    stash::number(&name)
                };
                let commit = stash::numbered(repo, n.map_err(Failure::usage)?)?.commit;
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

/// The failure for what a push has not done, if there is something; for a page, which prints nothing else.
#[cfg(feature = "web")]
pub fn refused(repo: &Repo, to: &Remote, done: &PushReport) -> Option<Failure> {
    let mut report = Report::default();
    report.closed = (!done.may_push).then(|| closed(&to.url, done.read_only));
    report.add(done.summary.clone(), done.moved.clone());
    refusal(repo, &report, to).err()
}

/// The failure for refs that the other side did not move.
fn refusal(repo: &Repo, report: &Report, to: &Remote) -> Result<(), Failure> {
    let remote = &to.name[..];
    let refused = report.refused();
    let Some((first, why)) = refused.first().and_then(|m| Some((m, m.refused?))) else {
        return Ok(());
    };
    let name = name(first);
    let more = match refused.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let ((done, at), because) = (done_to(first), report.why(first));
    let message = format!("{name} was not {done} {at} {remote}: {because}{more}");
    let code = match why {
        Refusal::InUse => "in-use",
        Refusal::BadName => "refused",
        _ => "not-forward",
    };
    let failure = match (&report.closed, why) {
        (Some(closed), Refusal::BadName) => Failure::new("not-allowed", closed.exit, message),
        _ => Failure::new(code, EXIT_REFUSED, message),
    };
    Err(match (why, first.new) {
        (Refusal::BadName, _) => failure,
        (Refusal::InUse, _) => failure.hint(way_off_branch(&to.url)),
        (Refusal::NotForward, None) => {
            let (remote, name) = (Argument::value(remote), Argument::value(name));
            failure.hint(hint!("dmv push {} --force --delete {}", remote, name))
        }
        (Refusal::Moved, None) => failure.hint(hint!("dmv fetch {}", Argument::value(remote))),
        _ => failure.hint(if was_replaced(repo, remote, first) {
            way_past_replaced(remote, name)
        } else {
            hint!("dmv pull {}", Argument::value(remote))
        }),
    })
}

/// The command that puts the remote repository on another branch.
fn way_off_branch(url: &Url) -> Hint {
    let command = match url {
        Url::Path(path) => {
            let path = Argument::on_disk(path);
            hint!("dmv -C {} checkout BRANCH", path)
        }
        _ => "dmv checkout BRANCH, run in the remote repository".into(),
    };
    hint!(
        "{}, to put it on another branch; then run the same command again",
        command
    )
}

/// Whether the other side's branch is known not to go on from what it was: a pull would refuse.
fn was_replaced(repo: &Repo, remote: &str, moved: &RefChange) -> bool {
    let branch = moved.key.strip_prefix("branch/");
    let (Some(branch), Some(ours), Some(theirs)) = (branch, moved.new, moved.old) else {
        return false;
    };
    is_replaced(repo, remote, branch, ours, theirs)
}

/// Whether `theirs` is known to lack what the remote's branch had and `ours` has. What is not here
/// cannot be told; then the pull says it.
pub fn is_replaced(
    repo: &Repo,
    remote: &str,
    branch: &str,
    ours: ObjectId,
    theirs: ObjectId,
) -> bool {
    let found = repo.replaced_commit(remote, branch, (ours, theirs));
    found.is_ok_and(|commit| commit.is_some())
}

/// What to run where a remote's branch was replaced.
pub fn way_past_replaced(remote: &str, branch: &str) -> Hint {
    let name = Argument::value(format!("{remote}/{branch}"));
    hint!(
        "dmv pull --reset, to use {} as it is; or dmv merge {}, to keep both",
        name,
        name
    )
}

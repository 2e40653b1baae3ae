//! `dmv checkout`

use crate::deletions::DeletedFiles;
use crate::on_demand::ops_failure;
use crate::overwrites::{ask_if_too_much, too_much};
use crate::peers::{Call, tell_skipped};
use crate::prelude::*;
use crate::print::checkout::print_checkout;
use crate::subset_options::LimitArgs;
use dmv_core::repo::{CheckoutOptions, CheckoutReport, CheckoutTarget, RevisionError, is_previous};
use dmv_core::subset::Subset;
use dmv_net::ops::checkout_lean;

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
    // A lean clone that was cut off goes on: without this, content that packs do not keep would be left out.
    let goes_on = repo.is_lean() && repo.base_commit()?.is_none() && !args.limit.is_given();
    let subset = if args.all || goes_on {
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
    let report = if repo.is_lean() {
        checkout_in_portions(context, &repo, &target, &mut options)?
    } else {
        keep_or_ask(context, &repo, "checking out", |settings| {
            options.settings = settings.clone();
            repo.checkout(target.clone(), &options, &context.job)
        })?
    };
    if let Some(name) = made {
        context
            .ui
            .text(|out| Ok(writeln!(out, "created branch {name}")?))?;
    }
    let code = print_checkout(context, &report, true)?;
    tell_left(context, &repo, &before, &report)?;
    context.ui.text(|_| {
        if let Some(deleted) = DeletedFiles::find(context, &repo) {
            deleted.tell(context);
        }
        Ok(())
    })?;
    Ok(code)
}

/// Switches in a lean repository, which has no room for the content of all files beside the files.
fn checkout_in_portions(
    context: &Context,
    repo: &Repo,
    target: &CheckoutTarget,
    options: &mut CheckoutOptions,
) -> Result<CheckoutReport, Failure> {
    ask_if_too_much(context, |settings, much| {
        options.settings = settings.clone();
        let (call, go_on) = (Call::to(context, "checking out"), &options.request.command);
        let done = checkout_lean(repo, target, go_on, options, &call, &context.job);
        drop(call);
        let done = done.map_err(|e| ops_failure(context, e))?;
        tell_skipped(context, done.skipped);
        *much = too_much(&done.done);
        Ok(done.done?)
    })
}

/// Makes a branch the default one of a bare repository.
fn set_default(context: &Context, repo: &Repo, name: &str) -> Result<u8, Failure> {
    let commit = repo.set_default_branch(name, context.request()?)?;
    context.ui.report(
        || object! { branch: name, commit: commit },
        |out| {
            let (name, id) = (clean(name), commit.short(SHORT_ID));
            Ok(writeln!(
                out,
                "default branch {name}, {id}: clones start with it"
            )?)
        },
    )?;
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

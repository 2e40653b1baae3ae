//! `dmv worktree`

use crate::mirror::tell_behind;
use crate::peers::refuse_address;
use crate::prelude::*;
use crate::print::checkout::tell_refused;
use crate::subset_options::LimitArgs;
use dmv_core::platform::argument_bytes;
use dmv_core::refs::check_ref_name;
use dmv_core::repo::{AddOptions, WorktreeInfo, WorktreeState};
use dmv_core::subset::Subset;
use std::path::{Path, PathBuf};

/// Manage more worktrees, to work on several branches at once
///
/// Each worktree has its own branch and files. All worktrees share one repository.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv worktree add ../hotfix\n  dmv worktree list\n  \
                  dmv worktree remove ../hotfix"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(AddArgs),
    /// List all worktrees and their branches
    List,
    Remove(RemoveArgs),
    Repair(RepairArgs),
}

/// Create a worktree in a new directory
///
/// Without REV, uses the branch with the name of the directory, and creates it if it does not exist. dmv
/// refuses a branch that another worktree is on.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv worktree add ../hotfix\n  dmv worktree add ../review regrade\n  \
                  dmv worktree add --detach ../old v1.0\n  dmv worktree add ../titles --subset titles"
)]
struct AddArgs {
    /// The directory, which must be new or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The branch or commit to check out
    #[arg(value_name = "REV", add = candidates::revision())]
    revision: Option<String>,
    #[command(flatten)]
    limit: LimitArgs,
    /// Check out the commit, not the branch
    #[arg(long)]
    detach: bool,
}

/// Remove a worktree and its files; its branch stays
///
/// If the worktree has uncommitted or ignored files, dmv refuses and removes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv worktree remove ../hotfix")]
struct RemoveArgs {
    /// The directory of the worktree
    #[arg(value_name = "DIR", add = candidates::worktree())]
    dir: PathBuf,
    /// Remove uncommitted and ignored files, too
    #[arg(short, long)]
    force: bool,
}

/// Reconnect a worktree after it or its repository was moved
///
/// Run this in the main worktree, which contains the repository.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv worktree repair ../moved")]
struct RepairArgs {
    /// The directory of the worktree
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    match &args.command {
        Command::Add(args) => {
            refuse_address(&args.dir)?;
            add(context, &repo, args)
        }
        Command::List => list(context, &repo),
        Command::Remove(args) => {
            let request = context.request()?;
            let done = keep_or_ask(context, &repo, "scanning", |settings| {
                let (dir, request) = (&args.dir, request.clone());
                repo.remove_worktree(dir, args.force, settings, request, &context.job)
            });
            let (info, told) = done.map_err(|failure| unforced(failure, &args.dir))?;
            tell_overwritten(context, &told);
            tell(context, &info, "removed")
        }
        Command::Repair(args) => {
            let info = repo.repair_worktree(&args.dir, context.request()?)?;
            tell(context, &info, "reconnected")
        }
    }
}

fn unforced(failure: Failure, dir: &Path) -> Failure {
    match failure.code {
        "would-lose" => {
            let dir = Argument::on_disk(dir);
            failure.hint(hint!("dmv -C {} status", dir))
        }
        _ => failure,
    }
}

/// Returns the name of the branch of a new worktree: that of its directory.
fn branch_for(dir: &Path) -> Result<String, Failure> {
    let name = dir.file_name().unwrap_or_default();
    let why = match name.to_str() {
        None => "it is not UTF-8",
        Some(name) => match check_ref_name(name) {
            Ok(()) => return Ok(name.to_owned()),
            Err(e) => e.why,
        },
    };
    let shown = name.display();
    let message = format!("a branch cannot have the name of the directory '{shown}': {why}");
    let dir = Argument::on_disk(dir);
    let hint = hint!(
        "dmv worktree add {} BRANCH, or dmv worktree add {} --detach",
        dir,
        dir
    );
    Err(Failure::new("bad-name", EXIT_OTHER, message).hint(hint))
}

fn add(context: &Context, repo: &Repo, args: &AddArgs) -> Result<u8, Failure> {
    let wanted = match (&args.revision, args.detach) {
        (Some(revision), _) => revision.clone(),
        (None, true) => "@".to_owned(),
        (None, false) => branch_for(&args.dir)?,
    };
    let branch = repo.named_branch(&wanted)?;
    let (head, commit) = match (branch, &args.revision) {
        (Some(branch), _) if !args.detach => {
            let commit = repo.ref_at(&format!("branch/{branch}"))?;
            let commit = commit.map_or_else(|| repo.resolve("@"), Ok)?;
            (Head::Branch(branch), commit)
        }
        (None, None) if !args.detach => (Head::Branch(wanted), repo.resolve("@")?),
        _ => {
            tell_behind(context, repo, &wanted);
            let commit = repo.resolve(&wanted)?;
            (Head::Commit(commit), commit)
        }
    };
    let subset = args.limit.read(context, repo)?;
    if let Some(subset) = &subset {
        let tree = repo.read_commit(&commit)?.tree;
        tell_idle(
            context,
            &repo.idle_patterns(tree, &Subset::everything(), subset)?,
        );
    }
    let options = AddOptions {
        dir: args.dir.clone(),
        head,
        commit,
        subset: subset.unwrap_or_default(),
        settings: context.settings()?,
        request: context.request()?,
    };
    let report = supplied(context, repo, "checking out", || {
        repo.add_worktree(&options, &context.job)
    })?;
    let document = || {
        object! { ..record(&report.info), report.{files, bytes}, problems: report.refused }
    };
    context.ui.report(document, |out| {
        let path = shown(&report.info);
        let on = on(&context.ui, &report.info.head, report.info.commit);
        writeln!(out, "created worktree {path}, {on}")?;
        writeln!(out, "{}", written(report.files, report.bytes, 0))?;
        Ok(())
    })?;
    tell_refused(context, Some(&report.info.path), &report.refused);
    Ok(exit_for(&report.refused))
}

/// A worktree in JSON.
fn record(info: &WorktreeInfo) -> Json {
    object! {
        info.{name},
        path: info.path.as_path(),
        branch: info.head.branch(),
        info.{commit, current},
        missing: info.state == WorktreeState::Missing,
    }
}

fn list(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    for info in repo.worktrees()? {
        context.ui.show(
            || record(&info),
            |out| {
                let mark = if info.current { "*" } else { " " };
                let path = shown(&info);
                let gone = match info.state {
                    WorktreeState::Here => hint!(""),
                    WorktreeState::Hidden => hint!(" (you may not look there)"),
                    WorktreeState::Missing => hint!(
                        " (missing; if you deleted it: dmv worktree remove {})",
                        Argument::on_disk(&info.path)
                    ),
                };
                let on = on(&context.ui, &info.head, info.commit);
                Ok(writeln!(out, "{mark} {path}  {on}{gone}")?)
            },
        )?;
    }
    Ok(EXIT_OK)
}

/// Returns the worktree's path as it is printed.
fn shown(info: &WorktreeInfo) -> String {
    escape(&argument_bytes(&info.path)).to_string()
}

fn tell(context: &Context, info: &WorktreeInfo, what: &str) -> Result<u8, Failure> {
    context.ui.report(
        || record(info),
        |out| {
            let path = shown(info);
            let on = on(&context.ui, &info.head, info.commit);
            Ok(writeln!(out, "{what}: {path}, {on}")?)
        },
    )?;
    Ok(EXIT_OK)
}

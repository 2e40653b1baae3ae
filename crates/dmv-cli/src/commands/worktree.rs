//! `dmv worktree`

use crate::candidates;
use crate::commands::checkout::tell_refused;
use crate::context::Context;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{ProblemValue, problems};
use crate::format::text::{SHORT_ID, bytes, count};
use crate::keeping::{keeping, tell_overwritten};
use crate::limit::{LimitArgs, tell_idle};
use crate::mirror::tell_behind;
use crate::peers::refuse_address;
use crate::supply::supplied;
use crate::ui::Ui;
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::object::name::escape;
use dmv_core::repo::{AddOptions, Head, Repo, WorktreeInfo, WorktreeState};
use dmv_core::subset::Subset;
use serde::Serialize;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
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

#[derive(Serialize)]
struct Record {
    name: String,
    path: String,
    branch: Option<String>,
    commit: Option<String>,
    current: bool,
    missing: bool,
}

#[derive(Serialize)]
struct AddedWorktree {
    #[serde(flatten)]
    worktree: Record,
    files: u64,
    bytes: u64,
    problems: Vec<ProblemValue>,
}

fn record(info: &WorktreeInfo) -> Record {
    Record {
        name: info.name.clone(),
        path: info.path.to_string_lossy().into_owned(),
        branch: info.head.branch().map(str::to_owned),
        commit: info.commit.map(|id| id.to_string()),
        current: info.current,
        missing: info.state == WorktreeState::Missing,
    }
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
            let done = keeping(context, &repo, "scanning", |settings| {
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

fn add(context: &Context, repo: &Repo, args: &AddArgs) -> Result<u8, Failure> {
    let name = args.dir.file_name().unwrap_or_default().to_string_lossy();
    let wanted = match (&args.revision, args.detach) {
        (Some(revision), _) => revision.clone(),
        (None, true) => "@".to_owned(),
        (None, false) => name.into_owned(),
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
    if context.globals.json {
        context.ui.json(&AddedWorktree {
            worktree: record(&report.info),
            files: report.files,
            bytes: report.bytes,
            problems: problems(&report.refused),
        })?;
    } else if !context.ui.quiet() {
        let mut out = context.ui.out();
        let (path, on) = (
            escape(report.info.path.as_os_str().as_bytes()),
            on(&context.ui, &report.info),
        );
        let files = count(report.files, "file", "files");
        writeln!(out, "created worktree {path}, {on}")?;
        writeln!(out, "{files} written ({})", bytes(report.bytes))?;
    }
    tell_refused(context, Some(&report.info.path), &report.refused);
    Ok(if report.refused.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn on(ui: &Ui, info: &WorktreeInfo) -> String {
    let id = info.commit.map(|id| id.short(SHORT_ID));
    let id = id.unwrap_or_else(|| "no commits yet".to_owned());
    match &info.head {
        Head::Branch(name) => format!("on branch {}, {id}", ui.branch(name)),
        Head::Commit(_) => format!("on commit {id}, on no branch"),
    }
}

fn list(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    for info in repo.worktrees()? {
        if context.globals.json {
            context.ui.json(&record(&info))?;
            continue;
        }
        let mark = if info.current { "*" } else { " " };
        let path = escape(info.path.as_os_str().as_bytes());
        let gone = match info.state {
            WorktreeState::Here => hint!(""),
            WorktreeState::Hidden => hint!(" (you may not look there)"),
            WorktreeState::Missing => hint!(
                " (missing; if you deleted it: dmv worktree remove {})",
                Argument::on_disk(&info.path)
            ),
        };
        writeln!(
            context.ui.out(),
            "{mark} {path}  {}{gone}",
            on(&context.ui, &info)
        )?;
    }
    Ok(EXIT_OK)
}

fn tell(context: &Context, info: &WorktreeInfo, what: &str) -> Result<u8, Failure> {
    if context.globals.json {
        context.ui.json(&record(info))?;
    } else if !context.ui.quiet() {
        let path = escape(info.path.as_os_str().as_bytes());
        writeln!(
            context.ui.out(),
            "{what}: {path}, {}",
            on(&context.ui, info)
        )?;
    }
    Ok(EXIT_OK)
}

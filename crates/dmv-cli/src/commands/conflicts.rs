//! `dmv conflicts`

use crate::format::json;
use crate::prelude::*;
use crate::print::merge::print_conflicts;
use dmv_core::repo::{ConflictAt, StatusOptions};
use dmv_core::worktree::select::Paths;
use std::collections::HashSet;

/// List unresolved conflicts
///
/// Without REV, lists the conflicts of the worktree that you have not resolved yet. With REV, lists the
/// conflicts in that commit.
///
/// Kinds of conflicts: content, add/add, delete/modify (we deleted, they modified), modify/delete,
/// file/directory, type, mode, symlink, many-sides.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv conflicts\n  dmv conflicts main --json")]
pub struct Args {
    /// List the conflicts in this commit [default: the worktree's]
    #[arg(value_name = "REV", add = candidates::revision())]
    revision: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let OpenConflicts { conflicts, unknown } = match (&args.revision, repo.worktree_root()) {
        (Some(revision), _) => of_commit(&repo, Some(repo.resolve(revision)?))?,
        (None, None) => of_commit(&repo, repo.head_commit()?)?,
        (None, Some(_)) => open_in_worktree(context, &repo)?,
    };
    if context.ui.is_json() {
        for at in &conflicts {
            context.ui.json(&at.to_json())?;
        }
        for path in &unknown {
            let kind: Option<&str> = None;
            context
                .ui
                .json(&object! { ..json::path(path), kind: kind })?;
        }
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    for path in &unknown {
        writeln!(out, "  {:<14}  {path}", "(absent)")?;
    }
    print_conflicts(context, &mut out, &conflicts)?;
    if conflicts.is_empty() && unknown.is_empty() && !context.ui.quiet() {
        writeln!(out, "no conflicts")?;
    }
    Ok(EXIT_OK)
}

/// Conflicts that are not settled.
#[derive(Default)]
struct OpenConflicts {
    conflicts: Vec<ConflictAt>,
    /// The paths of others, whose kind and versions are absent from this repository.
    unknown: Vec<RepoPath>,
}

fn of_commit(repo: &Repo, id: Option<ObjectId>) -> Result<OpenConflicts, Failure> {
    let Some(id) = id else {
        return Ok(OpenConflicts::default());
    };
    let (conflicts, unknown) = repo.conflicts_here(&repo.read_commit(&id)?)?;
    Ok(OpenConflicts { conflicts, unknown })
}

/// Those that no file settles, and the paths of those that cannot be read here.
fn open_in_worktree(context: &Context, repo: &Repo) -> Result<OpenConflicts, Failure> {
    let options = StatusOptions {
        select: &Paths::default(),
        settings: context.settings()?,
    };
    let status = repo.status(&options, &context.job)?;
    let known: HashSet<&RepoPath> = status.unresolved.iter().map(|at| &at.path).collect();
    let unknown = status.conflicts.iter().filter(|path| !known.contains(path));
    Ok(OpenConflicts {
        unknown: unknown.cloned().collect(),
        conflicts: status.unresolved,
    })
}

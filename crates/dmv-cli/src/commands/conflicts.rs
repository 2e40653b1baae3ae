//! `dmv conflicts`

use super::merge::list;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::json::conflict_values;
use crate::supply::supplied;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ConflictAt, Repo, StatusOptions};
use dmv_core::worktree::select::Paths;
use std::collections::HashSet;
use std::io::Write;

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
    #[arg(value_name = "REV")]
    revision: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let conflicts = match (&args.revision, repo.worktree_root()) {
        (Some(revision), _) => of_commit(context, &repo, Some(repo.resolve(revision)?))?,
        (None, None) => of_commit(context, &repo, repo.head_commit()?)?,
        (None, Some(_)) => open_in_worktree(context, &repo)?,
    };
    if context.globals.json {
        for value in conflict_values(&conflicts) {
            context.ui.json(&value)?;
        }
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    list(context, &mut *out, &conflicts)?;
    if conflicts.is_empty() && !context.ui.quiet() {
        writeln!(out, "no conflicts")?;
    }
    Ok(EXIT_OK)
}

fn of_commit(
    context: &Context,
    repo: &Repo,
    id: Option<dmv_core::hash::ObjectId>,
) -> Result<Vec<ConflictAt>, Failure> {
    Ok(match id {
        Some(id) => supplied(context, repo, "reading", || {
            repo.conflicts(&repo.read_commit(&id)?)
        })?,
        None => Vec::new(),
    })
}

/// Those of the base that no file settles.
fn open_in_worktree(context: &Context, repo: &Repo) -> Result<Vec<ConflictAt>, Failure> {
    let mut all = of_commit(context, repo, repo.base_commit()?)?;
    if all.is_empty() {
        return Ok(all);
    }
    let options = StatusOptions {
        select: &Paths::default(),
        settings: context.settings()?,
    };
    let open: HashSet<RepoPath> = repo
        .status(&options, &context.job)?
        .conflicts
        .into_iter()
        .collect();
    all.retain(|at| open.contains(&at.path));
    Ok(all)
}

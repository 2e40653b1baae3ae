//! `dmv show`

use super::diff::each_change;
use super::log::{header, names};
use crate::compare::{Comparer, FileDiff, Side, Totals};
use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::format::json::CommitValue;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{Rename, RepoError};
use dmv_core::worktree::select::Paths;
use serde::Serialize;
use std::io::Write;

/// Show a commit: its message, and what it changed against its first parent
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv show\n  dmv show v1.0 --stat")]
pub struct Args {
    /// The commit; what the worktree is on by default
    #[arg(value_name = "REV", default_value = "@")]
    revision: String,
    /// One line for each file
    #[arg(long)]
    stat: bool,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    commit: CommitValue,
    changes: Vec<FileDiff>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if let Some((revision, path)) = args.revision.split_once(':') {
        let failure = Failure::usage("show takes a revision, not a path in it");
        return Err(failure.hint(format!("dmv cat {revision}:{path}")));
    }
    let repo = context.repo()?;
    let id = repo.resolve(&args.revision)?;
    let commit = repo.read_commit(&id)?;
    if !context.globals.json {
        let text = header(&context.ui, &id, &commit, names(&repo)?.get(&id));
        writeln!(context.ui.out(), "{text}")?;
    }
    let parent = commit.parents.first().copied();
    if let Some(parent) = parent
        && let Err(RepoError::Absent { .. }) = repo.read_commit(&parent)
    {
        context
            .ui
            .note("note: the commit before is not in this repository");
        if context.globals.json {
            let (commit, changes) = (CommitValue::new(&id, &commit), Vec::new());
            context.ui.json(&Document { commit, changes })?;
        }
        return Ok(EXIT_OK);
    }
    let comparer = Comparer::new(context, &repo, !args.stat);
    let mut totals = Totals::default();
    let mut changes = Vec::new();
    let mut show = |path: &RepoPath, renamed: Option<&Rename>, old: Side<'_>, new: Side<'_>| {
        let diff = comparer.compare(path, renamed, old, new)?;
        diff.add_to(&mut totals);
        match (context.globals.json, args.stat) {
            (true, _) => changes.push(diff),
            (false, true) => diff.print_stat(context)?,
            (false, false) => diff.print(context)?,
        }
        Ok(())
    };
    each_change(
        context,
        &repo,
        (parent, Some(id)),
        &Paths::default(),
        &mut show,
    )?;
    if context.globals.json {
        let commit = CommitValue::new(&id, &commit);
        context.ui.json(&Document { commit, changes })?;
    } else if args.stat {
        totals.print(context)?;
    }
    Ok(EXIT_OK)
}

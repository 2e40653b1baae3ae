//! `dmv show`

use super::diff::{States, each_change};
use crate::candidates;
use crate::compare::side::Side;
use crate::compare::stat::StatTable;
use crate::compare::{Comparer, FileDiff};
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::json::CommitValue;
use crate::headline::{header, names};
use crate::mirror::tell_behind;
use dmv_core::escape::Argument;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{AbsentError, Rename, Repo, RepoError};
use dmv_core::worktree::select::Paths;
use serde::Serialize;
use std::io::Write;

/// Show a commit: its message and its changes
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv show\n  dmv show v1.0 --stat")]
pub struct Args {
    /// The commit to show
    #[arg(value_name = "REV", default_value = "@", add = candidates::revision())]
    revision: String,
    /// Show one line per file
    #[arg(long)]
    stat: bool,
}

/// A commit and its changes, as JSON.
#[derive(Serialize)]
pub struct Document {
    /// The commit.
    #[serde(flatten)]
    pub commit: CommitValue,
    /// What it changed.
    pub changes: Vec<FileDiff>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if let Some((revision, path)) = args.revision.split_once(':') {
        let failure = Failure::usage("show needs a commit, not a path in a commit");
        return Err(failure.hint(hint!("dmv cat {}", Argument::place(revision, path))));
    }
    let repo = context.repo()?;
    let id = repo.resolve(&args.revision)?;
    tell_behind(context, &repo, &args.revision);
    let commit = repo.read_commit(&id)?;
    if !context.globals.json {
        let text = header(&context.ui, &id, &commit, names(&repo)?.get(&id));
        writeln!(context.ui.out(), "{text}")?;
    }
    let detail = if args.stat {
        Detail::Stat
    } else {
        Detail::Full
    };
    let shown = CommitAt {
        id: &id,
        commit: &commit,
    };
    let changes = changes(context, &repo, shown, &Paths::default(), detail)?;
    if context.globals.json {
        let commit = CommitValue::new(&id, &commit);
        context.ui.json(&Document { commit, changes })?;
    }
    Ok(EXIT_OK)
}

/// How much of a commit's changes is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One line for each file, and sums.
    Stat,
    /// All of it.
    Full,
}

/// A commit that is shown.
#[derive(Clone, Copy)]
pub struct CommitAt<'a> {
    /// Its id.
    pub id: &'a ObjectId,
    /// What it says.
    pub commit: &'a Commit,
}

/// Shows what a commit changed under `paths` against its first parent; for JSON it is returned.
pub fn changes(
    context: &Context,
    repo: &Repo,
    shown: CommitAt<'_>,
    paths: &Paths,
    detail: Detail,
) -> Result<Vec<FileDiff>, Failure> {
    let mut changes = Vec::new();
    let parent = shown.commit.parents.first().copied();
    if let Some(parent) = parent
        && let Err(RepoError::Absent(AbsentError::Object { .. })) = repo.read_commit(&parent)
    {
        let text = "note: changes not shown: the parent commit is absent from this repository";
        context.ui.note(text);
        return Ok(changes);
    }
    let with_text = detail == Detail::Full;
    let comparer = Comparer::new(context, repo, with_text, Some(shown.commit))?;
    let mut table = StatTable::default();
    let mut show = |path: &RepoPath, renamed: Option<&Rename>, old: Side<'_>, new: Side<'_>| {
        let diff = comparer.compare(path, renamed, old, new)?;
        match (context.globals.json, detail) {
            (true, _) => changes.push(diff),
            (false, Detail::Stat) => table.add(context, &diff)?,
            (false, Detail::Full) => diff.print(context)?,
        }
        Ok(())
    };
    let states = States {
        old: parent,
        new: Some(*shown.id),
    };
    each_change(context, repo, states, paths, with_text, &mut show)?;
    table.print(context)?;
    Ok(changes)
}

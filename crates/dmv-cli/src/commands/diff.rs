//! `dmv diff`

use crate::compare::named::print_name;
use crate::compare::side::Side;
use crate::compare::stat::StatTable;
use crate::compare::{Comparer, UNREADABLE};
use crate::context::CommandUse;
use crate::prelude::*;
use crate::print::changes::{Needs, Renames, States, bring, each_change};
use crate::revisions;
use crate::revisions::RevisionsAndPaths;
use dmv_core::repo::{Rename, StatusOptions, WorktreeChange, WorktreeDiff, WorktreeSide};
use dmv_core::worktree::select::Paths;

/// Show changes between commits, or of the worktree
///
/// Shows text files as a unified diff. For other files, shows the changed byte ranges, and how many
/// bytes are shared and new.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv diff\n  dmv diff v1.0 @ --stat\n  dmv diff --name-status v1.0 @\n  dmv diff @~2 media/scene4"
)]
pub struct Args {
    /// The old commit (default: @) and the new one (default: the worktree), or A..B; then paths
    #[arg(value_name = "A B|PATH", add = candidates::revision_or_path())]
    words: Vec<OsString>,
    /// Show one line per file
    #[arg(long)]
    stat: bool,
    /// Show only the paths that differ
    #[arg(long, conflicts_with = "stat")]
    name_only: bool,
    /// Show the paths that differ, with the letters of Git: A added, M modified, D deleted, R renamed
    /// (with the share that is the same, and both paths), T another type, U conflict
    #[arg(long, conflicts_with_all = ["stat", "name_only"])]
    name_status: bool,
    /// Exit with 1 if there are differences
    #[arg(long)]
    exit_code: bool,
    /// Compare only these files and directories
    #[arg(last = true, value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
}

impl Args {
    /// How the command uses the terminal.
    pub fn command_use(&self) -> CommandUse {
        CommandUse::of_look(self.exit_code)
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let words: Vec<&OsString> = args.words.iter().collect();
    let RevisionsAndPaths { revisions, paths } =
        revisions::sort(context, &repo, &words, 2, &args.paths)?;
    let (old, new) = sides(context, &repo, &revisions)?;
    let paths = Paths::new(match new {
        Some(_) => context.paths(&repo, &paths)?,
        None => context.paths_to_look_at(&repo, &paths, old)?,
    });
    let made = new.map(|id| repo.read_commit(&id)).transpose()?;
    let names = args.name_only || args.name_status;
    let with_text = !args.stat && !names;
    let comparer = Comparer::new(context, &repo, with_text, made.as_ref())?;
    let (mut table, mut differs, mut is_complete) = (StatTable::default(), false, true);
    let mut unread = Vec::new();
    let mut show = |path: &RepoPath, renamed: Option<&Rename>, old: Side<'_>, new: Side<'_>| {
        differs = true;
        if names {
            return print_name(context, path, renamed, [old, new], args.name_status);
        }
        let diff = match comparer.compare(path, renamed, old, new) {
            // The others can be compared.
            Err(failure) if failure.code == UNREADABLE => {
                is_complete = false;
                context.ui.warn(failure);
                return Ok(());
            }
            diff => diff?,
        };
        match (context.ui.is_json(), args.stat) {
            (true, _) => context.ui.json(&diff.to_json()),
            (false, true) => table.add(context, &diff),
            (false, false) => diff.print(context),
        }
    };
    if let Some(new) = new {
        let states = States {
            old,
            new: Some(new),
        };
        each_change(context, &repo, states, &paths, with_text, &mut show)?;
    } else {
        let options = StatusOptions {
            select: &paths,
            settings: context.settings()?,
        };
        let watch = context.watch("scanning");
        let WorktreeDiff { changes, problems } =
            repo.diff_worktree(old, &paths, &options, &context.job)?;
        unread = problems;
        let renames = Renames::new(context, repo.renames_among(&changes, &context.job)?);
        drop(watch);
        bring_changes(context, &repo, &changes, with_text)?;
        for change in &changes {
            let path = &change.path;
            if change.new.is_none() && renames.is_source(path) {
                continue;
            }
            let renamed = renames.to(path).filter(|_| change.old.is_none());
            let old = Side::of_entry(change.old.as_ref());
            let new = Side::of_worktree(change.new.as_ref());
            show(&change.path, renamed, old, new)?;
        }
    }
    table.print(context)?;
    context.ui.warn_of("cannot read ", &unread);
    Ok(match (is_complete && unread.is_empty(), differs) {
        (false, _) => EXIT_INCOMPLETE,
        (true, true) if args.exit_code => EXIT_DIFFERS,
        _ => EXIT_OK,
    })
}

/// The commits to compare; without a new one it is the worktree.
fn sides(
    context: &Context,
    repo: &Repo,
    revisions: &[String],
) -> Result<(Option<ObjectId>, Option<ObjectId>), Failure> {
    let revision = |text: &String| context.revision(repo, "diff", text);
    Ok(match revisions {
        // Not what the branch is at: that may have been moved from elsewhere.
        [] => (repo.base_commit()?, None),
        [old, new, ..] => (Some(revision(old)?), Some(revision(new)?)),
        [old] => match context.range(repo, "diff", old)? {
            Some((old, new)) => (Some(old), Some(new)),
            None => (Some(revision(old)?), None),
        },
    })
}

/// Brings what is needed to compare changes of the worktree and is not here.
fn bring_changes(
    context: &Context,
    repo: &Repo,
    changes: &[WorktreeChange],
    with_text: bool,
) -> Result<(), Failure> {
    if !repo.is_partial() {
        return Ok(());
    }
    bring(context, repo, || {
        let everything = Paths::default();
        let mut needs = Needs::new(repo, &everything, with_text);
        for WorktreeChange { path, old, new } in changes {
            let new = match new {
                Some(WorktreeSide::Entry(entry)) => Some(entry),
                _ => None,
            };
            needs.add(path, [old.as_ref(), new])?;
        }
        needs.answer()
    })
}

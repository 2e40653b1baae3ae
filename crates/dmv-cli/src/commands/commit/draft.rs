//! The message of a commit, written in an editor above a summary of what will be committed.

use super::Args;
use crate::editor;
use crate::editor::EditedText;
use crate::prelude::*;
use crate::print::folded_directories;
use crate::print::folded_directories::FoldExtent;
use crate::print::worktree_state::look;
use dmv_core::repo::{LookError, StatusReport, WorktreeError};
use dmv_core::worktree::select::Paths;

/// Changes that the summary names one by one.
const MAX_NAMED: usize = 200;

/// Lets the user write the message; `None`: there is nothing to commit.
pub fn write(
    context: &Context,
    repo: &Repo,
    args: &Args,
    select: &Paths,
) -> Result<Option<EditedText>, Failure> {
    let (report, renames) = look(context, repo, select)?;
    if let Some(cut) = report.unfinished {
        // The commit would refuse, and the message would have been written for nothing.
        let command = cut.command;
        return Err(RepoError::Worktree(WorktreeError::Unfinished { command }).into());
    }
    let is_new =
        !report.changes.is_empty() || !report.settled.is_empty() || !report.untracking.is_empty();
    if !is_new && report.moved.is_none() && !args.amend && !args.allow_empty {
        return Ok(None);
    }
    let before = match report.commit {
        Some(id) if args.amend => repo.read_commit(&id)?.message,
        None if args.amend => return Err(RepoError::Look(LookError::NoCommit).into()),
        _ => String::new(),
    };
    let changes = (&report.changes[..], &renames);
    let lines = folded_directories::lines(repo, changes, select, FoldExtent::Whole, &|_| false)?;
    let mut lines: Vec<String> = lines
        .iter()
        .map(|line| line.told(&renames))
        .map(|told| format!("{:<9} {}", told.word, told.text))
        .collect();
    for line in folded_directories::untracked(repo, &report.untracking, select)? {
        lines.push(format!("untracked {}", line.path()));
    }
    let notes = notes(args, &report, &lines);
    editor::write(context, &before, &notes).map(Some)
}

/// Says where a message is that could not be used.
pub fn keep(context: &Context, written: EditedText) {
    match written.keep() {
        Ok(path) => {
            let way = editor::way_to_use(&path);
            let note = format_args!("your message is kept; to use it: {way}");
            context.ui.note(note);
        }
        Err(failure) => context.ui.warn(failure),
    }
}

/// The summary.
fn notes(args: &Args, report: &StatusReport, lines: &[String]) -> Vec<String> {
    let on = match &report.head {
        Head::Branch(name) => format!("On branch {}", clean(name)),
        Head::Commit(id) => format!("On no branch, at {}", id.short(SHORT_ID)),
    };
    let mut notes = vec![on];
    if args.amend
        && let Some(id) = report.commit
    {
        notes.push(format!("This replaces commit {}.", id.short(SHORT_ID)));
    }
    if let Some(author) = &args.author {
        notes.push(format!(
            "Author: {} <{}>",
            clean(&author.name),
            clean(&author.email)
        ));
    }
    if lines.is_empty() {
        notes.push("No changes.".to_owned());
        return notes;
    }
    notes.push(String::new());
    notes.push("To be committed:".to_owned());
    let shown = lines.iter().take(MAX_NAMED);
    notes.extend(shown.map(|line| format!("  {line}")));
    if lines.len() > MAX_NAMED {
        notes.push(format!("  and {} more", lines.len() - MAX_NAMED));
    }
    notes
}

//! `dmv undo`

#[cfg(feature = "store")]
pub mod at;

use crate::commands::checkout::tell_and_hint;
use crate::context::Context;
use crate::deleted::DeletedFiles;
use crate::failure::{EXIT_ABSENT, EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::json::{MovedValue, ProblemValue, problems};
use crate::format::text::{SHORT_ID, bytes, clean, count};
use crate::keeping::OverwrittenValue;
use crate::supply::supplied;
#[cfg(feature = "store")]
use dmv_bucket::ops::Which;
use dmv_core::escape::Argument;
use dmv_core::hash::{ObjectId, encode_hex};
use dmv_core::hint;
use dmv_core::object::name::escape;
use dmv_core::refs::Change;
use dmv_core::repo::{EntryMove, Head, UndoOptions, UndoReport, UndoWhat};
use serde::Serialize;
use std::io::Write;

/// Reverse the last command that changed branches, tags or files
///
/// Without OP, reverses the last operation in this worktree. Each further undo goes one operation back,
/// and 'dmv redo' goes forward again.
///
/// Files that a command has overwritten come back, uncommitted changes included. The changes of an undone
/// commit stay in the worktree, uncommitted. If an undo would overwrite uncommitted changes, dmv refuses
/// and changes nothing.
///
/// --at REMOTE reverses a push to a bucket, yours or another's: the bucket's branches and tags point again
/// to where they did before. If one of them has changed since, dmv refuses and changes nothing. Your own
/// branches stay as they are.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv undo\n  dmv op log -n 10\n  dmv undo 3f5a0c1d\n  dmv undo --at studio\n\n\
                  You can undo an older operation as long as no later one changed the same \
                  things. The undo of an undo repeats the operation."
)]
pub struct Args {
    /// The operation to reverse: an id from 'dmv op log'
    #[arg(value_name = "OP")]
    operation: Option<String>,
    /// Reverse an operation in the bucket of this remote instead
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", add = crate::candidates::remote())]
    at: Option<String>,
}

#[derive(Serialize)]
struct Document {
    id: String,
    undone: String,
    /// Operations that were left as they are: they changed only what is known of remotes.
    passed_over: Vec<String>,
    command: String,
    branch: Option<String>,
    commit: Option<String>,
    refs: Vec<RefValue>,
    uncommitted: bool,
    files: u64,
    bytes: u64,
    removed: u64,
    /// Files and directories that were moved.
    moved: Vec<MovedValue>,
    problems: Vec<ProblemValue>,
    /// What the operation had overwritten and does not come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    overwritten: Option<OverwrittenValue>,
}

/// A branch or tag that moved.
#[derive(Serialize)]
struct RefValue {
    name: String,
    from: Option<String>,
    to: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        let id = args.operation.clone();
        return at::take_back(context, id.map_or(Which::Last, Which::Id), remote);
    }
    take_back(
        context,
        match &args.operation {
            Some(id) => UndoWhat::Operation(id.clone()),
            None => UndoWhat::Last,
        },
    )
}

/// Takes an operation back, and tells what came of it.
pub fn take_back(context: &Context, what: UndoWhat) -> Result<u8, Failure> {
    let is_redo = what == UndoWhat::LastUndo;
    let repo = context.repo()?;
    // Whoever has just deleted files may mean them.
    let deleted = match what {
        UndoWhat::Last => DeletedFiles::find(context, &repo),
        _ => None,
    };
    let options = UndoOptions {
        what,
        settings: context.settings()?,
        request: context.request()?,
    };
    let doing = if is_redo { "redoing" } else { "undoing" };
    let report = match supplied(context, &repo, doing, || repo.undo(&options, &context.job)) {
        // What no remote in reach has is not written; the rest of the undo does not wait for it.
        Err(failure) if failure.exit == EXIT_ABSENT => {
            repo.undo_without_absent(&options, &context.job)?
        }
        Err(failure) => {
            return Err(match &deleted {
                Some(deleted) => deleted.explain(failure),
                None => failure,
            });
        }
        Ok(report) => report,
    };
    if context.globals.json {
        context.ui.json(&document(&report))?;
    } else if !context.ui.quiet() {
        print(context, &report, repo.worktree_root().is_some(), is_redo)?;
    }
    if let Some(lost) = report.not_kept.filter(|_| report.again.is_none()) {
        let (files, size) = (count(lost.files, "file", "files"), bytes(lost.bytes));
        context.ui.warn(format_args!(
            "the uncommitted changes in {files} ({size}) that it had overwritten do not come back: \
             they were too large to keep"
        ));
    }
    if let Some(deleted) = deleted.filter(|_| !context.globals.json) {
        deleted.tell_after_undo(context);
    }
    let again = if is_redo {
        "dmv undo, then dmv redo again"
    } else {
        "dmv redo, then dmv undo again"
    };
    tell_and_hint(context, &report.refused, again);
    Ok(if report.refused.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn document(report: &UndoReport) -> Document {
    Document {
        id: encode_hex(&report.operation.id),
        undone: encode_hex(&report.undone.id),
        passed_over: report
            .passed_over
            .iter()
            .map(|op| encode_hex(&op.id))
            .collect(),
        command: report.undone.command.clone(),
        branch: report.head.branch().map(str::to_owned),
        commit: report.commit.map(|id| id.to_string()),
        refs: refs(&report.operation.changes),
        uncommitted: report.kept_files,
        files: report.files,
        bytes: report.bytes,
        removed: report.removed,
        moved: report.moved.iter().map(MovedValue::new).collect(),
        problems: problems(&report.refused),
        overwritten: report.not_kept.as_ref().and_then(OverwrittenValue::new),
    }
}

/// Branches, tags and the like among the changes.
fn refs(changes: &[Change]) -> Vec<RefValue> {
    let id = |value: &Option<Vec<u8>>| {
        let bytes = value.as_deref()?.try_into().ok()?;
        Some(ObjectId::from_bytes(bytes).to_string())
    };
    let names_commit = |change: &&Change| {
        let prefixes = ["branch/", "tag/", "remote/", "stash/"];
        prefixes.iter().any(|prefix| change.key.starts_with(prefix))
    };
    let refs = changes.iter().filter(names_commit);
    refs.map(|change| RefValue {
        name: change.key.clone(),
        from: id(&change.old),
        to: id(&change.new),
    })
    .collect()
}

fn print(
    context: &Context,
    report: &UndoReport,
    in_worktree: bool,
    is_redo: bool,
) -> Result<(), Failure> {
    let mut out = context.ui.out();
    if let Some(newest) = report.passed_over.first() {
        let more = match report.passed_over.len() as u64 - 1 {
            0 => String::new(),
            n => format!(" and {}", count(n, "more operation", "more operations")),
        };
        let (command, id) = (clean(&newest.command), &encode_hex(&newest.id)[..SHORT_ID]);
        let undo = hint!("dmv undo {}", Argument::value(id));
        writeln!(
            out,
            "skipped: {command}{more}, which changed only what is known of remotes ({undo})"
        )?;
    }
    match &report.again {
        Some(command) => writeln!(out, "redone: {}", clean(command))?,
        None => writeln!(out, "undone: {}", clean(&report.undone.command))?,
    }
    let short = |id: &Option<String>| match id {
        Some(id) => id[..SHORT_ID].to_owned(),
        None => "nothing".to_owned(),
    };
    for moved in refs(&report.operation.changes) {
        let (from, to) = (short(&moved.from), short(&moved.to));
        writeln!(out, "  {}: {from} -> {to}", clean(&moved.name))?;
    }
    if in_worktree {
        let at = report.commit.map(|id| id.short(SHORT_ID));
        let at = at.unwrap_or_else(|| "no commits yet".to_owned());
        match &report.head {
            Head::Branch(name) => writeln!(out, "on branch {}, {at}", clean(name))?,
            Head::Commit(_) => writeln!(out, "on commit {at}, on no branch")?,
        }
    }
    if report.kept_files {
        writeln!(
            out,
            "your files are unchanged; what differs from the commit is uncommitted"
        )?;
    }
    for EntryMove { from, to } in &report.moved {
        writeln!(out, "moved {} -> {}", escape(from), escape(to))?;
    }
    if report.files + report.removed > 0 {
        let files = count(report.files, "file", "files");
        let (size, removed) = (bytes(report.bytes), report.removed);
        writeln!(out, "{files} written ({size}), {removed} removed")?;
    }
    if is_redo {
        writeln!(out, "to reverse it: dmv undo")?
    } else {
        writeln!(out, "to reverse it: dmv redo")?
    }
    Ok(())
}

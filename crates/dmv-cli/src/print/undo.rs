//! What an undo or redo did.

use crate::deletions::DeletedFiles;
use crate::prelude::*;
use crate::print::checkout::tell_and_hint;
use crate::print::claims::{guard_files, own_paths};
use dmv_core::hash::encode_hex;
use dmv_core::refs::Change;
use dmv_core::repo::{EntryMove, UndoOptions, UndoReport, UndoWhat};

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
    let claimed = own_paths(&repo)?;
    let doing = if is_redo { "redoing" } else { "undoing" };
    let report = match supplied(context, &repo, doing, || repo.undo(&options, &context.job)) {
        // What no remote in reach has is not written; the rest of the undo does not wait for it. A worktree
        // that comes back needs all of it.
        Err(failure) if failure.exit == EXIT_ABSENT => {
            match repo.undo_without_absent(&options, &context.job) {
                Err(RepoError::Absent(_)) => return Err(failure),
                done => done?,
            }
        }
        Err(failure) => {
            return Err(match &deleted {
                Some(deleted) => deleted.explain(failure),
                None => failure,
            });
        }
        Ok(report) => report,
    };
    let in_worktree = repo.worktree_root().is_some();
    context.ui.report(
        || document(&report),
        |out| print(context, out, &report, in_worktree, is_redo),
    )?;
    if let Some(lost) = report.not_kept.filter(|_| report.again.is_none()) {
        let (files, size) = (count(lost.files, "file", "files"), bytes(lost.bytes));
        context.ui.warn(format_args!(
            "the uncommitted changes in {files} ({size}) that it had overwritten do not come back: \
             they were too large to keep"
        ));
    }
    if let Some(deleted) = deleted.filter(|_| !context.ui.is_json()) {
        // If some of them are back, a command of dmv had removed them.
        let still = DeletedFiles::find(context, &repo);
        if still.is_some_and(|still| still.is_as_many(&deleted)) {
            deleted.tell_after_undo(context);
        }
    }
    let again = if is_redo {
        "dmv undo, then dmv redo again"
    } else {
        "dmv redo, then dmv undo again"
    };
    tell_and_hint(context, &report.refused, again);
    let changed: Vec<RepoPath> = own_paths(&repo)?
        .symmetric_difference(&claimed)
        .cloned()
        .collect();
    guard_files(context, &repo, &changed)?;
    Ok(exit_for(&report.refused))
}

fn document(report: &UndoReport) -> Json {
    let refs = refs(&report.operation.changes).into_iter();
    let refs = refs.map(|moved| object! { moved.{name, from, to} });
    object! {
        id: encode_hex(&report.operation.id),
        undone: encode_hex(&report.undone.id),
        passed_over: texts(report.passed_over.iter().map(|op| encode_hex(&op.id))),
        command: report.undone.command,
        branch: report.head.branch(),
        report.{commit},
        refs: Json::List(refs.collect()),
        uncommitted: report.kept_files,
        report.{files, bytes, removed, moved},
        problems: report.refused,
        overwritten?: report.not_kept.as_ref().and_then(overwritten_value),
    }
}

/// A branch or tag that moved.
struct RefMove {
    name: String,
    from: Option<ObjectId>,
    to: Option<ObjectId>,
}

/// Branches, tags and the like among the changes.
fn refs(changes: &[Change]) -> Vec<RefMove> {
    let id = |value: &Option<Vec<u8>>| {
        let bytes = value.as_deref()?.try_into().ok()?;
        Some(ObjectId::from_bytes(bytes))
    };
    let names_commit = |change: &&Change| {
        let prefixes = ["branch/", "tag/", "remote/", "stash/"];
        prefixes.iter().any(|prefix| change.key.starts_with(prefix))
    };
    let refs = changes.iter().filter(names_commit);
    refs.map(|change| RefMove {
        name: change.key.clone(),
        from: id(&change.old),
        to: id(&change.new),
    })
    .collect()
}

/// Prints what an undo or redo did as text.
fn print(
    context: &Context,
    out: &mut impl Write,
    report: &UndoReport,
    in_worktree: bool,
    is_redo: bool,
) -> Result<(), Failure> {
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
    let short = |id: Option<ObjectId>| id.map_or("nothing".to_owned(), |id| id.short(SHORT_ID));
    for moved in refs(&report.operation.changes) {
        let (from, to) = (short(moved.from), short(moved.to));
        writeln!(out, "  {}: {from} -> {to}", clean(&moved.name))?;
    }
    if in_worktree {
        writeln!(out, "{}", on(&context.ui, &report.head, report.commit))?;
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

//! `dmv undo --at REMOTE` and `dmv redo --at REMOTE`: a bucket has no server, so a client undoes operations there.

use crate::context::Context;
use crate::cost::{print_cost, print_with_cost};
use crate::failure::{EXIT_OK, EXIT_OTHER, EXIT_REFUSED, Failure};
use crate::format::json::{Json, object};
use crate::format::text::{clean, time};
use crate::on_demand::remote_failure;
use crate::peers::{Call, remote};
use crate::print::bucket_space::ref_line;
use dmv_bucket::ops::{AtBucketError, NotUndone, UndoAtOptions, UndoAtReport, Which, undo_at};
use dmv_core::escape::Argument;
use dmv_core::hash::encode_hex;
use dmv_core::hint;
use std::io::Write;

/// Takes an operation back at a remote, and tells what came of it.
pub fn undo_at_bucket(context: &Context, which: Which, at: &str) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let remote = remote(context, Some(at))?;
    let options = UndoAtOptions {
        remote: remote.clone(),
        which,
        request: context.request()?,
    };
    let call = Call::new(context);
    let done = undo_at(&repo, &options, &call, &context.job);
    drop(call);
    let name = Argument::value(&remote.name);
    let report = done.map_err(|e| match e {
        AtBucketError::Refused(why) => refused(&why, &name),
        AtBucketError::Failed(e) => remote_failure(context, &remote, e),
    })?;
    if context.ui.is_json() {
        print_with_cost(context, document(&report))?;
    }
    context
        .ui
        .text(|out| print(context, out, &report, &options.which, &name))?;
    Ok(EXIT_OK)
}

/// The failure where nothing was undone at the remote of this name.
fn refused(why: &NotUndone, name: &Argument) -> Failure {
    let (code, exit) = match why {
        NotUndone::Nothing => ("nothing-to-undo", EXIT_OTHER),
        NotUndone::NothingToRedo => ("nothing-to-redo", EXIT_OTHER),
        NotUndone::NoOperation { .. } => ("no-operation", EXIT_OTHER),
        NotUndone::ChangedSince { .. } => ("changed-since", EXIT_REFUSED),
        NotUndone::Already(_) | NotUndone::NoRefs(_) => ("not-undone", EXIT_REFUSED),
        NotUndone::Forgotten(_) | NotUndone::Expired { .. } => ("expired", EXIT_REFUSED),
    };
    let hint = match why {
        NotUndone::ChangedSince {
            by: Some((id, ..)), ..
        } => {
            hint!(
                "dmv undo --at {} {}, to undo that first",
                *name,
                Argument::value(id)
            )
        }
        NotUndone::Expired { .. } => hint!(
            "dmv push {} --force, from a branch at that commit and a repository that has these files",
            *name
        ),
        NotUndone::NoRefs(_) => {
            "what gc, expire and purge have removed at a bucket does not come back by undo".into()
        }
        _ => hint!("dmv op log --at {}", *name),
    };
    Failure::new(code, exit, format!("{name}: {why}")).hint(hint)
}

fn document(report: &UndoAtReport) -> Json {
    let refs = report.moved.iter();
    let refs = refs.map(|moved| object! { name: moved.key, from: moved.old, to: moved.new });
    object! {
        id: encode_hex(&report.id),
        undone: encode_hex(&report.undone.id),
        command: report.undone.command,
        who: report.undone.who,
        refs: Json::List(refs.collect()),
    }
}

fn print(
    context: &Context,
    out: &mut impl Write,
    report: &UndoAtReport,
    which: &Which,
    name: &Argument,
) -> Result<(), Failure> {
    let is_redo = *which == Which::LastUndo;
    let done = if is_redo { "redone" } else { "undone" };
    let undone = &report.undone;
    // What a redo brings back is what the undo had taken back.
    let told = report.original.as_ref().filter(|_| is_redo);
    let told = told.unwrap_or(undone);
    let when = time(told.time.seconds, told.time.tz_minutes);
    let (who, command) = (clean(&told.who), clean(&told.command));
    writeln!(out, "{done} at {name}: {command}  ({who}, {when})")?;
    for moved in &report.moved {
        writeln!(out, "  {}", ref_line(moved))?;
    }
    let back = if is_redo { "undo" } else { "redo" };
    writeln!(
        out,
        "{}",
        hint!("to reverse it: dmv {} --at {}", back, *name)
    )?;
    print_cost(context, out)?;
    context.ui.note(hint!(
        "your own branches are unchanged; to see the remote's: dmv fetch {}",
        *name
    ));
    Ok(())
}

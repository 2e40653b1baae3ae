//! `dmv op log --at REMOTE`: who has changed what at a bucket.

use super::LogArgs;
use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{SHORT_ID, clean, count, rfc3339, time};
use crate::peers::{Call, remote};
use crate::supply::remote_failure;
use crate::traffic::name;
use dmv_bucket::ops::{OperationAt, operations_at};
use dmv_core::hash::encode_hex;
use dmv_core::repo::RefChange;
use std::io::Write;
use std::ops::ControlFlow;

/// Runs the command for a remote.
pub(super) fn log(context: &Context, args: &LogArgs, at: &str) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let remote = remote(context, Some(at))?;
    let mut left = args.max_count.unwrap_or(usize::MAX);
    let mut printed = Ok(());
    let call = Call::new(context);
    let done = operations_at(&repo, &remote, &call, &context.job, &mut |operation| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        left -= 1;
        printed = print(context, &operation);
        if printed.is_err() || left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(call);
    printed?;
    done.map_err(|e| remote_failure(context, &remote, e))?;
    bucket::tell_cost(context);
    Ok(EXIT_OK)
}

fn print(context: &Context, at: &OperationAt<'_>) -> Result<(), Failure> {
    let operation = at.operation;
    let (id, when) = (encode_hex(&operation.id), operation.time);
    if context.globals.json {
        let id_of = |id: Option<dmv_core::hash::ObjectId>| id.map(|id| id.to_string());
        let refs = at.moved().into_iter().map(|moved| {
            serde_json::json!({ "name": moved.key, "from": id_of(moved.old), "to": id_of(moved.new) })
        });
        return context.ui.json(&serde_json::json!({
            "id": id,
            "time": rfc3339(when.seconds, when.nanos, when.tz_minutes),
            "command": operation.command,
            "undone": at.is_undone,
            "seq": operation.seq,
            "who": operation.who,
            "refs": refs.collect::<Vec<_>>(),
            "freed_files": at.freed,
        }));
    }
    let (who, command) = (clean(&operation.who), clean(&operation.command));
    let mark = if at.is_undone { "  (undone)" } else { "" };
    let when = time(when.seconds, when.tz_minutes);
    let mut out = context.ui.out();
    writeln!(out, "{}  {when}  {who}  {command}{mark}", &id[..12])?;
    for moved in at.moved() {
        writeln!(out, "    {}", line(&moved))?;
    }
    if at.freed > 0 {
        writeln!(out, "    freed {}", count(at.freed as u64, "file", "files"))?;
    }
    Ok(())
}

/// `main  3f5a0c1d -> 77aa01bc`.
pub fn line(moved: &RefChange) -> String {
    let short = |id: dmv_core::hash::ObjectId| id.short(SHORT_ID);
    let name = clean(name(moved)).to_string();
    match (moved.old.map(short), moved.new.map(short)) {
        (Some(old), Some(new)) => format!("{name}  {old} -> {new}"),
        (None, Some(new)) => format!("{name}  new, at {new}"),
        (Some(old), None) => format!("{name}  deleted, was at {old}"),
        (None, None) => name,
    }
}

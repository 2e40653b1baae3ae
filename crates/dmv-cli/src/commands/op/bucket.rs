//! `dmv op log --at REMOTE`: who has changed what at a bucket.

use super::LogArgs;
use crate::cost::tell_cost;
use crate::on_demand::remote_failure;
use crate::peers::{Call, remote};
use crate::prelude::*;
use crate::print::bucket_space::ref_line;
use dmv_bucket::ops::{OperationAt, operations_at};
use dmv_core::hash::encode_hex;
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
    tell_cost(context);
    Ok(EXIT_OK)
}

fn print(context: &Context, at: &OperationAt<'_>) -> Result<(), Failure> {
    let operation = at.operation;
    let id = encode_hex(&operation.id);
    let document = || {
        let refs = at.moved().into_iter();
        let refs = refs.map(|moved| object! { from: moved.old, name: moved.key, to: moved.new });
        object! {
            operation.{command},
            freed_files: at.freed,
            id: id,
            refs: Json::List(refs.collect()),
            operation.{seq, time},
            undone: at.is_undone,
            operation.{who},
        }
    };
    context.ui.show(document, |out| {
        let (who, command) = (clean(&operation.who), clean(&operation.command));
        let mark = if at.is_undone { "  (undone)" } else { "" };
        let when = time(operation.time.seconds, operation.time.tz_minutes);
        writeln!(out, "{}  {when}  {who}  {command}{mark}", &id[..12])?;
        for moved in at.moved() {
            writeln!(out, "    {}", ref_line(&moved))?;
        }
        if at.freed > 0 {
            writeln!(out, "    freed {}", count(at.freed as u64, "file", "files"))?;
        }
        Ok(())
    })
}

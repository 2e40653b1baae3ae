//! `dmv op`

#[cfg(feature = "store")]
mod bucket;

use crate::date::span;
use crate::lock_wait::begin_when_free;
use crate::prelude::*;
use dmv_core::hash::encode_hex;
use dmv_core::refs::Operation;
use std::ops::ControlFlow;

/// Show the operation log, or shorten what undo can reach
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv op log -n 10")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Log(LogArgs),
    Expire(ExpireArgs),
    Forget(ForgetArgs),
}

/// List operations, newest first
///
/// --at REMOTE lists the operations of a bucket: who has pushed what, and when.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv op log -n 10\n  dmv op log --at studio")]
struct LogArgs {
    /// List at most N operations
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    max_count: Option<usize>,
    /// List the operations in the bucket of this remote
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", add = crate::candidates::remote())]
    at: Option<String>,
}

/// Put old operations out of the reach of undo
///
/// What only these operations need, such as the commits of deleted branches, can then be freed. The
/// log still lists them. This cannot be undone.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv op expire --older 90d")]
struct ExpireArgs {
    /// Keep operations in reach that are not older than TIME, such as 90d or 36h
    #[arg(long, value_name = "TIME", value_parser = span)]
    older: std::time::Duration,
}

/// Give up what only undo of one operation needs, such as a large file committed by mistake
///
/// First undo the operation, or take its commits away in another way. Operations that need the same commits,
/// such as the undo itself, are forgotten as well; undo still reaches all others. The log still lists them.
/// This cannot be undone.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv op forget 3f5a0c1d\n  dmv gc --grace 0")]
struct ForgetArgs {
    /// The operation: an id from 'dmv op log'
    #[arg(value_name = "OP")]
    operation: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::Log(args) => log(context, args),
        Command::Expire(args) => expire(context, args),
        Command::Forget(args) => forget(context, args),
    }
}

fn expire(context: &Context, args: &ExpireArgs) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let request = context.request()?;
    let age = i64::try_from(args.older.as_secs()).unwrap_or(i64::MAX);
    // What is done in this second is as old as 0 seconds.
    let since = request.time.seconds.saturating_sub(age);
    let since = since.saturating_add(i64::from(age == 0));
    let reach = begin_when_free(context, || repo.expire_operations(since, request.clone()))?;
    let document = || {
        object! {
            reach.{expired, left, reaches_to},
            operation: reach.operation.as_ref().map(|op| encode_hex(&op.id)),
        }
    };
    context.ui.show(document, |out| {
        if reach.operation.is_none() {
            writeln!(out, "nothing to expire: no operation within reach is older")?;
        }
        let to = reach.reaches_to.map(|at| time(at.seconds, at.tz_minutes));
        let all = count(reach.expired + reach.left, "operation", "operations");
        writeln!(
            out,
            "undo reaches back to {} ({} of {all} can no longer be undone)",
            to.unwrap_or_default(),
            reach.expired
        )?;
        if reach.operation.is_some() {
            let text = "to free what only these operations need: dmv gc";
            context.ui.note(text);
        }
        Ok(())
    })?;
    Ok(EXIT_OK)
}

fn forget(context: &Context, args: &ForgetArgs) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let request = context.request()?;
    let report = begin_when_free(context, || {
        repo.forget_operation(&args.operation, request.clone())
    })?;
    let document = || {
        let ids = report.forgotten.iter().map(|op| encode_hex(&op.id));
        let operation = report.operation.as_ref().map(|op| encode_hex(&op.id));
        object! { forgotten: texts(ids), operation: operation }
    };
    context.ui.show(document, |out| {
        if report.operation.is_none() {
            return Ok(writeln!(
                out,
                "nothing to forget: branches, tags or worktrees need all commits of this operation, or undo cannot reach it any more"
            )?);
        }
        writeln!(out, "undo cannot reach these any more:")?;
        for op in &report.forgotten {
            writeln!(out, "  {}", line(op))?;
        }
        context
            .ui
            .note("to free what only these operations need: dmv gc --grace 0");
        Ok(())
    })?;
    Ok(EXIT_OK)
}

fn log(context: &Context, args: &LogArgs) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return bucket::log(context, args, remote);
    }
    let mut left = args.max_count.unwrap_or(usize::MAX);
    let repo = context.repo_as_it_is()?;
    let window = repo.undo_window()?;
    let mut failed = None;
    repo.each_operation(&mut |operation, undone| {
        if left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        if let Err(e) = print(context, &operation, undone, !window.has(operation.seq)) {
            failed = Some(e);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    failed.map_or(Ok(EXIT_OK), Err)
}

fn print(context: &Context, op: &Operation, undone: bool, expired: bool) -> Result<(), Failure> {
    let document = || {
        object! {
            id: encode_hex(&op.id),
            op.{time, command},
            undone: undone,
            expired: expired,
            op.{seq, who},
            worktree: op.worktree(),
        }
    };
    context.ui.show(document, |out| {
        let mark = match (undone, expired) {
            (true, true) => "  (undone; expired)",
            (true, false) => "  (undone)",
            (false, true) => "  (expired: cannot be undone)",
            (false, false) => "",
        };
        Ok(writeln!(out, "{}{mark}", line(op))?)
    })
}

fn line(op: &Operation) -> String {
    let when = time(op.time.seconds, op.time.tz_minutes);
    let id = encode_hex(&op.id);
    format!("{}  {when}  {}", &id[..12], clean(&op.command))
}

//! `dmv op`

use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{clean, rfc3339, time};
use dmv_core::hash::encode_hex;
use dmv_core::refs::Operation;
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;

/// Show the operation log: each command that changed the repository
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv op log -n 10")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Log(LogArgs),
}

/// List operations, newest first
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv op log -n 10")]
struct LogArgs {
    /// List at most N operations
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    max_count: Option<usize>,
}

#[derive(Serialize)]
struct Record<'a> {
    id: String,
    time: String,
    command: &'a str,
    undone: bool,
    seq: u64,
    who: &'a str,
    worktree: &'a str,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let Command::Log(args) = &args.command;
    let mut left = args.max_count.unwrap_or(usize::MAX);
    let repo = context.repo_as_it_is()?;
    let mut failed = None;
    repo.each_operation(&mut |operation, undone| {
        if left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        if let Err(e) = print(context, &operation, undone) {
            failed = Some(e);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    failed.map_or(Ok(EXIT_OK), Err)
}

fn print(context: &Context, op: &Operation, undone: bool) -> Result<(), Failure> {
    let at = op.time;
    let id = encode_hex(&op.id);
    if context.globals.json {
        return context.ui.json(&Record {
            id,
            time: rfc3339(at.seconds, at.nanos, at.tz_minutes),
            command: &op.command,
            undone,
            seq: op.seq,
            who: &op.who,
            worktree: op.worktree(),
        });
    }
    let mark = if undone { "  (undone)" } else { "" };
    let (when, command) = (time(at.seconds, at.tz_minutes), clean(&op.command));
    writeln!(context.ui.out(), "{}  {when}  {command}{mark}", &id[..12])?;
    Ok(())
}

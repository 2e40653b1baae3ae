//! `dmv op`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::format::text::{clean, rfc3339, time};
use dmv_core::hash::encode_hex;
use serde::Serialize;
use std::collections::HashSet;
use std::io::Write;

/// Show what was done to the repository
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
    /// At most so many
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
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let Command::Log(args) = &args.command;
    let limit = args.max_count.unwrap_or(usize::MAX);
    let repo = context.repo()?;
    let mut undone: HashSet<u64> = HashSet::new();
    for op in repo.refs().operations(limit)? {
        let is_undone = undone.contains(&op.seq);
        // What takes an undo back restores what that had taken back.
        if op.undoes != 0 && !is_undone {
            undone.insert(op.undoes);
        }
        let at = op.time;
        let id = encode_hex(&op.id);
        if context.globals.json {
            context.ui.json(&Record {
                id,
                time: rfc3339(at.seconds, at.nanos, at.tz_minutes),
                command: &op.command,
                undone: is_undone,
                seq: op.seq,
                who: &op.who,
            })?;
            continue;
        }
        let mark = if is_undone { "  (undone)" } else { "" };
        let (when, command) = (time(at.seconds, at.tz_minutes), clean(&op.command));
        writeln!(context.ui.out(), "{}  {when}  {command}{mark}", &id[..12])?;
    }
    Ok(EXIT_OK)
}

//! `dmv api`

use crate::api::message::notification;
use crate::api::session::{Session, VERSION};
use crate::commands::{Command, run_explained};
use crate::prelude::*;
use clap::CommandFactory;
use dmv_core::fsutil::widen_pipe;
use dmv_core::platform::{TakenStreams, take_streams};
use serde_json::json;
use std::io::{BufReader, stderr, stdin, stdout};

/// Answer the requests of another program, as lines of JSON
///
/// Reads JSON-RPC 2.0 requests from standard input, one on a line, and writes the answers to standard output. The
/// methods are the commands, and results look as with --json. docs/api.md explains it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv api < requests.jsonl\n  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}' | dmv api"
)]
pub struct Args {}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    // A command that reads or writes these itself must not disturb the messages.
    let TakenStreams { input, mut output } = take_streams(stdin(), stdout(), stderr())?;
    widen_pipe(&output);
    let repo = context.repo_as_it_is().ok();
    let hello = json!({
        "version": VERSION,
        "program": env!("CARGO_PKG_VERSION"),
        "capabilities": ["cancel", "progress", "raw"],
        "root": repo.as_ref().and_then(|repo| repo.worktree_root()).map(|root| root.to_string_lossy()),
    });
    output.write_all(&notification("hello", &hello))?;
    let session = Session::new(context.globals.clone(), run_command, output);
    session.serve(BufReader::new(input))?;
    Ok(EXIT_OK)
}

fn run_command(context: &Context, command: &Command) -> Result<u8, Failure> {
    let done = run_explained(context, command, crate::args::Cli::command);
    #[cfg(feature = "store")]
    crate::cost::tell_cost(context);
    done
}

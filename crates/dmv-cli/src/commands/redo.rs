//! `dmv redo`

use crate::commands::undo;
use crate::context::Context;
use crate::failure::Failure;
use dmv_core::repo::UndoWhat;

/// Repeat the operation that the last 'dmv undo' reversed
///
/// Each further redo goes one operation forward. After any other operation in this worktree, there is
/// nothing to redo. If a redo would overwrite uncommitted changes, dmv refuses and changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv undo\n  dmv undo\n  dmv redo")]
pub struct Args {}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    undo::take_back(context, UndoWhat::LastUndo)
}

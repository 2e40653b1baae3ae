//! `dmv redo`

use crate::commands::undo;
use crate::context::Context;
use crate::error::Failure;
use dmv_core::repo::UndoWhat;

/// Do again what the last undo took back
///
/// Each redo goes one undo forward. Anything else that is done in this worktree ends what can be
/// done again. Where files have to change, a change that is not committed is never lost.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv undo\n  dmv undo\n  dmv redo")]
pub struct Args {}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    undo::take_back(context, UndoWhat::LastUndo)
}

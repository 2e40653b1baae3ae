//! `dmv redo`

use crate::prelude::*;
use crate::print::undo::take_back;
#[cfg(feature = "store")]
use crate::print::undo_at_bucket::undo_at_bucket;
#[cfg(feature = "store")]
use dmv_bucket::ops::Which;
use dmv_core::repo::UndoWhat;

/// Repeat the operation that the last 'dmv undo' reversed
///
/// Each further redo goes one operation forward. After any other operation in this worktree, there is
/// nothing to redo. If a redo would overwrite uncommitted changes, dmv refuses and changes nothing.
///
/// --at REMOTE repeats what 'dmv undo --at' reversed at a bucket.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv undo\n  dmv undo\n  dmv redo")]
pub struct Args {
    /// Repeat the operation in the bucket of this remote instead
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", add = crate::candidates::remote())]
    at: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return undo_at_bucket(context, Which::LastUndo, remote);
    }
    #[cfg(not(feature = "store"))]
    let _ = args;
    take_back(context, UndoWhat::LastUndo)
}

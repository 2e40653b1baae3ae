//! `dmv undo`

use crate::prelude::*;
use crate::print::undo::take_back;
#[cfg(feature = "store")]
use crate::print::undo_at_bucket::undo_at_bucket;
#[cfg(feature = "store")]
use dmv_bucket::ops::Which;
use dmv_core::repo::UndoWhat;

/// Reverse the last command that changed branches, tags or files
///
/// Without OP, reverses the last operation in this worktree. Each further undo goes one operation back,
/// and 'dmv redo' goes forward again.
///
/// Files that a command has overwritten come back, uncommitted changes included. The changes of an undone
/// commit stay in the worktree, uncommitted. If an undo would overwrite uncommitted changes, dmv refuses
/// and changes nothing.
///
/// --at REMOTE reverses a push to a bucket, yours or another's: the bucket's branches and tags point again
/// to where they did before. If one of them has changed since, dmv refuses and changes nothing. Your own
/// branches stay as they are.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv undo\n  dmv op log -n 10\n  dmv undo 3f5a0c1d\n  dmv undo --at studio\n\n\
                  You can undo an older operation as long as no later one changed the same \
                  things. The undo of an undo repeats the operation."
)]
pub struct Args {
    /// The operation to reverse: an id from 'dmv op log'
    #[arg(value_name = "OP")]
    operation: Option<String>,
    /// Reverse an operation in the bucket of this remote instead
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", add = crate::candidates::remote())]
    at: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        let id = args.operation.clone();
        return undo_at_bucket(context, id.map_or(Which::Last, Which::Id), remote);
    }
    take_back(
        context,
        match &args.operation {
            Some(id) => UndoWhat::Operation(id.clone()),
            None => UndoWhat::Last,
        },
    )
}

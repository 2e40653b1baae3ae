//! One file for each command.

pub mod commit;
pub mod init;
pub mod log;
pub mod status;

use crate::args::Command;
use crate::context::Context;
use crate::error::Failure;

/// Runs a command and returns the exit code.
pub fn run(context: &Context, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Init(args) => init::run(context, args),
        Command::Status(args) => status::run(context, &args),
        Command::Commit(args) => commit::run(context, args),
        Command::Log(args) => log::run(context, &args),
    }
}

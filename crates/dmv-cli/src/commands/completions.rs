//! `dmv completions`

use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use clap_complete::Shell;
use std::io::Write;

/// Print the completion script for a shell
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv completions bash > ~/.local/share/bash-completion/\
                        completions/dmv"
)]
pub struct Args {
    /// The shell that you use
    shell: Shell,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args, mut program: clap::Command) -> Result<u8, Failure> {
    // The generator panics where it cannot write, which memory never does.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "dmv", &mut script);
    context.ui.out().write_all(&script)?;
    Ok(EXIT_OK)
}

//! `dmv man`, for packagers.

use crate::prelude::*;
use std::path::PathBuf;

/// Write the manual pages
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv man --to target/man")]
pub struct Args {
    /// Write all pages into the directory DIR; without this, print the main page
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let mut program = context.program();
    program.build();
    if let Some(dir) = &args.to {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file("create", dir, &e))?;
        clap_mangen::generate_to(program, dir).map_err(|e| Failure::file("write", dir, &e))?;
        return Ok(EXIT_OK);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(program).render(&mut page)?;
    context.ui.out().write_all(&page)?;
    Ok(EXIT_OK)
}

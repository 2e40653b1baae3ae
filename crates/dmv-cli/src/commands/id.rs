//! `dmv id`

use crate::device::device_key;
use crate::prelude::*;

/// Print the public key of this device, or the id of a repository
///
/// Other devices identify this device by its key. dmv creates the key at first use. The secret half stays
/// in a file that only you can read.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv id\n  ssh nas dmv -C /srv/film trust $(dmv id) --write")]
pub struct Args {
    /// Print the id of this repository, which settings can name; all its clones have other ones
    #[arg(long)]
    repository: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.repository {
        let id = context.repo_as_it_is()?.id().to_string();
        context.ui.show(
            || object! { repository: id },
            |out| Ok(writeln!(out, "{id}")?),
        )?;
        return Ok(EXIT_OK);
    }
    let key = device_key()?.public().to_string();
    context
        .ui
        .show(|| object! { key: key }, |out| Ok(writeln!(out, "{key}")?))?;
    Ok(EXIT_OK)
}

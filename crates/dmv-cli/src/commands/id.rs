//! `dmv id`

use crate::device::device_key;
use crate::prelude::*;

/// Print the public key of this device
///
/// Other devices identify this device by its key. dmv creates the key at first use. The secret half stays
/// in a file that only you can read.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv id\n  ssh nas dmv -C /srv/film trust $(dmv id) --write")]
pub struct Args {}

/// Runs the command.
pub fn run(context: &Context, _args: &Args) -> Result<u8, Failure> {
    let key = device_key()?.public().to_string();
    context
        .ui
        .show(|| object! { key: key }, |out| Ok(writeln!(out, "{key}")?))?;
    Ok(EXIT_OK)
}

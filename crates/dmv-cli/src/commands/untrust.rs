//! `dmv untrust`

use crate::devices::{PeerValue, called, find_peer};
use crate::prelude::*;

/// Remove the access of a device to this repository
///
/// dmv closes an open connection of the device within seconds. The device keeps what it has fetched.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv untrust laptop\n  dmv untrust 8f4c02d7")]
pub struct Args {
    /// The name of the device, or its key (8 digits or more)
    #[arg(value_name = "KEY")]
    key: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let peer = find_peer(context, &repo, &args.key)?;
    repo.untrust(&peer.key, context.request()?)?;
    context.ui.show(
        || PeerValue::new(&peer, None).to_json(),
        |out| {
            Ok(writeln!(
                out,
                "{} may no longer use this repository",
                called(&peer)
            )?)
        },
    )?;
    Ok(EXIT_OK)
}

//! `dmv untrust`

use super::trust::{PeerValue, called};
use crate::context::Context;
use crate::failure::{EXIT_OK, EXIT_OTHER, Failure};
use dmv_core::repo::{Peer, Repo};
use std::io::Write;

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

/// The fewest digits that stand for a key.
const MIN_DIGITS: usize = 8;

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let peer = find(&repo, &args.key)?;
    repo.untrust(&peer.key, context.request()?)?;
    if context.globals.json {
        context.ui.json(&PeerValue::new(&peer, None))?;
    } else {
        writeln!(
            context.ui.out(),
            "{} may no longer use this repository",
            called(&peer)
        )?;
    }
    Ok(EXIT_OK)
}

fn find(repo: &Repo, text: &str) -> Result<Peer, Failure> {
    let digits = text.to_ascii_lowercase();
    let fits = |peer: &Peer| {
        let by_key = digits.len() >= MIN_DIGITS && peer.key.to_string().starts_with(&digits);
        by_key || !text.is_empty() && peer.name == text
    };
    let mut found: Vec<Peer> = repo.peers()?.into_iter().filter(fits).collect();
    match (found.pop(), found.is_empty()) {
        (Some(peer), true) => Ok(peer),
        (Some(_), false) => {
            let message = format!("'{text}' matches more than one trusted device");
            Err(Failure::new("ambiguous-peer", EXIT_OTHER, message).hint("dmv peers"))
        }
        (None, _) => {
            let message = format!("no trusted device is called '{text}'");
            Err(Failure::new("no-peer", EXIT_OTHER, message).hint("dmv peers"))
        }
    }
}

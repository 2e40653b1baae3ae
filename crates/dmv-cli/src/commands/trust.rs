//! `dmv trust`

use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::clean;
use dmv_core::repo::{Access, Peer, PeerKey};
use serde::Serialize;
use std::io::Write;

/// Give a device access to this repository
///
/// 'dmv id', run on the other device, prints its key. To change the name or the access, run 'dmv trust'
/// again with the same key.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv trust 8f4c…e1 --name laptop\n  dmv trust 8f4c…e1 --write\n\n\
                  'dmv pair' exchanges the keys of two devices with a short code."
)]
pub struct Args {
    /// The key of the device: 64 hex digits, or a dmv:// address
    #[arg(value_name = "KEY", value_parser = parse_key)]
    key: PeerKey,
    /// Let the device push, too
    #[arg(long)]
    write: bool,
    /// The name for the device
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// A peer, as commands tell it.
#[derive(Serialize)]
pub struct PeerValue {
    /// Its key.
    pub key: String,
    /// What the user calls it, or it calls itself.
    pub name: String,
    /// Where it is, if that is known.
    pub address: Option<String>,
    /// `read`, `write`, or nothing.
    pub access: Option<&'static str>,
}

impl PeerValue {
    /// A peer on the allow-list.
    pub fn new(peer: &Peer, address: Option<String>) -> PeerValue {
        PeerValue {
            key: peer.key.to_string(),
            name: peer.name.clone(),
            address,
            access: Some(peer.access.word()),
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let known = repo.peer(&args.key)?;
    let name = args.name.clone().or(known.map(|peer| peer.name));
    let peer = Peer {
        key: args.key,
        name: name.unwrap_or_default(),
        access: if args.write {
            Access::Write
        } else {
            Access::Read
        },
    };
    let changed = repo.trust(&peer, context.request()?)?;
    if context.globals.json {
        context.ui.json(&PeerValue::new(&peer, None))?;
    } else if changed {
        let may = match peer.access {
            Access::Read => "may read this repository",
            Access::Write => "may read and write this repository",
        };
        writeln!(context.ui.out(), "{} {may}", called(&peer))?;
    } else {
        context
            .ui
            .note("nothing to change: the device already has this access");
    }
    Ok(EXIT_OK)
}

/// A peer for people: its name and the beginning of its key.
pub fn called(peer: &Peer) -> String {
    let short = peer.key.short();
    match peer.name.as_str() {
        "" => short,
        name => format!("{} ({short})", clean(name)),
    }
}

/// A key, alone or in an address `dmv://KEY@HOST:PORT`.
fn parse_key(text: &str) -> Result<PeerKey, String> {
    let rest = text.strip_prefix("dmv://").unwrap_or(text);
    let key = rest.split('@').next().unwrap_or_default();
    key.parse()
        .map_err(|e: dmv_core::repo::NotAKey| e.to_string())
}

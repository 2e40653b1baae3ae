//! `dmv trust`

use crate::devices;
use crate::devices::{PeerValue, called};
use crate::prelude::*;
use dmv_core::repo::{Access, Peer, PeerKey};

/// Give a device access to this repository
///
/// 'dmv id', run on the other device, prints its key. To change the name or the access, run 'dmv trust'
/// again with the same key. The name is yours alone, and stands for the key wherever an address is.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv trust 8f4c…e1 --name laptop\n  dmv trust 8f4c…e1 --write\n\n\
                  'dmv pair' exchanges the keys of two devices with a short code."
)]
pub struct Args {
    /// The key of the device: 64 hex digits, a dmv:// address, or the name of a device that you know
    #[arg(value_name = "KEY")]
    key: String,
    /// Let the device push, too
    #[arg(long)]
    write: bool,
    /// Your name for the device, also in addresses such as dmv://NAME
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let key = key_of(context, &args.key)?;
    let book = devices::book(context)?;
    if let Some(name) = &args.name {
        devices::check_free(&book, name, &key)?;
    }
    let known = repo.peer(&key)?.map(|peer| peer.name);
    let yours = devices::name_of(&book, &key).map(str::to_owned);
    let name = args.name.clone().or(yours).or(known);
    let peer = Peer {
        key,
        name: name.unwrap_or_default(),
        access: if args.write {
            Access::Write
        } else {
            Access::Read
        },
    };
    let changed = repo.trust(&peer, context.request()?)?;
    if let Some(name) = &args.name {
        devices::record(name, &key)?;
    }
    context.ui.show(
        || PeerValue::new(&peer, None).to_json(),
        |out| {
            if !changed {
                context
                    .ui
                    .note("nothing to change: the device already has this access");
                return Ok(());
            }
            let may = match peer.access {
                Access::Read => "may read this repository",
                Access::Write => "may read and write this repository",
            };
            Ok(writeln!(out, "{} {may}", called(&peer))?)
        },
    )?;
    Ok(EXIT_OK)
}

/// The key of a device, which stands alone or in an address `dmv://KEY@HOST:PORT`.
fn key_of(context: &Context, text: &str) -> Result<PeerKey, Failure> {
    let rest = text.strip_prefix("dmv://").unwrap_or(text);
    let device = rest.split(['@', '/']).next().unwrap_or_default();
    devices::find(context, device).map_err(|e| match e.code {
        "no-peer" => {
            let text = clean(text);
            let message =
                format!("'{text}' is neither a key of 64 hex digits nor a device that you know");
            Failure::usage(message).hint("dmv id, run on the other device")
        }
        _ => e,
    })
}

//! `dmv peers`

use crate::devices;
use crate::devices::PeerValue;
use crate::prelude::*;
use dmv_core::repo::Peer;
#[cfg(feature = "quic")]
use dmv_net::transport::quic::blocking;

/// List the devices that have access to this repository
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv peers\n  dmv peers --lan\n\n\
                        'dmv trust' and 'dmv pair' give access, 'dmv untrust' removes it.")]
pub struct Args {
    /// Also list the devices that serve a repository on the local network
    #[cfg(feature = "quic")]
    #[arg(long)]
    lan: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let looks_around = looks_around(args);
    // On the local network one can look from anywhere.
    let trusted = match context.repo_as_it_is() {
        Ok(repo) => repo.peers()?,
        Err(e) if e.exit == EXIT_NO_REPOSITORY && looks_around => Vec::new(),
        Err(e) => return Err(e),
    };
    // Where it is by what remotes say.
    let remotes = context.config()?.remotes();
    let address = |peer: &Peer| {
        let key = peer.key.to_string();
        let found = remotes.iter().find(|(_, url)| url.contains(&key));
        found.map(|(_, url)| url.clone())
    };
    let value = |peer: &Peer| PeerValue::new(peer, address(peer));
    let mut list: Vec<PeerValue> = trusted.iter().map(value).collect();
    let book = devices::book(context)?;
    #[cfg(feature = "quic")]
    if looks_around {
        list = with_those_around(context, list)?;
    }
    for peer in &mut list {
        let yours = peer.key.parse().ok();
        let yours = yours.and_then(|key| devices::name_of(&book, &key));
        let is_claimed = peer.access.is_none() && yours.is_none() && !peer.name.is_empty();
        match yours {
            Some(name) => peer.name = name.to_owned(),
            None if is_claimed => peer.claims = std::mem::take(&mut peer.name),
            None => {}
        }
    }
    for peer in &list {
        context.ui.show(
            || peer.to_json(),
            |out| {
                let access = peer.access.unwrap_or("-");
                let address = peer.address.as_deref().unwrap_or_default();
                let name = match &peer.claims[..] {
                    "" => clean(&peer.name),
                    claims => format!("(calls itself {})", clean(claims)),
                };
                let line = format!("{}  {access:<5}  {name:<12}  {address}", peer.key);
                Ok(writeln!(out, "{}", line.trim_end())?)
            },
        )?;
    }
    if list.is_empty() {
        context.ui.note(if looks_around {
            "no device was found on the local network"
        } else {
            "no other device has access to this repository"
        });
    }
    Ok(EXIT_OK)
}

#[cfg(feature = "quic")]
fn looks_around(args: &Args) -> bool {
    args.lan
}

#[cfg(not(feature = "quic"))]
fn looks_around(_args: &Args) -> bool {
    false
}

/// Adds addresses of peers that announce themselves, and peers that are not known.
#[cfg(feature = "quic")]
fn with_those_around(
    context: &Context,
    mut list: Vec<PeerValue>,
) -> Result<Vec<PeerValue>, Failure> {
    let _watch = context.watch("searching the local network");
    for found in blocking::look_around(&context.job)? {
        let key = found.key.to_string();
        let address = found
            .addresses
            .first()
            .map(|at| format!("dmv://{key}@{at}"));
        match list.iter_mut().find(|peer| peer.key == key) {
            Some(peer) => peer.address = address,
            None => list.push(PeerValue {
                key,
                name: found.label,
                claims: String::new(),
                address,
                access: None,
            }),
        }
    }
    Ok(list)
}

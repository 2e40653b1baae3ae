//! `dmv release`

use crate::claim_request::tell_holders;
use crate::prelude::*;
use crate::print::claims::guard_files;
use crate::print::claims_told::print_untold;
use dmv_core::claims::DEVICE_BYTES;
use dmv_core::hash::encode_hex;
use dmv_core::repo::{ClaimInfo, EndOptions};
use std::collections::BTreeSet;

/// End claims that you have made in this repository, or those of a device that is gone
///
/// The remotes that hold them are told at once if they can be reached, or else by the next fetch, push, pull
/// or sync.
///
/// With --of, dmv ends claims of another device, or of your clones that you have deleted. If somebody still
/// uses them, they hear of it at the next connection and can claim again.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv release scenes/rock.psd\n  dmv release --all\n  \
                  dmv release --of 8f4c02d7a1b2 --all -m 'this laptop was stolen'"
)]
pub struct Args {
    /// The claimed files and directories, or directories above them
    #[arg(value_name = "PATH", required_unless_present = "all", add = candidates::path())]
    paths: Vec<OsString>,
    /// Release all of your claims in this repository, or with --of all of that device
    #[arg(long, conflicts_with = "paths")]
    all: bool,
    /// End claims of this device: the first digits of its key, as 'dmv claims' shows them
    #[arg(long, value_name = "DEVICE")]
    of: Option<String>,
    /// With --of: why, in one line of at most 200 bytes; they are told
    #[arg(
        short,
        long,
        value_name = "WHY",
        requires = "of",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let paths = context.paths(&repo, &args.paths)?;
    let table = repo.claims()?;
    let digits = args.of.as_deref();
    let device = digits.map(|digits| device_of(table.claims(), digits));
    let device = device.transpose()?;
    let is_meant = |info: &&ClaimInfo| match device {
        Some(device) => info.writer.device == device && !info.is_here,
        None => info.is_here,
    };
    let meant = table.claims().iter().filter(is_meant);
    let held_at: BTreeSet<&String> = meant.flat_map(|info| &info.held_at).collect();
    let request = context.request()?;
    let (released, word) = match device {
        Some(device) => {
            let options = EndOptions {
                device,
                paths,
                reason: args.message.clone(),
                request,
            };
            (repo.end_claims(&options)?, "ended")
        }
        None => (repo.release(&paths, &request)?, "released"),
    };
    for at in &released {
        context.ui.show(
            || object! { ..path(at), state: word },
            |out| Ok(writeln!(out, "{word}: {}", escape(at))?),
        )?;
    }
    guard_files(context, &repo, &released)?;
    if released.is_empty() {
        context.ui.note(match device {
            Some(_) => "that device has no claims elsewhere",
            None => "you have no claims in this repository",
        });
    } else {
        print_untold(context, &tell_holders(context, &repo, &held_at)?);
    }
    Ok(EXIT_OK)
}

/// Finds the device whose key begins with these digits, among those that have claimed something.
fn device_of(claims: &[ClaimInfo], digits: &str) -> Result<[u8; DEVICE_BYTES], Failure> {
    let devices: BTreeSet<[u8; DEVICE_BYTES]> =
        claims.iter().map(|info| info.writer.device).collect();
    let mut meant = devices.into_iter().filter(|device| {
        let key = encode_hex(device);
        !digits.is_empty() && key.starts_with(&digits.to_ascii_lowercase())
    });
    let failure = |message| Err(Failure::new("no-device", EXIT_OTHER, message).hint("dmv claims"));
    match (meant.next(), meant.next()) {
        (Some(device), None) => Ok(device),
        (Some(_), Some(_)) => failure(format!("several devices begin with '{}'", clean(digits))),
        (None, _) => failure(format!(
            "no device '{}' has claimed anything",
            clean(digits)
        )),
    }
}

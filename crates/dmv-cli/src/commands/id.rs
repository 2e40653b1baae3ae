//! `dmv id`

use crate::config;
use crate::context::Context;
use crate::error::{EXIT_OK, EXIT_OTHER, Failure};
use dmv_net::identity::DeviceKey;
use std::io::Write;

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
    if context.globals.json {
        context.ui.json(&serde_json::json!({ "key": key }))?;
    } else {
        writeln!(context.ui.out(), "{key}")?;
    }
    Ok(EXIT_OK)
}

/// This device's key; made where there is none.
pub fn device_key() -> Result<DeviceKey, Failure> {
    let dir = config::user_dir().ok_or_else(|| {
        let message = "cannot store the device key: neither HOME nor XDG_CONFIG_HOME is set";
        Failure::new("no-home", EXIT_OTHER, message).hint("export XDG_CONFIG_HOME=DIR")
    })?;
    Ok(DeviceKey::load_or_create(&dir.join("device-key"))?)
}

//! The key of this device, in the user's settings directory.

use crate::config;
use crate::failure::{EXIT_OTHER, Failure};
use dmv_net::identity::DeviceKey;

/// This device's key; made where there is none.
pub fn device_key() -> Result<DeviceKey, Failure> {
    let dir = config::user_dir().ok_or_else(|| {
        let message = "cannot store the device key: neither HOME nor XDG_CONFIG_HOME is set";
        Failure::new("no-home", EXIT_OTHER, message).hint("export XDG_CONFIG_HOME=DIR")
    })?;
    Ok(DeviceKey::load_or_create(&dir.join("device-key"))?)
}

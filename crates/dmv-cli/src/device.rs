//! The key of this device, in the user's settings directory.

use crate::config;
use crate::failure::Failure;
use dmv_net::identity::DeviceKey;

/// The name of the key's file.
const FILE: &str = "device-key";

/// This device's key; made where there is none.
pub fn device_key() -> Result<DeviceKey, Failure> {
    let dir = config::user_dir();
    let dir = dir.ok_or_else(|| config::no_home("cannot store the device key"))?;
    Ok(DeviceKey::load_or_create(&dir.join(FILE))?)
}

/// This device's key, if it has been made.
pub fn known_device_key() -> Result<Option<DeviceKey>, Failure> {
    match config::user_dir() {
        Some(dir) => Ok(DeviceKey::load(&dir.join(FILE))?),
        None => Ok(None),
    }
}

//! How the user's commits and claims are signed: with the key of this device, or commits with an ssh key.

use crate::config::Config;
use crate::failure::Failure;
use crate::ssh_keys;
#[cfg(feature = "quic")]
use dmv_core::claims::{ClaimSignature, DEVICE_BYTES};
#[cfg(feature = "quic")]
use dmv_core::repo::Claimant;
use dmv_core::repo::{CommitSigner, Repo};
#[cfg(feature = "quic")]
use dmv_net::identity::DeviceKey;

/// Signs the commits that a command makes, if the settings want that.
pub fn follow_settings(repo: &Repo, config: &Config) -> Result<(), Failure> {
    if config.is_set("sign.commits")? {
        repo.sign_commits_by(signer(config)?);
    }
    Ok(())
}

/// What signs commits: the key that the settings name, or else that of this device. The key is read for the
/// first commit, so a command that makes none needs no key.
pub fn signer(config: &Config) -> Result<CommitSigner, Failure> {
    let by_ssh = ssh_keys::signer(config)?;
    Ok(by_ssh.unwrap_or_else(by_device))
}

#[cfg(feature = "quic")]
fn by_device() -> CommitSigner {
    let key = std::sync::OnceLock::new();
    Box::new(move |statement| {
        let read = || crate::device::device_key().map_err(|failure| failure.message);
        let key = key.get_or_init(read).as_ref().map_err(String::clone)?;
        Ok(key.sign_commit(statement))
    })
}

/// The user as who claims paths, with the key of this device. The key is read when it is needed.
#[cfg(feature = "quic")]
pub struct DeviceClaimant {
    name: String,
    key: std::sync::OnceLock<DeviceKey>,
}

#[cfg(feature = "quic")]
impl DeviceClaimant {
    /// The user with this name.
    pub fn new(name: String) -> DeviceClaimant {
        let key = std::sync::OnceLock::new();
        DeviceClaimant { name, key }
    }

    fn key(&self) -> Result<&DeviceKey, String> {
        if self.key.get().is_none() {
            let key = crate::device::device_key().map_err(|failure| failure.message)?;
            // Another thread has read the same.
            let _ = self.key.set(key);
        }
        Ok(self.key.get().expect("it was set above"))
    }
}

#[cfg(feature = "quic")]
impl Claimant for DeviceClaimant {
    fn known_device(&self) -> Option<[u8; DEVICE_BYTES]> {
        if self.key.get().is_none() {
            let _ = self.key.set(crate::device::known_device_key().ok()??);
        }
        Some(*self.key.get()?.public().as_bytes())
    }

    fn device(&self) -> Result<[u8; DEVICE_BYTES], String> {
        Ok(*self.key()?.public().as_bytes())
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn sign(&self, statement: &[u8]) -> Result<ClaimSignature, String> {
        Ok(self.key()?.sign_claims(statement))
    }
}

/// A program that knows no peers has no device key.
#[cfg(not(feature = "quic"))]
fn by_device() -> CommitSigner {
    Box::new(|_| Err("this dmv was built without device keys (feature quic)".to_owned()))
}

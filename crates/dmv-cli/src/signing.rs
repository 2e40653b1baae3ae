//! How the user's commits are signed: with the key of this device, or an ssh key.

use crate::config::Config;
use crate::failure::Failure;
use crate::ssh_keys;
use dmv_core::repo::{CommitSigner, Repo};

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

/// A program that knows no peers has no device key.
#[cfg(not(feature = "quic"))]
fn by_device() -> CommitSigner {
    Box::new(|_| Err("this dmv was built without device keys (feature quic)".to_owned()))
}

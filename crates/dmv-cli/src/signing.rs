//! How the user's commits are signed: with the key of this device.

use crate::config::Config;
use crate::failure::Failure;
use dmv_core::repo::{CommitSigner, Repo};

/// Signs the commits that a command makes, if the settings want that.
pub fn follow_settings(repo: &Repo, config: &Config) -> Result<(), Failure> {
    if config.is_set("sign.commits")? {
        repo.sign_commits_by(signer());
    }
    Ok(())
}

/// What signs commits. The key is read for the first one, so a command that makes none needs no key.
#[cfg(feature = "quic")]
pub fn signer() -> CommitSigner {
    let key = std::sync::OnceLock::new();
    Box::new(move |statement| {
        let read = || crate::device::device_key().map_err(|failure| failure.message);
        let key = key.get_or_init(read).as_ref().map_err(String::clone)?;
        Ok(key.sign_commit(statement))
    })
}

/// A program that knows no peers has no device key.
#[cfg(not(feature = "quic"))]
pub fn signer() -> CommitSigner {
    Box::new(|_| Err("this dmv was built without device keys (feature quic)".to_owned()))
}

//! Whom the user knows as a signer of commits, and the words for what a check has found.

use crate::context::Context;
use crate::devices;
use crate::failure::Failure;
use crate::format::text::{SHORT_ID, clean};
use crate::ssh_keys;
use dmv_core::repo::{KnownSigners, PeerKey, SignatureCheck, SignatureState};

/// Whom the user knows: this device, those that the user has named, and allowed ssh keys.
pub fn known_signers(context: &Context) -> Result<KnownSigners, Failure> {
    let named = devices::book(context)?.into_iter();
    Ok(KnownSigners {
        own: own_key()?,
        devices: named.map(|device| (device.key, device.name)).collect(),
        ssh: Some(ssh_keys::checker(context.config()?)?),
    })
}

/// The public half of this device's key, if it has one.
#[cfg(feature = "quic")]
fn own_key() -> Result<Option<PeerKey>, Failure> {
    let key = crate::device::known_device_key()?;
    Ok(key.map(|key| key.public()))
}

#[cfg(not(feature = "quic"))]
fn own_key() -> Result<Option<PeerKey>, Failure> {
    Ok(None)
}

/// What was found out, in words: `good signature by laptop (8f4c02d7a1b2)`.
pub fn told(check: &SignatureCheck) -> String {
    let key = check.key.as_deref().unwrap_or_default();
    let key = match key.get(..SHORT_ID) {
        Some(short) if !key.contains(':') => short,
        _ => key,
    };
    let key = clean(key);
    let by = match &check.name {
        Some(name) => format!("{} ({key})", clean(name)),
        None => key,
    };
    match check.state {
        SignatureState::Good => format!("good signature by {by}"),
        SignatureState::Bad => "bad signature: it is not of this commit".to_owned(),
        SignatureState::None => "not signed".to_owned(),
        SignatureState::UnknownKey if check.name.is_some() => {
            format!("signed by {by}, who was no longer trusted")
        }
        SignatureState::UnknownKey if by.is_empty() => "signed by an unknown key".to_owned(),
        SignatureState::UnknownKey => format!("signed by an unknown key ({by})"),
    }
}

//! The allow-list: the keys that may use this repository from other devices.
//!
//! It is part of the view, so changing it is an operation like any other. A server asks this module
//! before it reads any data of a peer (docs/trust.md). This module knows no network.

use crate::hash::{ID_BYTES, decode_hex, encode_hex};
use crate::refs::Effect;
use crate::repo::base::error::RepoError;
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

/// The greatest length of a peer's name, in bytes.
pub const MAX_PEER_NAME_BYTES: usize = 64;

/// The public key of a device, which identifies a peer. Written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey([u8; ID_BYTES]);

impl PeerKey {
    /// Wraps the bytes of a public key.
    pub const fn from_bytes(bytes: [u8; ID_BYTES]) -> PeerKey {
        PeerKey(bytes)
    }

    /// Returns the key's bytes.
    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Returns the first twelve digits. They suffice to tell a few peers apart, but never to trust
    /// one.
    pub fn short(&self) -> String {
        encode_hex(&self.0[..6])
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(&self.0))
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// The error for text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hex digits")]
pub struct NotAKey;

impl FromStr for PeerKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<PeerKey, NotAKey> {
        let bytes = decode_hex(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(PeerKey).ok_or(NotAKey)
    }
}

/// The access of a peer. Write access includes read access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Fetch.
    Read,
    /// Fetch and push.
    Write,
}

impl Access {
    /// Returns the word for this access.
    pub fn word(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }
}

/// A peer on the allow-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's key.
    pub key: PeerKey,
    /// The user's name for the peer. May be empty.
    pub name: String,
    /// The peer's access.
    pub access: Access,
}

impl Repo {
    /// Returns the allow-list, sorted by key.
    pub fn peers(&self) -> Result<Vec<Peer>, RepoError> {
        let rows = self.refs.with_prefix(PREFIX)?;
        let peer = |(key, value): (String, Vec<u8>)| decode(&key, &value);
        Ok(rows.into_iter().filter_map(peer).collect())
    }

    /// Returns the allow-list entry of a key, or `None` if the key has no access.
    pub fn peer(&self, key: &PeerKey) -> Result<Option<Peer>, RepoError> {
        let name = view_key(key);
        let value = self.refs.get(&name)?;
        Ok(value.and_then(|value| decode(&name, &value)))
    }

    /// Adds `peer` to the allow-list, or changes its name or access. Returns whether this changed
    /// anything.
    pub fn trust(&self, peer: &Peer, request: OperationRequest) -> Result<bool, RepoError> {
        check_name(&peer.name)?;
        let change = change(&self.refs, view_key(&peer.key), Some(encode(peer)))?;
        if change.old == change.new {
            return Ok(false);
        }
        let tx = Transaction::begin(self, &request).with([change]);
        tx.publish(Effect::Kept)?;
        Ok(true)
    }

    /// Removes a peer from the allow-list and returns its entry, or `None` if it was not on the
    /// list.
    pub fn untrust(
        &self,
        key: &PeerKey,
        request: OperationRequest,
    ) -> Result<Option<Peer>, RepoError> {
        let Some(peer) = self.peer(key)? else {
            return Ok(None);
        };
        let change = change(&self.refs, view_key(key), None)?;
        let tx = Transaction::begin(self, &request).with([change]);
        tx.publish(Effect::Kept)?;
        Ok(Some(peer))
    }
}

/// Returns what a key had on the allow-list before it was last removed, and when that was, in seconds since
/// 1970; `None` if the operation log knows nothing of it. The key is not on the list now.
pub fn former_peer(repo: &Repo, key: &PeerKey) -> Result<Option<(Peer, i64)>, RepoError> {
    let (name, mut found) = (view_key(key), None);
    repo.each_operation(&mut |operation, _| {
        let change = operation.changes.iter().find(|change| change.key == name);
        Ok(match change {
            None => ControlFlow::Continue(()),
            Some(change) => {
                let peer = change.old.as_deref().and_then(|old| decode(&name, old));
                found = peer.map(|peer| (peer, operation.time.seconds));
                ControlFlow::Break(())
            }
        })
    })?;
    Ok(found)
}

const PREFIX: &str = "peer/";

fn view_key(key: &PeerKey) -> String {
    format!("{PREFIX}{key}")
}

/// Fails for names that are too long or could disturb a terminal.
fn check_name(name: &str) -> Result<(), RepoError> {
    let bad = if name.len() > MAX_PEER_NAME_BYTES {
        "is longer than 64 bytes"
    } else if name.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    let name = name.escape_debug();
    Err(RepoError::Text(format!(
        "the name '{name}' of a peer {bad}"
    )))
}

/// Returns the value in the view (docs/format/layout.md, "The view").
fn encode(peer: &Peer) -> Vec<u8> {
    format!("{} {}", peer.access.word(), peer.name).into_bytes()
}

/// Parses a value of the view. Returns `None` for a value that this program would not write. Such a
/// value gives no access.
fn decode(key: &str, value: &[u8]) -> Option<Peer> {
    let key = key.strip_prefix(PREFIX)?.parse().ok()?;
    let (word, name) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let access = [Access::Read, Access::Write]
        .into_iter()
        .find(|access| access.word() == word)?;
    check_name(name).ok()?;
    let name = name.to_owned();
    Some(Peer { key, name, access })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::refs::Timestamp;
    use crate::repo::Repo;
    use crate::repo::VerifyDepth;

    fn request(command: &str) -> OperationRequest {
        OperationRequest {
            time: Timestamp {
                seconds: 1_700_000_000,
                nanos: 0,
                tz_minutes: 0,
            },
            who: "t <t@example.org>".into(),
            command: command.into(),
        }
    }

    fn peer(byte: u8, name: &str, access: Access) -> Peer {
        Peer {
            key: PeerKey::from_bytes([byte; 32]),
            name: name.into(),
            access,
        }
    }

    #[test]
    fn a_key_is_read_back_from_its_text_alone() {
        let key = PeerKey::from_bytes([0xa5; 32]);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(key.to_string().to_uppercase().parse(), Ok(key));
        for bad in [
            "",
            "a5",
            &"a5".repeat(31),
            &"a5".repeat(33),
            &"g5".repeat(32),
        ] {
            assert_eq!(bad.parse::<PeerKey>(), Err(NotAKey), "{bad}");
        }
    }

    #[test]
    fn the_allow_list_says_what_was_said_last() -> Result<(), RepoError> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let repo = Repo::init(dir.path(), "main", false, request("init"))?;
        let (a, b) = (
            peer(1, "NAS under the desk", Access::Read),
            peer(2, "", Access::Write),
        );
        assert!(repo.peers()?.is_empty());
        assert!(repo.trust(&a, request("trust"))?);
        assert!(repo.trust(&b, request("trust"))?);
        assert!(!repo.trust(&b, request("trust"))?, "nothing to change");
        assert_eq!(repo.peers()?, [a.clone(), b.clone()]);

        let more = peer(1, "nas", Access::Write);
        assert!(repo.trust(&more, request("trust"))?);
        assert_eq!(repo.peer(&a.key)?, Some(more.clone()));
        assert_eq!(repo.untrust(&a.key, request("untrust"))?, Some(more));
        assert_eq!(repo.untrust(&a.key, request("untrust"))?, None);
        assert_eq!(repo.peer(&a.key)?, None);
        assert_eq!(repo.peers()?, [b]);
        Ok(())
    }

    #[test]
    fn names_that_disturb_a_terminal_are_refused() -> Result<(), RepoError> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let repo = Repo::init(dir.path(), "main", false, request("init"))?;
        for bad in ["\u{1b}[2J", "a\nb", &"x".repeat(65)] {
            let refused = repo.trust(&peer(1, bad, Access::Read), request("trust"));
            assert!(matches!(refused, Err(RepoError::Text(_))), "{bad:?}");
        }
        assert!(repo.trust(&peer(1, &"x".repeat(64), Access::Read), request("trust"))?);
        Ok(())
    }

    #[test]
    fn a_value_from_elsewhere_lets_nobody_in() {
        let key = view_key(&PeerKey::from_bytes([1; 32]));
        let good = peer(1, "a b", Access::Read);
        assert_eq!(decode(&key, b"read a b"), Some(good));
        for bad in [
            &b""[..],
            b"read",
            b"admin x",
            b"Write x",
            b" write x",
            b"write \xff",
            b"write \x1b",
        ] {
            assert_eq!(decode(&key, bad), None, "{bad:?}");
        }
        assert_eq!(decode("peer/abc", b"read x"), None);
    }

    /// An entry of the list can be as long as an id, but it names no commit.
    #[test]
    fn verify_looks_for_no_commit_behind_a_peer() -> Result<(), RepoError> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let repo = Repo::init(dir.path(), "main", false, request("init"))?;
        let peer = peer(1, &"x".repeat(27), Access::Read);
        assert_eq!(encode(&peer).len(), 32);
        repo.trust(&peer, request("trust"))?;
        let report = repo.verify(VerifyDepth::Full, &Job::default())?;
        assert!(report.missing.is_empty(), "{:?}", report.missing);
        Ok(())
    }

    /// The allow-list survives the loss of the database.
    #[test]
    fn the_allow_list_survives_the_loss_of_the_database() -> Result<(), RepoError> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let repo = Repo::init(dir.path(), "main", false, request("init"))?;
        let (a, b) = (peer(1, "a", Access::Write), peer(2, "b", Access::Read));
        repo.trust(&a, request("trust"))?;
        repo.trust(&b, request("trust"))?;
        repo.untrust(&a.key, request("untrust"))?;
        drop(repo);
        crate::repo::recover(
            &crate::repo::discover(dir.path())?,
            &crate::job::Job::default(),
        )?;
        assert_eq!(Repo::open(dir.path())?.peers()?, [b]);
        Ok(())
    }
}

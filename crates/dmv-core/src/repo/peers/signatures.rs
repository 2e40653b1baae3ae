//! Whether commits are signed, and by whom: docs/trust.md, "Signed commits".
//!
//! A key is known if the user knows the device, or if it is on the allow-list. This module runs no
//! program: its caller checks signatures by ssh keys.

use super::allow::{Peer, PeerKey, former_peer};
use crate::hash::ObjectId;
use crate::object::commit::Commit;
use crate::object::signature::Signature;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::look::ages::StoredTimes;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

/// What a signature is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureState {
    /// It is of this commit, by a known key.
    Good,
    /// It is of this commit, by a key that nobody here knows, or no longer.
    UnknownKey,
    /// There is none.
    None,
    /// It is not of this commit, or no signature at all.
    Bad,
}

impl SignatureState {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            SignatureState::Good => "good",
            SignatureState::UnknownKey => "unknown-key",
            SignatureState::None => "none",
            SignatureState::Bad => "bad",
        }
    }
}

/// What was found out about the signature of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureCheck {
    /// What it is worth.
    pub state: SignatureState,
    /// The key that it names: that of a device as 64 hex digits, or the fingerprint of an ssh key.
    pub key: Option<String>,
    /// The name of the signer. With [`SignatureState::UnknownKey`], it is one that has lost its access.
    pub name: Option<String>,
}

impl SignatureCheck {
    /// Returns the result for a signature of which nothing but its worth is known.
    pub fn nameless(state: SignatureState) -> SignatureCheck {
        let (key, name) = (None, None);
        SignatureCheck { state, key, name }
    }
}

/// A signature by an ssh key that is to be checked.
pub struct SshQuestion<'a> {
    /// What it should sign.
    pub statement: &'a [u8],
    /// The signature, without armour.
    pub signature: &'a [u8],
    /// The time of the commit, as its committer gave it, in seconds since 1970.
    pub seconds: i64,
}

/// Checks a signature by an ssh key, or says why it cannot.
pub type SshChecker = Box<dyn Fn(&SshQuestion<'_>) -> Result<SignatureCheck, String> + Send + Sync>;

/// Whom the user knows, besides the devices on allow-lists.
#[derive(Default)]
pub struct KnownSigners {
    /// The key of this device, if it has one.
    pub own: Option<PeerKey>,
    /// The user's names of devices.
    pub devices: Vec<(PeerKey, String)>,
    /// How signatures by ssh keys are checked. Without it, their keys are unknown.
    pub ssh: Option<SshChecker>,
}

impl KnownSigners {
    fn name_of(&self, key: &PeerKey) -> Option<String> {
        let found = self.devices.iter().find(|(known, _)| known == key);
        found.map(|(_, name)| name.clone())
    }
}

/// The name of one's own key, if the user has not given it another.
const OWN: &str = "this device";

/// A key that is no longer on the allow-list.
#[derive(Clone)]
struct FormerSigner {
    name: String,
    /// When it was removed, in seconds since 1970.
    until: i64,
}

/// Checks signatures of commits against a known_signers and the allow-list of a repository.
pub struct SignatureChecker<'r> {
    repo: &'r Repo,
    known_signers: &'r KnownSigners,
    listed: HashMap<PeerKey, Peer>,
    former: RefCell<HashMap<PeerKey, Option<FormerSigner>>>,
    stored: OnceCell<StoredTimes>,
}

impl Repo {
    /// Returns what checks the signatures of commits. It knows the allow-list as it is now.
    pub fn signature_checker<'r>(
        &'r self,
        known_signers: &'r KnownSigners,
    ) -> Result<SignatureChecker<'r>, RepoError> {
        let listed = self.peers()?.into_iter().map(|peer| (peer.key, peer));
        Ok(SignatureChecker {
            repo: self,
            known_signers,
            listed: listed.collect(),
            former: RefCell::default(),
            stored: OnceCell::new(),
        })
    }
}

impl Repo {
    /// Returns whether a commit was signed, and the commit that was made from it is not signed by the same
    /// key. A commit that stayed as it is keeps its signature.
    pub fn loses_signature(&self, from: &ObjectId, to: &ObjectId) -> Result<bool, RepoError> {
        let signature = |id: &ObjectId| Ok::<_, RepoError>(self.read_commit(id)?.signature);
        let (Some(before), false) = (signature(from)?, from == to) else {
            return Ok(false);
        };
        let signer = |bytes: &[u8]| Some(Signature::decode(bytes)?.key().to_vec());
        let after = signature(to)?;
        let after = after.as_deref().and_then(signer);
        Ok(after.is_none() || after != signer(&before))
    }
}

impl SignatureChecker<'_> {
    /// Checks the signature of a commit. A signature that is wrong in any way is a result, not an error.
    pub fn check(&self, id: &ObjectId, commit: &Commit) -> Result<SignatureCheck, RepoError> {
        let Some(bytes) = &commit.signature else {
            return Ok(SignatureCheck::nameless(SignatureState::None));
        };
        let Some(signature) = Signature::decode(bytes) else {
            return Ok(SignatureCheck::nameless(SignatureState::Bad));
        };
        let statement = commit.statement();
        let statement = statement.map_err(|e| RepoError::Text(e.to_string()))?;
        match &signature {
            Signature::Ssh(blob) => self.check_ssh(&SshQuestion {
                statement: &statement,
                signature: blob,
                seconds: commit.committer.seconds,
            }),
            Signature::Device { key, .. } => {
                let key = PeerKey::from_bytes(*key);
                let (state, name) = if signature.is_by_device(&statement) {
                    self.judge(&key, id)?
                } else {
                    (SignatureState::Bad, None)
                };
                let key = Some(key.to_string());
                Ok(SignatureCheck { state, key, name })
            }
        }
    }

    fn check_ssh(&self, question: &SshQuestion<'_>) -> Result<SignatureCheck, RepoError> {
        match &self.known_signers.ssh {
            Some(check) => check(question).map_err(RepoError::Unchecked),
            None => Ok(SignatureCheck::nameless(SignatureState::UnknownKey)),
        }
    }

    /// Says whether a key is known, and as what, that has signed the commit `id`.
    fn judge(
        &self,
        key: &PeerKey,
        id: &ObjectId,
    ) -> Result<(SignatureState, Option<String>), RepoError> {
        let given = self.known_signers.name_of(key);
        if self.known_signers.own == Some(*key) {
            return Ok((SignatureState::Good, Some(given.unwrap_or(OWN.to_owned()))));
        }
        if let Some(peer) = self.listed.get(key) {
            let name = Some(peer.name.clone()).filter(|name| !name.is_empty());
            return Ok((SignatureState::Good, given.or(name)));
        }
        let Some(former) = self.former(key)? else {
            let state = match given {
                Some(_) => SignatureState::Good,
                None => SignatureState::UnknownKey,
            };
            return Ok((state, given));
        };
        let is_older = self.stored_at(id)?.is_some_and(|at| at < former.until);
        let state = if is_older {
            SignatureState::Good
        } else {
            SignatureState::UnknownKey
        };
        let name = Some(former.name).filter(|name| !name.is_empty());
        Ok((state, given.or(name)))
    }

    fn former(&self, key: &PeerKey) -> Result<Option<FormerSigner>, RepoError> {
        if let Some(known) = self.former.borrow().get(key) {
            return Ok(known.clone());
        }
        let found = former_peer(self.repo, key)?.map(|(peer, until)| FormerSigner {
            name: peer.name,
            until,
        });
        self.former.borrow_mut().insert(*key, found.clone());
        Ok(found)
    }

    fn stored_at(&self, id: &ObjectId) -> Result<Option<i64>, RepoError> {
        let times = match self.stored.get() {
            Some(times) => times,
            None => {
                let read = StoredTimes::read(self.repo)?;
                self.stored.get_or_init(|| read)
            }
        };
        times.of(self.repo, id)
    }
}

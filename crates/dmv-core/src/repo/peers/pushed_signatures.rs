//! Whether the commits of a push are signed, where a repository or bucket takes only such commits.

use super::signatures::{KnownSigners, SignatureCheck, SignatureState};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::reach::{Detail, Reach};
use crate::refs::Effect;
use crate::repo::base::error::{RepoError, UntrustedCommit};
use crate::repo::base::keys::PUSH_SIGNED;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use std::collections::BTreeMap;

const REQUIRED: &[u8] = b"true";

impl Repo {
    /// Returns whether this repository takes only commits that devices on its allow-list have signed.
    pub fn requires_signatures(&self) -> Result<bool, RepoError> {
        Ok(self.refs.get(PUSH_SIGNED)?.as_deref() == Some(REQUIRED))
    }

    /// Sets whether this repository takes only commits that devices on its allow-list have signed.
    pub fn require_signatures(
        &self,
        required: bool,
        request: &OperationRequest,
    ) -> Result<(), RepoError> {
        let mut tx = Transaction::begin(self, request);
        let value = required.then(|| REQUIRED.to_vec());
        tx.set(PUSH_SIGNED.to_owned(), value)?;
        tx.publish_changes(Effect::Kept)
    }

    /// Fails if a push brings a commit without a good signature. `new` are its commits with their refs, `there` the commits of the
    /// branches and tags of the other side: what these have is not looked at.
    pub fn check_pushed_signatures(
        &self,
        new: BTreeMap<ObjectId, String>,
        there: Vec<ObjectId>,
        known_signers: &KnownSigners,
    ) -> Result<(), RepoError> {
        let mut reach = Reach::new(new.keys().copied(), there, Detail::Commits);
        let checker = self.signature_checker(known_signers)?;
        while let Some(found) = reach.next(self.objects())? {
            if found.ty != ObjectType::Commit || !found.here {
                continue;
            }
            let commit = self.read_commit(&found.id)?;
            let check = checker.check(&found.id, &commit)?;
            if check.state != SignatureState::Good {
                let tag = new.get(&found.id).and_then(|key| key.strip_prefix("tag/"));
                return Err(untrusted(found.id, tag, check).into());
            }
        }
        Ok(())
    }
}

fn untrusted(id: ObjectId, tag: Option<&str>, check: SignatureCheck) -> UntrustedCommit {
    let why = match (check.state, check.key) {
        (SignatureState::UnknownKey, Some(key)) => {
            format!("is signed by a key that is not known there ({key})")
        }
        (SignatureState::UnknownKey, None) => "is signed by an unknown key".to_owned(),
        (SignatureState::Bad, _) => "has a bad signature".to_owned(),
        (SignatureState::None | SignatureState::Good, _) => "is not signed".to_owned(),
    };
    UntrustedCommit {
        id,
        tag: tag.map(str::to_owned),
        why,
    }
}

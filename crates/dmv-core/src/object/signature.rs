//! Signatures of commits: their bytes, what they sign, and the check of a device key's.
//!
//! docs/format/objects.md, "Signature". Who is trusted is not known here, and no key signs here.

use super::codec::EncodeError;
use super::commit::Commit;
use ed25519_dalek::VerifyingKey;

/// The domain of what a commit's signature signs, and the namespace of an ssh signature.
pub const DOMAIN: &str = "dmv-commit-1";

/// Bytes of a device's public key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a signature by a device key.
pub const DEVICE_SIGNATURE_BYTES: usize = 64;

const DEVICE: u8 = 1;
const SSH: u8 = 2;
/// How an ssh signature begins.
const SSH_MAGIC: &[u8] = b"SSHSIG";

/// The signature of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// By the key of a device.
    Device {
        /// The public half of the key.
        key: [u8; KEY_BYTES],
        /// The signature over the statement.
        bytes: [u8; DEVICE_SIGNATURE_BYTES],
    },
    /// By an ssh key: an SSH signature without armour. Only a program can check it.
    Ssh(Vec<u8>),
}

impl Signature {
    /// Returns the bytes that a commit has.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Signature::Device { key, bytes } => [&[DEVICE][..], key, bytes].concat(),
            Signature::Ssh(blob) => [&[SSH][..], blob].concat(),
        }
    }

    /// Reads the signature of a commit; `None` for bytes that are none of a known kind.
    pub fn decode(bytes: &[u8]) -> Option<Signature> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            DEVICE => {
                let (key, bytes) = rest.split_first_chunk()?;
                let (key, bytes) = (*key, bytes.try_into().ok()?);
                Some(Signature::Device { key, bytes })
            }
            SSH if rest.starts_with(SSH_MAGIC) => Some(Signature::Ssh(rest.to_vec())),
            _ => None,
        }
    }

    /// Returns whether the key of a device has signed this statement. Always false for an ssh key.
    pub fn is_by_device(&self, statement: &[u8]) -> bool {
        let Signature::Device { key, bytes } = self else {
            return false;
        };
        let signature = ed25519_dalek::Signature::from_bytes(bytes);
        VerifyingKey::from_bytes(key)
            .is_ok_and(|key| key.verify_strict(statement, &signature).is_ok())
    }

    /// Returns the public key that the signature names, in the encoding of its kind. Empty if an ssh
    /// signature is cut off before it.
    pub fn key(&self) -> &[u8] {
        match self {
            Signature::Device { key, .. } => key,
            Signature::Ssh(blob) => ssh_key(blob).unwrap_or_default(),
        }
    }
}

/// Returns the public key in an SSH signature: it follows the magic and a u32 version, with its length
/// before it, as a u32 whose highest byte comes first.
fn ssh_key(blob: &[u8]) -> Option<&[u8]> {
    let rest = blob.strip_prefix(SSH_MAGIC)?.get(4..)?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let len = len
        .iter()
        .fold(0, |len, byte| len << 8 | usize::from(*byte));
    rest.get(..len)
}

impl Commit {
    /// Returns what a signature of this commit signs. Fails if a rule or limit of the format is broken.
    pub fn statement(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = format!("{DOMAIN}\n").into_bytes();
        out.extend(self.signed_bytes()?);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::commit::Person;
    use ed25519_dalek::{Signer, SigningKey};

    fn commit(message: &str) -> Commit {
        let person = Person {
            name: "Ada".into(),
            email: String::new(),
            seconds: 0,
            nanos: 0,
            tz_minutes: 0,
        };
        Commit {
            tree: crate::object::tree::empty_tree_id(),
            tree_bytes: 0,
            tree_files: 0,
            parents: Vec::new(),
            generation: 1,
            author: person.clone(),
            committer: person,
            message: message.into(),
            extras: Vec::new(),
            signature: None,
        }
    }

    fn signed(message: &str) -> (Vec<u8>, Signature) {
        let key = SigningKey::from_bytes(&[7; 32]);
        let statement = commit(message).statement().expect("valid");
        let signature = Signature::Device {
            key: key.verifying_key().to_bytes(),
            bytes: key.sign(&statement).to_bytes(),
        };
        (statement, signature)
    }

    #[test]
    fn a_signature_is_good_for_its_own_commit_alone() {
        let (statement, signature) = signed("one");
        assert!(signature.is_by_device(&statement));
        assert_eq!(
            Signature::decode(&signature.encode()),
            Some(signature.clone())
        );
        let (other, _) = signed("two");
        assert!(!signature.is_by_device(&other));
        // Without its domain, the same commit is something else.
        assert!(!signature.is_by_device(&statement[DOMAIN.len() + 1..]));
    }

    #[test]
    fn every_changed_bit_of_a_signature_is_noticed() {
        let (statement, signature) = signed("one");
        let good = signature.encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let is_good = |bad: Signature| bad.is_by_device(&statement);
            assert!(!Signature::decode(&bad).is_some_and(is_good), "{bit}");
        }
    }

    #[test]
    fn what_is_cut_off_or_of_another_kind_is_no_signature() {
        let (_, signature) = signed("one");
        let good = signature.encode();
        for len in 0..good.len() {
            assert_eq!(Signature::decode(&good[..len]), None, "{len}");
        }
        let longer = [&good[..], &[0]].concat();
        let noise: [&[u8]; 6] = [&longer, &[0; 97], &[3; 97], &[255], &[SSH], b"\x02SSHSI"];
        for bytes in noise {
            assert_eq!(Signature::decode(bytes), None);
        }
    }

    #[test]
    fn keys_of_small_order_sign_nothing() {
        // The neutral point with a zero scalar is right for every message, unless the check is strict.
        let (mut key, mut bytes) = ([0; KEY_BYTES], [0; DEVICE_SIGNATURE_BYTES]);
        (key[0], bytes[0]) = (1, 1);
        assert!(!Signature::Device { key, bytes }.is_by_device(b"anything"));
    }

    #[test]
    fn the_key_of_an_ssh_signature_is_read_within_its_bounds() {
        let blob = b"SSHSIG\0\0\0\x01\0\0\0\x03keyrest";
        for len in 0..blob.len() {
            let key = if len >= 17 { &b"key"[..] } else { b"" };
            assert_eq!(Signature::Ssh(blob[..len].to_vec()).key(), key, "{len}");
        }
        let mut huge = blob.to_vec();
        huge[10..14].fill(0xff);
        assert_eq!(Signature::Ssh(huge).key(), b"");
    }
}

//! The ids of a repository, its packs and its merged indexes: 16 random bytes each, written as 32 hex
//! digits. They are types of their own, so that none can stand for another.

use crate::hash::{decode_hex, encode_hex};
use std::fmt;

/// Returns 16 random bytes.
pub fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    bytes
}

/// Returns a random number.
pub fn random_number() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    u64::from_le_bytes(bytes)
}

/// Returns this many random bytes.
pub fn random_block(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    bytes
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Returns a new random id.
            pub fn random() -> $name {
                $name(random_bytes())
            }

            /// Returns the id with these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> $name {
                $name(bytes)
            }

            /// Parses exactly 32 hex digits; `None` for anything else.
            pub fn from_hex(hex: &str) -> Option<$name> {
                Some($name(decode_hex(hex)?.try_into().ok()?))
            }

            /// Returns its bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&encode_hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

random_id! {
    /// The id of a pack, which names its file.
    PackId
}

/// The last bytes of the ids of packs that may have frames with bases.
const WITH_BASES: [u8; 4] = *b"DMVb";

impl PackId {
    /// Returns a new random id for a pack that may have frames with bases.
    pub(crate) fn random_with_bases() -> PackId {
        let mut bytes = random_bytes();
        bytes[12..].copy_from_slice(&WITH_BASES);
        PackId(bytes)
    }

    /// Returns whether the pack may have frames with bases (docs/format/pack.md, "Frames with
    /// bases").
    pub fn may_have_bases(&self) -> bool {
        self.0[12..] == WITH_BASES
    }
}

random_id! {
    /// The id of a merged index, which names its file.
    IndexId
}

random_id! {
    /// The id of a repository.
    RepositoryId
}

impl PackId {
    /// Returns the id of the repository whose log pack has this id.
    pub(super) const fn of_log(&self) -> RepositoryId {
        RepositoryId(self.0)
    }
}

impl RepositoryId {
    /// Returns the id of the repository's log pack, which has the same bytes.
    pub const fn log_pack(&self) -> PackId {
        PackId(self.0)
    }
}

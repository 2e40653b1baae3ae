//! Git's object ids: 20 bytes (SHA-1) or 32 bytes (SHA-256), and how Git computes them.
//!
//! The module knows no object's content.

use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fmt;

/// The hash function of a Git repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// 20 bytes. Git's default.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl Algorithm {
    /// Returns the length of an id in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }

    /// Returns the name that Git uses in its settings and output.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
        }
    }

    /// Returns the algorithm with a name that Git uses.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        let all = [Algorithm::Sha1, Algorithm::Sha256];
        all.into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn of_length(bytes: usize) -> Option<Algorithm> {
        let all = [Algorithm::Sha1, Algorithm::Sha256];
        all.into_iter().find(|algorithm| algorithm.bytes() == bytes)
    }
}

/// The id of a Git object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitId {
    algorithm: Algorithm,
    /// The id, followed by zeros if it is shorter.
    bytes: [u8; 32],
}

impl GitId {
    /// Returns the id with these bytes; `None` if there are neither 20 nor 32.
    pub fn new(id: &[u8]) -> Option<GitId> {
        let algorithm = Algorithm::of_length(id.len())?;
        let mut bytes = [0; 32];
        bytes[..id.len()].copy_from_slice(id);
        Some(GitId { algorithm, bytes })
    }

    /// Returns the id with these hexadecimal digits; `None` unless there are 40 or 64.
    pub fn from_hex(hex: &[u8]) -> Option<GitId> {
        if !matches!(hex.len(), 40 | 64) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        GitId::new(&bytes[..hex.len() / 2])
    }

    /// Returns the id's bytes: 20 or 32.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.bytes()]
    }

    /// Returns the algorithm that made the id.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl fmt::Display for GitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = String::with_capacity(64);
        for byte in self.as_bytes() {
            let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
            hex.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(&hex)
    }
}

impl fmt::Debug for GitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The type of a Git object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitType {
    /// The content of a file, or a symlink's target.
    Blob,
    /// A directory.
    Tree,
    /// A commit.
    Commit,
    /// An annotated tag.
    Tag,
}

impl GitType {
    /// Returns Git's word for the type.
    pub fn word(self) -> &'static str {
        match self {
            GitType::Blob => "blob",
            GitType::Tree => "tree",
            GitType::Commit => "commit",
            GitType::Tag => "tag",
        }
    }

    /// Returns the type with Git's word `word`.
    pub fn from_word(word: &[u8]) -> Option<GitType> {
        use GitType::{Blob, Commit, Tag, Tree};
        let all = [Blob, Tree, Commit, Tag];
        all.into_iter().find(|ty| ty.word().as_bytes() == word)
    }

    /// Returns the number of the type in a pack (Git's documentation, gitformat-pack).
    pub(crate) fn pack_number(self) -> u8 {
        match self {
            GitType::Commit => 1,
            GitType::Tree => 2,
            GitType::Blob => 3,
            GitType::Tag => 4,
        }
    }
}

/// A hash over bytes that arrive in parts.
#[derive(Clone)]
pub(crate) enum Hasher {
    Sha1(Box<Sha1>),
    Sha256(Box<Sha256>),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Hasher {
        match algorithm {
            Algorithm::Sha1 => Hasher::Sha1(Box::default()),
            Algorithm::Sha256 => Hasher::Sha256(Box::default()),
        }
    }

    /// Begins the id of an object of `size` bytes: Git hashes its type and size before the content.
    pub fn of_object(algorithm: Algorithm, ty: GitType, size: u64) -> Hasher {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(format!("{} {size}\0", ty.word()).as_bytes());
        hasher
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha1(hash) => hash.update(bytes),
            Hasher::Sha256(hash) => hash.update(bytes),
        }
    }

    pub fn finish(self) -> GitId {
        let id = match self {
            Hasher::Sha1(hash) => GitId::new(&hash.finalize()),
            Hasher::Sha256(hash) => GitId::new(&hash.finalize()),
        };
        id.expect("a hash has the length of an id")
    }
}

/// Returns the id that Git gives an object.
pub fn id_of(algorithm: Algorithm, ty: GitType, bytes: &[u8]) -> GitId {
    let mut hasher = Hasher::of_object(algorithm, ty, bytes.len() as u64);
    hasher.update(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        // git hash-object --stdin </dev/null, in repositories of both kinds.
        for (algorithm, empty) in [
            (Algorithm::Sha1, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (
                Algorithm::Sha256,
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ] {
            let id = id_of(algorithm, GitType::Blob, b"");
            assert_eq!(id.to_string(), empty);
            assert_eq!(GitId::from_hex(empty.as_bytes()), Some(id));
            assert_eq!(id.algorithm(), algorithm);
        }
        for wrong in ["", "e69d", "g69de29bb2d1d6434b8b29ae775ad8c2e48c5391"] {
            assert_eq!(GitId::from_hex(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

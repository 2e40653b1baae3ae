//! Pointers of Git LFS, and where their content is.
//!
//! Source: the specification of Git LFS, version 1, "The Pointer".

use dmv_core::hash::encode_hex;
use dmv_core::platform::open_named;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The most bytes of a pointer.
pub const MAX_POINTER_BYTES: usize = 1024;
const FIRST_LINE: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";

/// What stands in Git for a large file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
    /// Bytes of the content.
    pub size: u64,
}

impl Pointer {
    /// Reads a pointer; `None` if the bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Pointer> {
        if bytes.len() > MAX_POINTER_BYTES {
            return None;
        }
        let text = std::str::from_utf8(bytes.strip_prefix(FIRST_LINE)?).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let sha256 = value("oid sha256:")?;
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if sha256.len() != 64 || !sha256.bytes().all(is_hex) {
            return None;
        }
        let size = value("size ")?.parse().ok()?;
        Some(Pointer {
            sha256: sha256.to_owned(),
            size,
        })
    }

    /// Returns the text of the pointer, as Git LFS writes it.
    pub fn text(&self) -> Vec<u8> {
        let lines = format!("oid sha256:{}\nsize {}\n", self.sha256, self.size);
        [FIRST_LINE, lines.as_bytes()].concat()
    }
}

/// The content that a Git repository has for its pointers.
pub struct LfsObjects {
    dir: PathBuf,
}

impl LfsObjects {
    /// Returns the content in the directory of a Git repository (`.git`, or a bare repository).
    pub fn of(git_dir: &Path) -> LfsObjects {
        LfsObjects {
            dir: git_dir.join("lfs").join("objects"),
        }
    }

    /// Opens the content of a pointer; `None` if it is not there.
    pub fn open(&self, pointer: &Pointer) -> Option<File> {
        let name = &pointer.sha256;
        let path = self.dir.join(&name[..2]).join(&name[2..4]).join(name);
        open_named(&path).ok()
    }
}

/// Hashes content that arrives in pieces.
#[derive(Default)]
pub struct ContentHash(Sha256);

impl ContentHash {
    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the hash of all pieces, in hexadecimal digits.
    pub fn finish(self) -> String {
        encode_hex(&self.0.finalize())
    }

    /// Returns whether the pieces are the content of `pointer`.
    pub fn fits(self, pointer: &Pointer) -> bool {
        self.finish() == pointer.sha256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_known_by_its_lines() {
        let sha256 = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = |body: &str| format!("version https://git-lfs.github.com/spec/v1\n{body}");
        let usual = text(&format!("oid sha256:{sha256}\nsize 12345\n"));
        let pointer = Pointer::parse(usual.as_bytes()).expect("a pointer");
        assert_eq!((pointer.sha256.as_str(), pointer.size), (sha256, 12_345));
        assert_eq!(pointer.text(), usual.as_bytes());
        let extended = text(&format!(
            "ext-0-foo sha256:{sha256}\noid sha256:{sha256}\nsize 1\n"
        ));
        assert!(Pointer::parse(extended.as_bytes()).is_some());
        for wrong in [
            String::new(),
            text(""),
            text("oid sha256:../../../etc/passwd\nsize 1\n"),
            text(&format!("oid sha256:{}\nsize 1\n", sha256.to_uppercase())),
            text(&format!("oid sha256:{sha256}\nsize -1\n")),
            usual.replace("version", "# version"),
            format!("{usual}{}", " ".repeat(2000)),
        ] {
            assert_eq!(Pointer::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

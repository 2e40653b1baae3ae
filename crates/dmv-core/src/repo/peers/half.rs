//! An unfinished clone: the file `clone` (docs/format/clone.md).
//!
//! The file is durable before any other part of the new repository exists. While it exists and the
//! view names no commit, the clone is unfinished. Only the clone command can continue it.

use crate::hash::{check, encode_hex};
use crate::limits::MAX_SUBSET_BYTES;
use crate::path::{PathContext, PathError};
use crate::platform;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::layout::CLONE_FILE;
use crate::repo::base::repo::Repo;
use crate::subset::Subset;
use crate::vfs::{OsVfs, read_small, write_durably};
use std::io::ErrorKind;
use std::path::Path;

const FIRST_LINE: &str = "dmv-clone 1";

/// The greatest size of an address or branch name in the file, in bytes.
const MAX_TEXT_BYTES: usize = 8192;

/// The greatest accepted file size in bytes. Each pattern of a subset may be one byte long.
const MAX_BYTES: usize = 512 + 2 * MAX_TEXT_BYTES + 16 * MAX_SUBSET_BYTES;

/// The arguments of a clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HalfClone {
    /// The address of the source. Empty if the address cannot be stored in one line.
    pub source: String,
    /// The branch or tag to start on, if the user named one.
    pub branch: Option<String>,
    /// Whether to create no worktree.
    pub bare: bool,
    /// Whether to leave out content.
    pub metadata_only: bool,
    /// The number of commits to go back.
    pub depth: Option<u32>,
    /// The start of the wanted history, in seconds since 1970.
    pub since: Option<i64>,
    /// The wanted paths.
    pub subset: Subset,
}

impl HalfClone {
    /// Records durably that a clone into the repository's directory `dmv` begins. Creates that
    /// directory.
    pub fn begin(&self, dmv: &Path) -> Result<(), RepoError> {
        let path = dmv.join(CLONE_FILE);
        let made = std::fs::create_dir_all(dmv).context("create", &path);
        made.and_then(|()| write_durably(&OsVfs, &path, &self.encode()).context("write", &path))
            .map_err(RepoError::Io)
    }

    /// Returns the clone that has begun in the repository's directory `dmv` of this user; `None` if there
    /// is none.
    pub fn begun(dmv: &Path) -> Option<HalfClone> {
        // What another user has put there says nothing.
        if !platform::is_own(dmv).ok()? {
            return None;
        }
        let bytes = read_small(&OsVfs, &dmv.join(CLONE_FILE), MAX_BYTES).ok()?;
        HalfClone::decode(&bytes)
    }

    /// Returns the file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = format!("{FIRST_LINE}\n").into_bytes();
        let mut line = |word: &str, text: &[u8]| {
            out.extend([word.as_bytes(), b" ", text, b"\n"].concat());
        };
        if fits(&self.source) {
            line("source", self.source.as_bytes());
        }
        if let Some(branch) = self.branch.as_ref().filter(|branch| fits(branch)) {
            line("branch", branch.as_bytes());
        }
        if let Some(depth) = self.depth {
            line("depth", depth.to_string().as_bytes());
        }
        if let Some(since) = self.since {
            line("since", since.to_string().as_bytes());
        }
        for pattern in self.subset.patterns() {
            line("subset", pattern);
        }
        for (word, is_set) in [("bare", self.bare), ("metadata-only", self.metadata_only)] {
            if is_set {
                out.extend([word.as_bytes(), b"\n"].concat());
            }
        }
        let check = encode_hex(&check(&[&out]));
        out.extend_from_slice(format!("check {check}\n").as_bytes());
        out
    }

    /// Parses the file's bytes. Returns `None` if they are not what [`encode`](Self::encode)
    /// writes.
    pub fn decode(bytes: &[u8]) -> Option<HalfClone> {
        let mut lines = bytes.split(|b| *b == b'\n');
        if lines.next() != Some(FIRST_LINE.as_bytes()) {
            return None;
        }
        let (mut half, mut patterns) = (HalfClone::default(), Vec::new());
        for line in lines {
            let (word, rest) = match line.iter().position(|b| *b == b' ') {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (line, &[][..]),
            };
            let text = std::str::from_utf8(rest);
            match word {
                b"source" => half.source = text.ok()?.to_owned(),
                b"branch" => half.branch = Some(text.ok()?.to_owned()),
                b"depth" => half.depth = Some(text.ok()?.parse().ok()?),
                b"since" => half.since = Some(text.ok()?.parse().ok()?),
                b"subset" => patterns.push(rest),
                b"bare" => half.bare = true,
                b"metadata-only" => half.metadata_only = true,
                _ => {}
            }
        }
        half.subset = Subset::parse(&patterns.join(&b'\n')).ok()?;
        (half.encode() == bytes).then_some(half)
    }
}

/// Returns whether a text fits in one line of the file.
fn fits(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT_BYTES && !text.contains('\n')
}

impl Repo {
    /// Returns the arguments of an unfinished clone, or `None` if this repository is not one.
    pub fn half_clone(&self) -> Result<Option<HalfClone>, RepoError> {
        let path = self.dmv_dir().join(CLONE_FILE);
        let bytes = match read_small(&OsVfs, &path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(RepoError::Io(PathError::new("read", path, e))),
        };
        if !self.complete_commits()?.is_empty() {
            // The clone is complete. Only the removal of the file is missing.
            self.end_clone();
            return Ok(None);
        }
        match HalfClone::decode(&bytes) {
            Some(half) => Ok(Some(half)),
            None => Err(PlaceError::Damaged {
                path,
                why: "it does not name the clone".to_owned(),
            }
            .into()),
        }
    }

    /// Removes the note of an unfinished clone. From then on, the view names the received commits.
    pub fn end_clone(&self) {
        // If the file stays, the view shows that it is out of date.
        let _ = std::fs::remove_file(self.dmv_dir().join(CLONE_FILE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_anything_else_is_none() -> Result<(), Box<dyn std::error::Error>> {
        let plain = HalfClone::default();
        let full = HalfClone {
            source: "ssh://ada@nas/srv/a film.dmv".to_owned(),
            branch: Some("main".to_owned()),
            bare: true,
            metadata_only: true,
            depth: Some(3),
            since: Some(-1),
            subset: Subset::new([&b"a b"[..], b"!\xff"])?,
        };
        for half in [&plain, &full] {
            assert_eq!(HalfClone::decode(&half.encode()).as_ref(), Some(half));
        }
        let bytes = full.encode();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(HalfClone::decode(&other), None, "byte {at}");
            assert_eq!(HalfClone::decode(&bytes[..at]), None, "{at} bytes");
        }
        Ok(())
    }
}

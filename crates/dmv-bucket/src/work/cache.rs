//! What a device has read of a bucket, below its repository: the last root, pages, and the tables of
//! packs. Files in a bucket never change under their names, so a copy of one is as good as the file.
//!
//! Everything here is derived. A file that is damaged or missing is as good as none, and nothing
//! depends on whether a copy could be written.

use crate::format::{Name, Root};
use crate::machines::Tag;
use dmv_core::hash::check;
use dmv_core::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use dmv_core::platform::{OwnAccess, create_own_dirs, open_own, rename};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The directory below the repository's own files.
const DIR: &str = "buckets";
const ROOT: &str = "root";
const FETCHED: &str = "fetched";
const OWN: &str = "own";
/// The packs that are remembered as this device's own: the newest ones.
const MAX_OWN: usize = 4096;
const CHECK_BYTES: usize = 8;
const NAME_BYTES: usize = 16;
/// The greatest file that is read: the tail of a pack of metadata at its limits.
const MAX_BYTES: u64 = 128 << 20;
const MAX_TAG_BYTES: usize = 4096;

/// The copies for one address.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    dir: Option<PathBuf>,
}

impl Cache {
    /// Returns the copies for an address below `dmv`, the directory with a repository's own files.
    /// `None`: keeps nothing.
    pub fn open(dmv: Option<&Path>, address: &str) -> Cache {
        let hex = |bytes: [u8; 8]| bytes.map(|byte| format!("{byte:02x}")).concat();
        let name = hex(check(&[address.as_bytes()]));
        Cache {
            dir: dmv.map(|dmv| dmv.join(DIR).join(name)),
        }
    }

    /// Returns the copies in a directory; `None` keeps nothing.
    pub fn at(dir: Option<&Path>) -> Cache {
        Cache {
            dir: dir.map(Path::to_owned),
        }
    }

    /// Returns where the files are; `None` if nothing is kept.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Returns the last root that was read or written, and its state.
    pub fn root(&self) -> Option<(Root, Tag)> {
        decode_root(&self.file(ROOT)?).ok()
    }

    /// Keeps a root.
    pub fn keep_root(&self, root: &Root, tag: &Tag) {
        let Ok(bytes) = root.encode() else {
            return;
        };
        let mut out = Vec::new();
        for text in [&tag.etag, &tag.version] {
            out.push(u8::from(text.is_some()));
            put_bytes(&mut out, text.as_deref().unwrap_or_default().as_bytes());
        }
        put_bytes(&mut out, &bytes);
        self.keep_file(ROOT, &out);
    }

    /// Returns the generation of the root up to which the last fetch has received everything; 0 if
    /// there was none.
    pub fn fetched(&self) -> u64 {
        let bytes = self.file(FETCHED).unwrap_or_default();
        Decoder::new(&bytes).varint().unwrap_or_default()
    }

    /// Notes that everything was received up to the root of this generation.
    pub fn note_fetched(&self, generation: u64) {
        let mut out = Vec::new();
        put_varint(&mut out, generation);
        self.keep_file(FETCHED, &out);
    }

    /// Returns the packs that this device has uploaded: it has what is in them.
    pub fn own(&self) -> Vec<Name> {
        let bytes = self.file(OWN).unwrap_or_default();
        let names = bytes.chunks_exact(NAME_BYTES);
        names
            .filter_map(|name| Some(Name(name.try_into().ok()?)))
            .collect()
    }

    /// Notes that this device has uploaded packs.
    pub fn note_own(&self, packs: impl Iterator<Item = Name>) {
        let mut own = self.own();
        let before = own.len();
        own.extend(packs);
        if own.len() > before {
            let newest = &own[own.len().saturating_sub(MAX_OWN)..];
            let bytes: Vec<u8> = newest.iter().flat_map(|name| name.0).collect();
            self.keep_file(OWN, &bytes);
        }
    }

    /// Returns what was kept under a name.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        let file = open_own(&self.dir.as_ref()?.join(name), OwnAccess::Read).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let body = bytes.len().checked_sub(CHECK_BYTES)?;
        let sum = bytes.split_off(body);
        (check(&[&bytes]) == *sum).then_some(bytes)
    }

    /// Keeps bytes under a name.
    pub fn keep_file(&self, name: &str, bytes: &[u8]) {
        let Some(dir) = &self.dir else {
            return;
        };
        let whole = [bytes, &check(&[bytes])].concat();
        // Without the copy, it is read again.
        let _ = create_own_dirs(dir).and_then(|()| put(&dir.join(name), &whole));
    }

    /// Forgets all copies but the last root and those that `stays` names.
    pub fn keep_only(&self, stays: &dyn Fn(&str) -> bool) {
        let Some(found) = self.dir.as_ref().and_then(|dir| fs::read_dir(dir).ok()) else {
            return;
        };
        for entry in found.flatten() {
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            // Other names belong to others.
            let is_copy = name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit());
            if is_copy && !stays(name) {
                // If this fails, an unused copy remains.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Puts a file in its place that can be made again: not durably, but as a whole.
pub(super) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let written = open_own(&temporary, OwnAccess::CreateNew)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| rename(&temporary, path));
    if written.is_err() {
        // If this fails, too, an unused file remains.
        let _ = fs::remove_file(temporary);
    }
    written
}

fn decode_root(bytes: &[u8]) -> Result<(Root, Tag), DecodeError> {
    let mut input = Decoder::new(bytes);
    let mut text = || -> Result<Option<String>, DecodeError> {
        let is_there = input.u8()? == 1;
        let bytes = input.bytes(MAX_TAG_BYTES, "tag is too long")?.to_vec();
        let text = String::from_utf8(bytes).map_err(|_| input.error("tag is not UTF-8"))?;
        Ok(is_there.then_some(text))
    };
    let (etag, version) = (text()?, text()?);
    let root = Root::decode(input.bytes(crate::format::MAX_ROOT_BYTES, "root is too long")?)?;
    input.finish()?;
    Ok((root, Tag { etag, version }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::store::RepositoryId;

    #[test]
    fn what_was_kept_comes_back_and_damaged_copies_are_as_good_as_none() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let cache = Cache::open(Some(dir.path()), "s3://studio/film");
        assert_eq!((cache.root(), cache.fetched()), (None, 0));
        let root = Root::first(RepositoryId::from_bytes([7; 16]), [8; 16]);
        let tag = Tag {
            etag: Some("\"abc\"".to_owned()),
            version: None,
        };
        cache.keep_root(&root, &tag);
        cache.note_fetched(300);
        assert_eq!(cache.root(), Some((root, tag)));
        assert_eq!(cache.fetched(), 300);
        cache.note_own([Name([1; 16])].into_iter());
        cache.note_own([].into_iter());
        cache.note_own([Name([2; 16])].into_iter());
        assert_eq!(cache.own(), [Name([1; 16]), Name([2; 16])]);
        let (one, two) = ("a".repeat(32), "b".repeat(32));
        cache.keep_file(&one, b"text");
        cache.keep_file(&two, b"");
        assert_eq!(cache.file(&two).as_deref(), Some(&b""[..]));
        cache.keep_only(&|name| name == one);
        assert_eq!(cache.file(&one).as_deref(), Some(&b"text"[..]));
        assert_eq!((cache.file(&two), cache.fetched()), (None, 300));
        let path = cache.dir().expect("it keeps copies").join(&one);
        let mut bytes = fs::read(&path)?;
        bytes[1] ^= 1;
        fs::write(&path, bytes)?;
        assert_eq!(cache.file(&one), None);
        fs::write(&path, b"short")?;
        assert_eq!(cache.file(&one), None);
        let other = Cache::open(Some(dir.path()), "s3://studio/other");
        assert_eq!(other.root(), None);
        Ok(())
    }

    #[test]
    fn without_a_directory_nothing_is_kept() {
        let cache = Cache::open(None, "s3://studio/film");
        cache.note_fetched(3);
        assert_eq!(cache.fetched(), 0);
    }
}

//! The places in packs that a check found damaged, remembered so that they are not relied on.
//!
//! Packs are never edited, so a damaged place stays damaged; what makes good is another copy
//! elsewhere. The file `damaged` (docs/format/layout.md, "Damaged places") is derived: without it,
//! reading is as safe, and the next `verify` writes it again.

use super::{FileId, Place, Store, StoreError, read, write};
use crate::store::error::IoContext;
use crate::vfs::{Open, Vfs, read_small};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const FIRST_LINE: &str = "dmv-damaged 1";
/// Frames remembered: 64 GiB of damage at the usual size of frames. More is found when these are
/// made good.
const MAX_PLACES: usize = 64 << 10;
/// Bytes of a file of that many.
const MAX_FILE_BYTES: usize = 64 + MAX_PLACES * 54;

/// Frames, by pack and offset, that hold at least one damaged object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadPlaces(BTreeSet<(FileId, u64)>);

impl BadPlaces {
    /// What the file at `path` says; nothing if it is not there or makes no sense.
    pub(super) fn load(vfs: &dyn Vfs, path: &Path) -> BadPlaces {
        let bytes = read_small(vfs, path, MAX_FILE_BYTES).unwrap_or_default();
        BadPlaces::parse(&String::from_utf8_lossy(&bytes)).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<BadPlaces> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let place = |line: &str| {
            let (pack, offset) = line.split_once(' ')?;
            Some((FileId::from_hex(pack)?, offset.parse().ok()?))
        };
        lines.map(place).collect::<Option<_>>().map(BadPlaces)
    }

    fn text(&self) -> String {
        let mut out = format!("{FIRST_LINE}\n");
        for (pack, offset) in self.0.iter().take(MAX_PLACES) {
            let _ = writeln!(out, "{pack} {offset}");
        }
        out
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the frame at `offset` of `pack` is one.
    pub fn has(&self, pack: FileId, offset: u64) -> bool {
        self.0.contains(&(pack, offset))
    }

    /// Adds a frame.
    pub fn insert(&mut self, pack: FileId, offset: u64) {
        self.0.insert((pack, offset));
    }

    /// Whether a frame within `from..to` of `pack` is one.
    pub fn any_within(&self, pack: FileId, from: u64, to: u64) -> bool {
        from < to && self.0.range((pack, from)..(pack, to)).next().is_some()
    }

    /// Adds all of `other` that `keep` says yes to.
    pub fn extend_from(&mut self, other: &BadPlaces, keep: impl Fn(FileId, u64) -> bool) {
        let kept = other.0.iter().filter(|(pack, at)| keep(*pack, *at));
        self.0.extend(kept.copied());
    }
}

impl Store {
    /// The damaged places known so far.
    pub fn bad_places(&self) -> BadPlaces {
        read(&self.bad).clone()
    }

    /// Remembers what a check has found, in place of what was known before.
    pub fn remember_bad(&self, found: BadPlaces) -> Result<(), StoreError> {
        if *read(&self.bad) == found {
            return Ok(());
        }
        let path = self.damaged_path();
        let kept = match found.is_empty() {
            true => self.vfs.remove(&path),
            false => crate::vfs::write_durably(&*self.vfs, &path, found.text().as_bytes()),
        };
        *write(&self.bad) = found;
        match kept {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at("write", &path),
            _ => Ok(()),
        }
    }

    /// Does not count on what lies at a place, as long as this process runs or until the next check.
    pub(super) fn avoid(&self, pack: FileId, place: Place) {
        write(&self.bad).insert(pack, place.offset);
    }

    /// Fails if a file of the store is there and this process may not read it: that is no damage.
    pub fn check_readable(&self) -> Result<(), StoreError> {
        for pack in self.packs() {
            let path = self.pack_path(pack.id);
            match self.vfs.open(&path, Open::Read) {
                Err(e) if is_refusal(&e) => return Err(e).at("open", &path),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The error number of a medium that fails.
const EIO: i32 = 5;

/// Whether the system refuses, which says nothing about the bytes.
pub(super) fn is_refusal(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotFound, UnexpectedEof};
    // What a failing disk answers is damage like any other.
    !matches!(e.kind(), NotFound | UnexpectedEof)
        && e.raw_os_error().is_some_and(|errno| errno != EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_and_anything_else_is_none() {
        let mut bad = BadPlaces::default();
        bad.insert(FileId([7; 16]), 64);
        bad.insert(FileId([7; 16]), 9000);
        let text = bad.text();
        assert_eq!(BadPlaces::parse(&text), Some(bad.clone()));
        assert!(
            bad.any_within(FileId([7; 16]), 64, 65) && !bad.any_within(FileId([7; 16]), 65, 9000)
        );
        for broken in ["", "dmv-damaged 2\n", &text.replace("0707", "07")] {
            assert_eq!(BadPlaces::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_file_of_the_most_places_is_within_its_bound() {
        let mut bad = BadPlaces::default();
        for n in 0..MAX_PLACES as u64 {
            bad.insert(FileId([0xff; 16]), u64::MAX - n);
        }
        assert!(bad.text().len() <= MAX_FILE_BYTES);
    }
}

//! The places in packs that a check found damaged, so that DMV does not rely on them.
//!
//! Packs are never edited, so a damaged place stays damaged. It is made good by another copy
//! elsewhere. The file `damaged` (docs/format/layout.md, "Damaged places") is derived: without it
//! reading is as safe, and the next `verify` writes it again.

use super::error::StoreError;
use super::random_id::PackId;
use super::shared::SharedValue;
use crate::path::PathError;
use crate::vfs::{Vfs, read_small};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file that lists damaged places.
pub(crate) const DAMAGED_FILE: &str = "damaged";

const FIRST_LINE: &str = "dmv-damaged 1";
/// Most frames that are listed: 64 GiB of damage at the usual size of frames. More are found once
/// these are made good.
const MAX_PLACES: usize = 64 << 10;
/// Length in bytes of a file that lists this many frames.
const MAX_FILE_BYTES: usize = 64 + MAX_PLACES * 54;

/// The frames, by pack and offset, that contain at least one damaged object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadPlaces(BTreeSet<(PackId, u64)>);

impl BadPlaces {
    /// Reads the file at `path`. A missing or malformed file is empty.
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
            Some((PackId::from_hex(pack)?, offset.parse().ok()?))
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

    /// Returns whether no place is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the frame at `offset` of `pack` is listed.
    pub fn has(&self, pack: PackId, offset: u64) -> bool {
        self.0.contains(&(pack, offset))
    }

    /// Adds a frame.
    pub fn insert(&mut self, pack: PackId, offset: u64) {
        self.0.insert((pack, offset));
    }

    /// Returns whether a frame within `from..to` of `pack` is listed.
    pub(crate) fn any_within(&self, pack: PackId, from: u64, to: u64) -> bool {
        from < to && self.0.range((pack, from)..(pack, to)).next().is_some()
    }

    /// Adds all frames of `other` for which `keep` returns true.
    pub(crate) fn extend_from(&mut self, other: &BadPlaces, keep: impl Fn(PackId, u64) -> bool) {
        let kept = other.0.iter().filter(|(pack, at)| keep(*pack, *at));
        self.0.extend(kept.copied());
    }
}

/// The damaged places that a store knows, and the file that lists them.
pub(super) struct KnownDamage {
    places: SharedValue<BadPlaces>,
    path: PathBuf,
}

impl KnownDamage {
    /// Reads the list in the repository's directory `dmv_dir`.
    pub fn load(vfs: &dyn Vfs, dmv_dir: &Path) -> KnownDamage {
        let path = dmv_dir.join(DAMAGED_FILE);
        let places = SharedValue::new(BadPlaces::load(vfs, &path));
        KnownDamage { places, path }
    }

    /// Returns the places that are known now.
    pub fn places(&self) -> Arc<BadPlaces> {
        self.places.get()
    }

    /// Returns the places that the file lists now. Another process may have written it.
    pub fn in_file(&self, vfs: &dyn Vfs) -> BadPlaces {
        BadPlaces::load(vfs, &self.path)
    }

    /// Replaces the places by those that a check has found, also in the file.
    pub fn replace(&self, vfs: &dyn Vfs, found: BadPlaces) -> Result<(), StoreError> {
        if *self.places() == found {
            return Ok(());
        }
        let written = if found.is_empty() {
            vfs.remove(&self.path)
        } else {
            crate::vfs::write_durably(vfs, &self.path, found.text().as_bytes())
        };
        self.places.replace(|_| found);
        match written {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(PathError::new("write", &self.path, e).into())
            }
            _ => Ok(()),
        }
    }

    /// Adds a frame, until this process ends or the next check is made.
    pub fn add(&self, pack: PackId, offset: u64) {
        self.places.replace(|known| {
            let mut places = known.clone();
            places.insert(pack, offset);
            places
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_and_anything_else_is_none() {
        let mut bad = BadPlaces::default();
        bad.insert(PackId::from_bytes([7; 16]), 64);
        bad.insert(PackId::from_bytes([7; 16]), 9000);
        let text = bad.text();
        assert_eq!(BadPlaces::parse(&text), Some(bad.clone()));
        assert!(
            bad.any_within(PackId::from_bytes([7; 16]), 64, 65)
                && !bad.any_within(PackId::from_bytes([7; 16]), 65, 9000)
        );
        for broken in ["", "dmv-damaged 2\n", &text.replace("0707", "07")] {
            assert_eq!(BadPlaces::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_file_of_the_most_places_is_within_its_bound() {
        let mut bad = BadPlaces::default();
        for n in 0..MAX_PLACES as u64 {
            bad.insert(PackId::from_bytes([0xff; 16]), u64::MAX - n);
        }
        assert!(bad.text().len() <= MAX_FILE_BYTES);
    }
}

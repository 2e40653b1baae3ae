//! The places in packs that a check found damaged, so that DMV does not rely on them.
//!
//! Packs are never edited, so a damaged place stays damaged. It is made good by another copy
//! elsewhere. The file `damaged` (docs/format/layout.md, "Damaged places") is derived: without it
//! reading is as safe, and the next `verify` writes it again.

use super::{PackId, PackRow, Place, Store, StoreError, read, write};
use crate::path::PathError;
use crate::platform::{Cause, OddKind, cause_of};
use crate::vfs::{OpenMode, Vfs, read_small};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::io;
use std::path::Path;

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

impl Store {
    /// Returns the damaged places known so far.
    pub fn bad_places(&self) -> BadPlaces {
        read(&self.bad).clone()
    }

    /// Replaces the damaged places by those that a check has found, also in the file.
    pub(crate) fn remember_bad(&self, found: BadPlaces) -> Result<(), StoreError> {
        if *read(&self.bad) == found {
            return Ok(());
        }
        let path = self.damaged_path();
        let kept = if found.is_empty() {
            self.vfs.remove(&path)
        } else {
            crate::vfs::write_durably(&*self.vfs, &path, found.text().as_bytes())
        };
        *write(&self.bad) = found;
        match kept {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(PathError::new("write", &path, e).into())
            }
            _ => Ok(()),
        }
    }

    /// Stops relying on a place, until this process ends or the next check is made.
    pub(super) fn distrust(&self, pack: PackId, place: Place) {
        write(&self.bad).insert(pack, place.offset);
    }

    /// Returns the packs among `rows` whose files are gone. A directory that cannot be listed shows none:
    /// whoever reads a pack then meets the reason.
    pub(super) fn without_file(&self, rows: &[PackRow]) -> Vec<PackRow> {
        let Ok(names) = self.vfs.list(&self.packs_dir) else {
            return Vec::new();
        };
        let ids = names.iter().filter_map(|name| name.strip_suffix(".pack"));
        let there: HashSet<PackId> = ids.filter_map(PackId::from_hex).collect();
        let is_gone = |row: &&PackRow| !there.contains(&row.id);
        rows.iter().filter(is_gone).copied().collect()
    }

    /// Returns the packs of the catalogue whose files are gone.
    pub fn lost_packs(&self) -> Vec<PackRow> {
        read(&self.lost).clone()
    }

    /// Fails if a file of the store exists and this process may not read it. That is not damage.
    pub(crate) fn check_readable(&self) -> Result<(), StoreError> {
        for pack in self.packs() {
            let path = self.pack_path(pack.id);
            match self.vfs.open(&path, OpenMode::Read) {
                Err(e) if is_refusal(&e) => return Err(PathError::new("open", &path, e).into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns whether the system refused access, which says nothing about the bytes.
pub(super) fn is_refusal(e: &io::Error) -> bool {
    refusal(e).is_some()
}

/// Returns the same error again if the system refused access.
pub(super) fn refusal(e: &io::Error) -> Option<io::Error> {
    if let Some(odd) = OddKind::in_error(e) {
        return Some(odd.into());
    }
    let code = e.raw_os_error()?;
    // The error of a failing disk is damage like any other.
    let is_damage = e.kind() == io::ErrorKind::NotFound || cause_of(e) == Cause::BadMedium;
    (!is_damage).then(|| io::Error::from_raw_os_error(code))
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

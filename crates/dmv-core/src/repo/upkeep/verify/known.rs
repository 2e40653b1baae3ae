//! What earlier checks have found damaged or missing, so that other commands can say so without a
//! check.
//!
//! The file `lost` (docs/format/layout.md, "Lost objects") is derived: the next `verify` writes it again.

use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::repo::base::objects;
use crate::repo::base::repo::Repo;
use crate::repo::upkeep::verify::{DamagedObject, LostPack, VerifyReport, lost_packs, unnamed};
use crate::vfs::{read_small, write_durably};
use std::fmt::Write;
use std::path::PathBuf;

const LOST_FILE: &str = "lost";
const FIRST_LINE: &str = "dmv-lost 1";
/// Most objects that are listed. If there are more, the next checks find them.
const MAX_OBJECTS: usize = 64 << 10;
/// Length in bytes of a file that lists this many objects.
const MAX_FILE_BYTES: usize = 64 + MAX_OBJECTS * 76;

/// What is known to be damaged, without a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownDamage {
    /// Packs whose files are gone.
    pub lost_packs: Vec<LostPack>,
    /// The number of objects that a check has found damaged or missing, and that are not stored again.
    pub objects: u64,
}

impl KnownDamage {
    /// Returns whether there is any.
    pub fn is_any(&self) -> bool {
        self.objects > 0 || !self.lost_packs.is_empty()
    }
}

impl Repo {
    /// Returns what is known to be damaged. It reads no content.
    pub fn known_damage(&self) -> KnownDamage {
        let is_stored = |id: &ObjectId| self.store.has_undamaged(id).unwrap_or(false);
        let lost = load(self).into_iter();
        KnownDamage {
            lost_packs: lost_packs(self),
            objects: lost.filter(|(id, _)| !is_stored(id)).count() as u64,
        }
    }
}

/// Returns the objects that an earlier check has found damaged and that still are.
pub(super) fn still_damaged(repo: &Repo) -> Vec<DamagedObject> {
    let is_there = |id: &ObjectId| repo.store.has(id).unwrap_or(false);
    let lost = load(repo).into_iter();
    // Missing ones are found by the walk, if something still needs them.
    let damaged = lost.filter(|(id, ty)| is_there(id) && !objects::is_whole(repo, *ty, id));
    damaged.map(unnamed).collect()
}

/// Writes down what a check has found, in place of what earlier ones have. On a read-only disk this
/// fails, and the next check finds the damage again.
pub fn remember(repo: &Repo, report: &VerifyReport) {
    let found = report.damaged.iter().chain(&report.missing);
    let found: Vec<_> = found.map(|object| (object.id, object.ty)).collect();
    if found == load(repo) {
        return;
    }
    let path = path(repo);
    let _ = if found.is_empty() {
        repo.vfs.remove(&path)
    } else {
        write_durably(&*repo.vfs, &path, text(&found).as_bytes())
    };
}

fn path(repo: &Repo) -> PathBuf {
    repo.dmv_dir().join(LOST_FILE)
}

/// Reads the file. A missing or malformed file is empty.
fn load(repo: &Repo) -> Vec<(ObjectId, ObjectType)> {
    let bytes = read_small(&*repo.vfs, &path(repo), MAX_FILE_BYTES).unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes)).unwrap_or_default()
}

fn parse(text: &str) -> Option<Vec<(ObjectId, ObjectType)>> {
    let mut lines = text.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let object = |line: &str| {
        let (word, id) = line.split_once(' ')?;
        let ty = ObjectType::ALL.into_iter().find(|ty| ty.word() == word)?;
        Some((ObjectId::from_hex(id)?, ty))
    };
    lines.take(MAX_OBJECTS).map(object).collect()
}

fn text(objects: &[(ObjectId, ObjectType)]) -> String {
    let mut out = format!("{FIRST_LINE}\n");
    for (id, ty) in objects.iter().take(MAX_OBJECTS) {
        let _ = writeln!(out, "{} {id}", ty.word());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_read_back_and_anything_else_is_none() {
        let objects = vec![
            (ObjectId::from_bytes([7; 32]), ObjectType::Chunk),
            (ObjectId::from_bytes([9; 32]), ObjectType::Tree),
        ];
        let text = text(&objects);
        assert_eq!(parse(&text), Some(objects));
        let other = text.replace("chunk", "lump");
        for malformed in ["", "dmv-lost 2\n", &text.replace("0707", "07"), &other] {
            assert_eq!(parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn a_file_of_the_most_objects_is_within_its_bound() {
        let longest = ObjectType::ALL.into_iter().max_by_key(|ty| ty.word().len());
        let longest = longest.expect("there are types");
        let objects = vec![(ObjectId::from_bytes([255; 32]), longest); MAX_OBJECTS + 1];
        let text = text(&objects);
        assert!(text.len() <= MAX_FILE_BYTES);
        assert_eq!(text.lines().count(), MAX_OBJECTS + 1);
    }
}

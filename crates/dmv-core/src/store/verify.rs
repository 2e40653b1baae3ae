//! Checking packs byte by byte, for `dmv verify`.
//!
//! [`verify_pack`] reports on one pack. `Store::damage` derives from all reports which objects are
//! lost, and which have another intact copy. It does not know which objects are needed; `repo`
//! does.

use super::bad_places::BadPlaces;
use super::catalogue::PackRow;
use super::error::{StoreError, is_refusal};
use super::frame::FrameTable;
use super::index_entry::{Entry, Place, gaps_of};
use super::pack_store::Store;
use super::random_id::{IndexId, PackId};
use super::scan::{ScannedPart, checked_payload, entries_of, scan};
use super::table::Table;
use crate::hash::ObjectId;
use crate::memory::{Budget, MAX_LOOK_UPS};
use crate::object::ObjectType;
use crate::path::PathContext;
use crate::vfs::VfsFile;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A table is read completely if more than one in this number of its entries is looked for.
const WORTH_WALKING: usize = 64;

/// The result of reading one pack completely.
#[derive(Debug, Default)]
pub struct PackReport {
    /// Number of objects whose bytes hash to an id that the tables know.
    pub objects: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damage outside single objects: start, end, and what is wrong.
    pub damage: Vec<(u64, u64, &'static str)>,
    /// Number of objects in each intact frame.
    frames: HashMap<u64, u16>,
    /// Objects that no table in use places here, by frame and number, with the id of their bytes.
    /// Either the bytes are wrong, or a merged index names another copy.
    unplaced: BTreeMap<(u64, u16), ObjectId>,
    /// Objects of intact frames that are to be looked up together.
    waiting: Vec<Entry>,
}

/// Reads the committed part of a pack and checks every byte of it.
///
/// `progress` receives the bytes read after each record, and ends the check by returning `false`.
pub(crate) fn verify_pack(
    store: &Store,
    row: &PackRow,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<PackReport, StoreError> {
    let path = store.pack_path(row.id);
    let mut report = PackReport::default();
    let file = store.files().pack(row.id)?;
    match store.files().check_header(row.id, &*file) {
        Err(StoreError::DamagedFile { offset, why, .. }) => {
            report.damage.push((offset, offset, why));
        }
        other => drop(other?),
    }
    let len = file.len().context("measure", &path)?;
    if len < row.len {
        report
            .damage
            .push((len, row.len, "pack is shorter than its committed length"));
    }
    let end = row.len.min(len);
    // Bytes outside records are damage, unless an index names them as left by an interrupted job.
    let (mut holes, mut gaps) = (Vec::new(), Vec::new());
    scan(&*file, &path, 0, end, &mut |at, found| {
        match found {
            ScannedPart::Frame(table) => {
                let to = at + table.header.record_len();
                let why = report.add_frame(store, row.id, &*file, at, &table)?;
                holes.extend(why.map(|why| (at, to, why)));
                report.bytes += table.header.record_len();
            }
            ScannedPart::Garbage(to) => holes.push((at, to, "bytes that are not an intact record")),
            ScannedPart::Index(header) => {
                report.bytes += header.record_len();
                let to = at + header.record_len();
                match if_readable(checked_payload(&*file, &path, at, &header))? {
                    Some(Some(payload)) => gaps.extend(gaps_of(&payload)),
                    Some(None) => holes.push((at, to, "index fails its check")),
                    None => holes.push((at, to, "cannot be read")),
                }
            }
            ScannedPart::Trailer(_) | ScannedPart::Operation(_) => {}
        }
        if progress(report.bytes) {
            Ok(())
        } else {
            Err(StoreError::Cancelled)
        }
    })?;
    report.look_up(store, row.id);
    holes.retain(|(at, to, _)| !gaps.iter().any(|(from, end)| from <= at && to <= end));
    report.damage.extend(holes);
    Ok(report)
}

/// Returns what was read; `None` if the medium fails, which is damage of this place only.
fn if_readable<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(StoreError::Io(e)) if !is_refusal(&e.source) => Ok(None),
        other => other.map(Some),
    }
}

impl PackReport {
    /// Checks the objects of the frame at `at` in pack `id`. Returns what is wrong with the frame.
    fn add_frame(
        &mut self,
        store: &Store,
        id: PackId,
        file: &dyn VfsFile,
        at: u64,
        table: &FrameTable,
    ) -> Result<Option<&'static str>, StoreError> {
        let prefix = |table: &FrameTable| store.base_bytes(table, id, at).ok();
        let entries = entries_of(file, &store.pack_path(id), at, table, &prefix);
        let Some(entries) = if_readable(entries)? else {
            return Ok(Some("cannot be read"));
        };
        if entries.is_empty() {
            return Ok(Some("frame payload does not decode"));
        }
        self.frames.insert(at, table.header.count);
        self.waiting.extend(entries);
        if self.waiting.len() >= MAX_LOOK_UPS {
            self.look_up(store, id);
        }
        Ok(None)
    }

    /// Looks up the objects of the frames that were read. A table that fails here is in the report on
    /// tables.
    fn look_up(&mut self, store: &Store, id: PackId) {
        let entries = std::mem::take(&mut self.waiting);
        for (entry, (is_placed, is_known)) in entries.iter().zip(store.are_placed(id, &entries)) {
            // A known id is not enough: wrong bytes may be the right ones of another object.
            if !is_placed {
                let Place {
                    offset, ordinal, ..
                } = entry.place;
                self.unplaced.insert((offset, ordinal), entry.id);
            }
            self.objects += u64::from(is_known);
        }
    }

    /// Returns whether the bytes at a place are those of `id`. A table that was loaded after they were
    /// read may name the place, and the one before did not.
    fn is_intact(&self, id: &ObjectId, place: Place) -> bool {
        let count = self.frames.get(&place.offset).copied().unwrap_or(0);
        let other = self.unplaced.get(&(place.offset, place.ordinal));
        place.ordinal < count && other.is_none_or(|found| found == id)
    }

    /// Returns whether `id` is intact at a place that no table in use names.
    fn is_intact_copy(&self, id: &ObjectId, place: Place) -> bool {
        let found = self.unplaced.get(&(place.offset, place.ordinal));
        found == Some(id)
    }

    fn is_intact_frame(&self, offset: u64) -> bool {
        let mut unplaced = self.unplaced.range((offset, 0)..=(offset, u16::MAX));
        self.frames.contains_key(&offset) && unplaced.next().is_none()
    }
}

/// The consequences of the reports on all packs for the objects.
#[derive(Debug, Default)]
pub struct Damage {
    /// Objects without an intact copy.
    pub lost: Vec<(ObjectId, ObjectType)>,
    /// Objects with a damaged copy and an intact one.
    pub copies: Vec<(ObjectId, ObjectType)>,
    /// The frames with damaged objects, found now or known before.
    pub bad: BadPlaces,
    /// The frames among them with lost objects.
    lost_at: BadPlaces,
}

impl Damage {
    /// Returns whether everything in this stretch of a pack is intact elsewhere.
    pub(crate) fn is_made_good(&self, pack: PackId, from: u64, to: u64) -> bool {
        self.bad.any_within(pack, from, to) && !self.lost_at.any_within(pack, from, to)
    }
}

impl Store {
    /// Returns the objects that tables place where the reports found damage.
    pub fn damage(&self, reports: &HashMap<PackId, PackReport>) -> Result<Damage, StoreError> {
        let mut out = Damage::default();
        let mut damaged = HashMap::new();
        self.walk_what_can_be(&mut |entry, pack| {
            let report = reports.get(&pack);
            if report.is_some_and(|report| !report.is_intact(&entry.id, entry.place)) {
                damaged.insert(entry.id, entry.place.ty);
                out.bad.insert(pack, entry.place.offset);
            }
        })?;
        // Known damaged places that no table names any more, because their objects were stored
        // again.
        out.bad.extend_from(&self.bad_places(), |pack, at| {
            let report = reports.get(&pack);
            report.is_some_and(|report| !report.is_intact_frame(at))
        });
        // An object with a second, intact copy can be read.
        let mut lost = damaged.clone();
        if !lost.is_empty() {
            self.walk_what_can_be(&mut |entry, pack| {
                let report = reports.get(&pack);
                if report.is_some_and(|report| report.is_intact(&entry.id, entry.place)) {
                    lost.remove(&entry.id);
                }
            })?;
        }
        self.find_hidden(reports, &mut lost)?;
        let copies = damaged.iter().filter(|(id, _)| !lost.contains_key(*id));
        out.copies = copies.map(|(id, ty)| (*id, *ty)).collect();
        if !lost.is_empty() {
            self.walk_what_can_be(&mut |entry, pack| {
                if lost.contains_key(&entry.id) {
                    out.lost_at.insert(pack, entry.place.offset);
                }
            })?;
        }
        self.find_hidden_damage(reports, &lost, &mut out)?;
        out.lost = lost.into_iter().collect();
        out.lost.sort();
        out.copies.sort();
        Ok(out)
    }

    /// Removes objects from `lost` that are intact at a place that no table in use names. Reading
    /// finds them there.
    fn find_hidden(
        &self,
        reports: &HashMap<PackId, PackReport>,
        lost: &mut HashMap<ObjectId, ObjectType>,
    ) -> Result<(), StoreError> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        let mut look = |id: &ObjectId, pack: PackId, place: Place| {
            let report = reports.get(&pack);
            if report.is_some_and(|report| report.is_intact_copy(id, place)) {
                found.push(*id);
            }
        };
        for table in self.hidden_tables()? {
            if lost.len() < table.entries() as usize / WORTH_WALKING {
                for id in lost.keys() {
                    if let Ok(Some((pack, place))) = table.lookup(id, &Budget::none()) {
                        look(id, pack, place);
                    }
                }
                continue;
            }
            // If a table is damaged further on, its entries before that still count.
            let _ = table.walk(&mut |entry, pack| {
                if lost.contains_key(&entry.id) {
                    look(&entry.id, pack, entry.place);
                }
                Ok(())
            });
        }
        for id in found {
            lost.remove(&id);
        }
        Ok(())
    }

    /// Adds damaged places that no table in use names: copies of objects that are named elsewhere.
    fn find_hidden_damage(
        &self,
        reports: &HashMap<PackId, PackReport>,
        lost: &HashMap<ObjectId, ObjectType>,
        out: &mut Damage,
    ) -> Result<(), StoreError> {
        let holes = reports.iter().flat_map(|(pack, report)| {
            let of_pack = report.damage.iter();
            of_pack.map(|(from, to, _)| ((*pack, *from), *to))
        });
        let holes: BTreeMap<(PackId, u64), u64> = holes.collect();
        if holes.is_empty() {
            return Ok(());
        }
        for table in self.hidden_tables()? {
            // As far as the table is intact.
            let _ = table.walk(&mut |entry, pack| {
                let at = entry.place.offset;
                let before = holes.range((pack, 0)..=(pack, at)).next_back();
                if before.is_some_and(|(_, to)| at < *to) {
                    out.bad.insert(pack, at);
                    if lost.contains_key(&entry.id) {
                        out.lost_at.insert(pack, at);
                    }
                }
                Ok(())
            });
        }
        Ok(())
    }

    /// Returns the merged indexes that should not be used: those that are damaged, and those that
    /// name a damaged place for one of `copies` and hide an intact one.
    pub(crate) fn poor_indexes(&self, copies: &[ObjectId]) -> Vec<IndexId> {
        let hides = |table: &Table, id: &ObjectId| {
            matches!(table.lookup(id, &self.index.budget), Ok(Some(_)))
                && matches!(self.has_outside(id, &HashSet::new()), Ok(false))
        };
        let current = self.current();
        let merged = current
            .tables
            .iter()
            .filter_map(|t| Some((t, t.index_id()?)));
        let poor = merged.filter(|(table, _)| {
            copies.iter().any(|id| hides(table, id)) || table.verify().is_err()
        });
        poor.map(|(_, id)| id).collect()
    }

    /// Visits the entries of all tables. What a damaged table hides is in the report on tables.
    fn walk_what_can_be(&self, visit: &mut dyn FnMut(Entry, PackId)) -> Result<(), StoreError> {
        for table in &self.current().tables {
            let walked = table.walk(&mut |entry, pack| {
                visit(entry, pack);
                Ok(())
            });
            match walked {
                Ok(()) | Err(StoreError::DamagedFile { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

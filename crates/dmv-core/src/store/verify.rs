//! Checking packs byte by byte.

use super::error::{IoContext, StoreError};
use super::layout::FileId;
use super::scan::{Found, checked_payload, entries_of, scan};
use super::table::{Entry, Place, gaps_of};
use super::{PackRow, Store};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use std::collections::{HashMap, HashSet};

/// What a full read of one pack brought to light.
#[derive(Debug, Default)]
pub struct PackReport {
    /// Objects whose bytes hash to an id that the tables know at this place.
    pub objects: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damage that is not within one object: offset and what is wrong.
    pub damage: Vec<(u64, &'static str)>,
    /// Objects per intact frame.
    frames: HashMap<u64, u16>,
    /// Objects with wrong bytes: frame and ordinal.
    wrong: HashSet<(u64, u16)>,
}

/// Reads the committed part of a pack and checks every byte of it.
///
/// `progress` is told the bytes read after each record, and ends the check by returning `false`.
pub fn verify_pack(
    store: &Store,
    row: &PackRow,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<PackReport, StoreError> {
    let path = store.pack_path(row.id);
    let mut report = PackReport::default();
    let file = store.pack_file(row.id)?;
    match store.check_header(row.id, &*file) {
        Err(StoreError::DamagedFile { offset, why, .. }) => report.damage.push((offset, why)),
        other => other?,
    }
    let len = file.len().at("measure", &path)?;
    if len < row.len {
        report
            .damage
            .push((len, "pack is shorter than its committed length"));
    }
    let end = row.len.min(len);
    // What no record covers is damage, unless an index names it as left by a job that was cut off.
    let (mut holes, mut gaps) = (Vec::new(), Vec::new());
    scan(&*file, &path, 0, end, &mut |at, found| {
        match found {
            Found::Frame(table) => {
                let prefix = |t: &super::frame::FrameTable| store.base_bytes(t, at).ok();
                let entries = entries_of(&*file, &path, at, &table, &prefix)?;
                if entries.is_empty() {
                    let to = at + table.header.record_len();
                    holes.push((at, to, "frame payload does not decode"));
                } else {
                    report.frames.insert(at, table.header.count);
                }
                for entry in entries {
                    report.objects += 1;
                    // A table that fails here is in the report on tables.
                    if !matches!(store.pack_of(&entry.id), Ok(Some(_))) {
                        report.wrong.insert((at, entry.place.ordinal));
                        report.objects -= 1;
                    }
                }
                report.bytes += table.header.record_len();
            }
            Found::Garbage(to) => holes.push((at, to, "bytes that are no intact record")),
            Found::Index(header) => {
                report.bytes += header.record_len();
                match checked_payload(&*file, &path, at, &header)? {
                    Some(payload) => gaps.extend(gaps_of(&payload)),
                    None => holes.push((at, at + header.record_len(), "index fails its check")),
                }
            }
            Found::Trailer(_) | Found::Operation(_) => {}
        }
        if progress(report.bytes) {
            Ok(())
        } else {
            Err(StoreError::Cancelled)
        }
    })?;
    holes.retain(|(at, to, _)| !gaps.iter().any(|(from, end)| from <= at && to <= end));
    report
        .damage
        .extend(holes.into_iter().map(|(at, _, why)| (at, why)));
    Ok(report)
}

impl Store {
    /// The objects that tables place where the reports found damage: id, type, pack.
    pub fn damaged_objects(
        &self,
        reports: &HashMap<FileId, PackReport>,
    ) -> Result<Vec<(ObjectId, ObjectType)>, StoreError> {
        let is_whole = |place: Place, report: &PackReport| {
            let count = report.frames.get(&place.offset).copied().unwrap_or(0);
            place.ordinal < count && !report.wrong.contains(&(place.offset, place.ordinal))
        };
        let mut damaged = HashMap::new();
        self.walk_what_can_be(&mut |entry, pack| {
            let report = reports.get(&pack);
            if report.is_some_and(|report| !is_whole(entry.place, report)) {
                damaged.insert(entry.id, entry.place.ty);
            }
        })?;
        if !damaged.is_empty() {
            // An object with a second, whole copy can be read.
            self.walk_what_can_be(&mut |entry, pack| {
                let report = reports.get(&pack);
                if report.is_some_and(|report| is_whole(entry.place, report)) {
                    damaged.remove(&entry.id);
                }
            })?;
        }
        Ok(damaged.into_iter().collect())
    }

    /// Visits the entries of all tables; what a damaged table hides is in the report on tables.
    fn walk_what_can_be(&self, visit: &mut dyn FnMut(Entry, FileId)) -> Result<(), StoreError> {
        for table in super::read(&self.tables).iter() {
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

impl Store {
    /// Calls `visit` with raw and stored payload bytes of each frame in the data packs.
    pub fn for_each_frame(&self, visit: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        for row in self
            .packs()
            .iter()
            .filter(|row| row.kind == super::PackKind::Data)
        {
            let path = self.pack_path(row.id);
            let file = self.pack_file(row.id)?;
            scan(&*file, &path, 0, row.len, &mut |_, found| {
                if let Found::Frame(table) = found {
                    visit(
                        u64::from(table.header.raw_len),
                        u64::from(table.header.stored_len),
                    );
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

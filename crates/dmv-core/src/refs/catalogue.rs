//! The catalogue: which packs, segments and merged indexes are in use.
//!
//! The rows are plain data of the store. `pack_removal` takes packs out of the catalogue.

use super::sql::rows;
use super::{Refs, RefsError, check_packs, schema};
use crate::store::{
    Catalogue, IndexId, IndexRow, PackId, PackKind, PackRow, SegmentRow, UnregisteredIndex,
};
use rusqlite::{OptionalExtension, Row, Transaction, params, params_from_iter};
use std::sync::atomic::Ordering;

/// The segments whose own tables are in use: few, however many there are. SQLite takes its index of them
/// only if the condition is literally that of the index, not `IS ?1`.
const UNMERGED: &str = "SELECT pack, kind, start, end, entries FROM segments WHERE merged IS NULL";
/// The segments that one merged index replaces.
const MERGED_IN: &str = "SELECT pack, kind, start, end, entries FROM segments WHERE merged = ?1";
pub(super) const PACKS: &str = "SELECT id, kind, len, poisoned FROM packs";
pub(super) const INDEXES: &str = "SELECT id, entries FROM indexes";

impl Refs {
    /// Returns the packs and tables in use.
    pub fn catalogue(&self) -> Result<Catalogue, RefsError> {
        self.catalogue_without(&[])
    }

    /// Like [`catalogue`](Self::catalogue), with the segments' own tables in place of some merged
    /// indexes.
    pub(crate) fn catalogue_without(&self, indexes: &[IndexId]) -> Result<Catalogue, RefsError> {
        let conn = self.conn();
        // One state of all three tables.
        let _read = conn.unchecked_transaction()?;
        let mut segments = rows(&conn, UNMERGED, [], segment_row)?;
        for id in indexes {
            segments.extend(rows(&conn, MERGED_IN, [id], segment_row)?);
        }
        let mut in_use = rows(&conn, INDEXES, [], index_row)?;
        in_use.retain(|row| !indexes.contains(&row.id));
        Ok(Catalogue {
            packs: rows(&conn, PACKS, [], pack_row)?,
            segments,
            indexes: in_use,
        })
    }

    /// Returns the segments that merged indexes replace.
    pub(crate) fn merged_segments(&self) -> Result<Vec<SegmentRow>, RefsError> {
        let query = "SELECT pack, kind, start, end, entries FROM segments WHERE merged IS NOT NULL";
        rows(&self.conn(), query, [], segment_row)
    }

    /// Returns the segments that one merged index replaces.
    pub(crate) fn segments_merged_in(&self, index: IndexId) -> Result<Vec<SegmentRow>, RefsError> {
        rows(&self.conn(), MERGED_IN, [index], segment_row)
    }

    /// Returns the segments of a pack.
    pub fn segments_of(&self, pack: PackId) -> Result<Vec<SegmentRow>, RefsError> {
        let query = "SELECT pack, kind, start, end, entries FROM segments WHERE pack = ?1";
        rows(&self.conn(), query, [pack], segment_row)
    }

    /// Returns the catalogue if another connection has changed the database since the last call, or
    /// since it was opened.
    pub(crate) fn newer_catalogue(&self) -> Result<Option<Catalogue>, RefsError> {
        let version = schema::data_version(&self.conn())?;
        if self.seen.swap(version, Ordering::Relaxed) == version {
            return Ok(None);
        }
        self.catalogue().map(Some)
    }

    /// Stops using merged indexes: their segments' own tables are in use again.
    pub(crate) fn forget_indexes(&self, indexes: &[IndexId]) -> Result<(), RefsError> {
        self.change(|tx| {
            for id in indexes {
                unmerge(tx, *id)?;
            }
            Ok(())
        })
    }

    /// Returns the current row of one pack.
    pub fn pack(&self, id: PackId) -> Result<Option<PackRow>, RefsError> {
        let conn = self.conn();
        let mut query =
            conn.prepare_cached("SELECT id, kind, len, poisoned FROM packs WHERE id = ?1")?;
        Ok(query.query_row([id], pack_row).optional()?)
    }

    /// Records that a pack must not be written to again.
    pub(crate) fn poison(&self, pack: PackId) -> Result<(), RefsError> {
        self.change(|tx| {
            tx.execute("UPDATE packs SET poisoned = 1 WHERE id = ?1", [pack])?;
            Ok(())
        })
    }

    /// Puts a merged index in the place of the tables that it covers.
    ///
    /// Returns `false` and changes nothing if another process has merged some of them meanwhile, or
    /// has taken a pack out of use.
    pub(crate) fn register_merged(&self, merged: &UnregisteredIndex) -> Result<bool, RefsError> {
        let lock = self.lock_database()?;
        let done = self.write(&lock, |tx| put_merged(tx, merged))?;
        Ok(done.is_some())
    }
}

/// Puts the tables of a merged index's segments back into use.
pub(super) fn unmerge(tx: &Transaction, index: IndexId) -> Result<(), RefsError> {
    tx.execute(
        "UPDATE segments SET merged = NULL WHERE merged = ?1",
        [index],
    )?;
    tx.execute("DELETE FROM indexes WHERE id = ?1", [index])?;
    Ok(())
}

fn put_merged(tx: &Transaction, merged: &UnregisteredIndex) -> Result<Option<()>, RefsError> {
    // Its number of entries would be wrong, and show nothing about the copies that it hides.
    if check_packs(tx, &merged.packs).is_err() {
        return Ok(None);
    }
    for segment in &merged.segments {
        let changed = tx.execute(
            "UPDATE segments SET merged = ?3 WHERE pack = ?1 AND end = ?2 AND merged IS NULL",
            params![segment.pack, segment.end as i64, merged.id],
        )?;
        if changed != 1 {
            return Ok(None);
        }
    }
    if !merged.indexes.is_empty() {
        // This reads the rows of all segments, so it is done once.
        let marks = vec!["?"; merged.indexes.len()].join(", ");
        tx.execute(
            &format!("UPDATE segments SET merged = ? WHERE merged IN ({marks})"),
            params_from_iter([&merged.id].into_iter().chain(&merged.indexes)),
        )?;
    }
    for index in &merged.indexes {
        if tx.execute("DELETE FROM indexes WHERE id = ?1", [index])? != 1 {
            return Ok(None);
        }
    }
    tx.execute(
        "INSERT INTO indexes VALUES(?1, ?2)",
        params![merged.id, merged.entries],
    )?;
    Ok(Some(()))
}

pub(super) fn put_segments(
    tx: &Transaction,
    segments: &[SegmentRow],
    at: Option<i64>,
) -> Result<(), RefsError> {
    for segment in segments {
        tx.execute(
            "INSERT INTO packs VALUES(?1, ?2, ?3, 0)
             ON CONFLICT(id) DO UPDATE SET len = max(len, excluded.len)",
            params![segment.pack, segment.kind as u8, segment.end as i64],
        )?;
        put_segment(tx, segment, at)?;
    }
    Ok(())
}

/// Adds the segments of packs to which nothing is appended any more.
pub(super) fn put_moved(tx: &Transaction, segments: &[(SegmentRow, i64)]) -> Result<(), RefsError> {
    for (segment, at) in segments {
        put_segments(tx, &[*segment], Some(*at))?;
        // A failed sync is 1. No version appends to a pack with another number than 0.
        tx.execute(
            "UPDATE packs SET poisoned = 2 WHERE id = ?1",
            [segment.pack],
        )?;
    }
    Ok(())
}

/// Adds a segment at the time `at`. A segment that is listed already is no error: a process that
/// brought the database up to the log found it in its pack.
pub(super) fn put_segment(
    tx: &Transaction,
    segment: &SegmentRow,
    at: Option<i64>,
) -> Result<(), RefsError> {
    tx.execute(
        "INSERT INTO segments(pack, end, start, kind, entries, at) VALUES(?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT(pack, end) DO NOTHING",
        params![
            segment.pack,
            segment.end as i64,
            segment.start as i64,
            segment.kind as u8,
            segment.entries,
            at
        ],
    )?;
    Ok(())
}

fn pack_kind(row: &Row, column: usize) -> rusqlite::Result<PackKind> {
    let n: u8 = row.get(column)?;
    PackKind::from_number(n).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, n.into()))
}

pub(super) fn index_row(row: &Row) -> rusqlite::Result<IndexRow> {
    Ok(IndexRow {
        id: row.get(0)?,
        entries: row.get(1)?,
    })
}

/// Reads an offset or length. SQLite's integers are signed, these are not.
fn offset(row: &Row, column: usize) -> rusqlite::Result<u64> {
    let n: i64 = row.get(column)?;
    u64::try_from(n).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, n))
}

pub(super) fn pack_row(row: &Row) -> rusqlite::Result<PackRow> {
    let (id, kind) = (row.get(0)?, pack_kind(row, 1)?);
    Ok(PackRow {
        id,
        kind,
        len: offset(row, 2)?,
        poisoned: row.get(3)?,
    })
}

pub(super) fn segment_row(row: &Row) -> rusqlite::Result<SegmentRow> {
    Ok(SegmentRow {
        pack: row.get(0)?,
        kind: pack_kind(row, 1)?,
        start: offset(row, 2)?,
        end: offset(row, 3)?,
        entries: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_merged_indexes_replace_are_not_read() -> Result<(), Box<dyn std::error::Error>>
    {
        let temp = tempfile::tempdir()?;
        let refs = Refs::create(&temp.path().join("refs.db"))?;
        let conn = refs.conn();
        let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {UNMERGED}"))?;
        let plan: Vec<String> = query
            .query_map([], |row| row.get("detail"))?
            .collect::<Result<_, _>>()?;
        assert!(
            plan.iter().all(|step| step.contains("INDEX unmerged")),
            "{plan:?}"
        );
        Ok(())
    }
}

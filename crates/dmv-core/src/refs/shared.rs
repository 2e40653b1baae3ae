//! The catalogue of one repository as a part of another one's, which shares its packs.

use super::catalogue::{INDEXES, PACKS, index_row, pack_row, put_segment, segment_row};
use super::sql::rows;
use super::{Refs, RefsError};
use crate::store::{IndexId, IndexRow, PackRow, SegmentRow};
use rusqlite::{Row, params};

/// Everything that a catalogue lists.
#[derive(Debug, Default)]
pub(crate) struct CatalogueRows {
    /// All packs in use.
    pub packs: Vec<PackRow>,
    /// All segments, each with the merged index that replaces its table.
    pub segments: Vec<(SegmentRow, Option<IndexId>)>,
    /// Merged index files in use.
    pub indexes: Vec<IndexRow>,
}

impl Refs {
    /// Returns everything that the catalogue lists, as one state.
    pub(crate) fn catalogue_rows(&self) -> Result<CatalogueRows, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        let segments = "SELECT pack, kind, start, end, entries, merged FROM segments";
        let segment = |row: &Row<'_>| Ok((segment_row(row)?, row.get(5)?));
        Ok(CatalogueRows {
            packs: rows(&conn, PACKS, [], pack_row)?,
            segments: rows(&conn, segments, [], segment)?,
            indexes: rows(&conn, INDEXES, [], index_row)?,
        })
    }

    /// Adds the catalogue of another repository, which has written its packs. This repository reads
    /// them and never writes to them. `at` is the time in seconds since 1970.
    pub(crate) fn share_catalogue(&self, rows: &CatalogueRows, at: i64) -> Result<(), RefsError> {
        self.change(|tx| {
            for pack in &rows.packs {
                tx.execute(
                    "INSERT INTO packs VALUES(?1, ?2, ?3, 1) ON CONFLICT(id) DO NOTHING",
                    params![pack.id, pack.kind as u8, pack.len as i64],
                )?;
            }
            for (segment, merged) in &rows.segments {
                put_segment(tx, segment, Some(at))?;
                tx.execute(
                    "UPDATE segments SET merged = ?3 WHERE pack = ?1 AND end = ?2",
                    params![segment.pack, segment.end as i64, merged],
                )?;
            }
            for index in &rows.indexes {
                tx.execute(
                    "INSERT INTO indexes VALUES(?1, ?2) ON CONFLICT(id) DO NOTHING",
                    params![index.id, index.entries],
                )?;
            }
            Ok(())
        })
    }
}

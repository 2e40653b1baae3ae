//! Everything that marking begins with, read as one state.

use super::catalogue::{INDEXES, PACKS, index_row, pack_row, segment_row};
use super::pack_removal::{SeenOperation, seen};
use super::sql::rows;
use super::{Refs, RefsError, schema};
use crate::store::{Catalogue, SegmentRow};
use rusqlite::Row;

/// What the catalogue lists, and which operations it belongs to.
#[derive(Debug)]
pub(crate) struct Census {
    /// The newest operation. Everything that operations up to it name is in the catalogue.
    pub seen: SeenOperation,
    /// What is in use.
    pub catalogue: Catalogue,
    /// All segments, also those that merged indexes replace, with the time in seconds since 1970 at
    /// which each was stored, if it is known.
    pub segments: Vec<(SegmentRow, Option<i64>)>,
}

impl Refs {
    /// Returns the catalogue with all segments, and the newest operation, as one state.
    pub(crate) fn census(&self) -> Result<Census, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        // A database of version 1 does not know when a segment was stored.
        let at = if schema::has_version_2(&conn)? {
            "at"
        } else {
            "NULL"
        };
        let text =
            format!("SELECT pack, kind, start, end, entries, {at}, merged IS NULL FROM segments");
        let listed = |row: &Row<'_>| Ok((segment_row(row)?, row.get(5)?, row.get::<_, bool>(6)?));
        let listed = rows(&conn, &text, [], listed)?;
        let in_use = listed.iter().filter(|(.., is_in_use)| *is_in_use);
        let in_use = in_use.map(|(segment, ..)| *segment).collect();
        let segments = listed.into_iter().map(|(segment, at, _)| (segment, at));
        Ok(Census {
            seen: seen(&conn)?,
            catalogue: Catalogue {
                packs: rows(&conn, PACKS, [], pack_row)?,
                segments: in_use,
                indexes: rows(&conn, INDEXES, [], index_row)?,
            },
            segments: segments.collect(),
        })
    }
}

//! Everything that marking begins with, read as one state.

use super::catalogue::{index_row, pack_row, segment_row};
use super::pack_removal::{SeenOperation, seen};
use super::{Refs, RefsError, schema};
use crate::store::{Catalogue, SegmentRow};

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
        let mut query = conn.prepare_cached("SELECT id, kind, len, poisoned FROM packs")?;
        let packs = query.query_map([], pack_row)?.collect::<Result<_, _>>()?;
        let mut query = conn.prepare_cached("SELECT id, entries FROM indexes")?;
        let indexes = query.query_map([], index_row)?.collect::<Result<_, _>>()?;
        // A database of version 1 does not know when a segment was stored.
        let at = if schema::is_present(&conn)? {
            "at"
        } else {
            "NULL"
        };
        let text =
            format!("SELECT pack, kind, start, end, entries, {at}, merged IS NULL FROM segments");
        let mut query = conn.prepare_cached(&text)?;
        let mut rows = query.query([])?;
        let (mut segments, mut in_use) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let segment = segment_row(row)?;
            segments.push((segment, row.get(5)?));
            in_use.extend(row.get::<_, bool>(6)?.then_some(segment));
        }
        Ok(Census {
            seen: seen(&conn)?,
            catalogue: Catalogue {
                packs,
                segments: in_use,
                indexes,
            },
            segments,
        })
    }
}

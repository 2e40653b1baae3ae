//! The objects that the view is about to name, and their places.

use super::RefsError;
use crate::hash::ObjectId;
use crate::store::PackId;
use rusqlite::{OptionalExtension, Transaction, params};

/// An object that a change of the view names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlace {
    /// The key that names it.
    pub key: String,
    /// The id of the object.
    pub id: ObjectId,
    /// The pack that contains it.
    pub pack: PackId,
    /// Offset of its record in the pack.
    pub offset: u64,
}

/// Fails if an object is in no listed segment: it would be lost.
pub(super) fn check_named(tx: &Transaction, named: &[NamedPlace]) -> Result<(), RefsError> {
    let mut query = tx.prepare_cached(
        "SELECT start FROM segments WHERE pack = ?1 AND end > ?2 ORDER BY end LIMIT 1",
    )?;
    for place in named {
        let offset = i64::try_from(place.offset).unwrap_or(i64::MAX);
        let start: Option<i64> = query
            .query_row(params![place.pack, offset], |row| row.get(0))
            .optional()?;
        if start.is_none_or(|start| start > offset) {
            return Err(RefsError::NotStored {
                key: place.key.clone(),
                id: place.id,
            });
        }
    }
    Ok(())
}

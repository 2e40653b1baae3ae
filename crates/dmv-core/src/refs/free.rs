//! Taking packs out of use (docs/format/layout.md, "Removing packs").
//!
//! The row `freed` of the table `meta` counts how often that happened. The table `leaving` names packs
//! that are out of use and whose files may still be there.

use super::{Refs, RefsError, schema};
use crate::store::{PackId, random_bytes};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

/// The key of the counter.
const FREED: &str = "freed";

/// How often packs were taken out of use. While two values are equal, none was in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed(u64);

impl Refs {
    /// Returns how often packs were taken out of use.
    ///
    /// A job asks before it loads the tables that it relies on: a value that is too old is always
    /// safe.
    pub fn freed(&self) -> Result<Freed, RefsError> {
        freed(&self.conn())
    }

    /// Returns the packs that are out of use and whose files may still be there. No job may take
    /// them into use again.
    pub fn leaving(&self) -> Result<Vec<PackId>, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        if !schema::is_present(&conn)? {
            return Ok(Vec::new());
        }
        let mut query = conn.prepare_cached("SELECT id FROM leaving")?;
        let ids = query.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
        let ids = ids.collect::<Result<Vec<_>, _>>()?.into_iter();
        // A malformed id names no pack.
        Ok(ids
            .filter_map(|id| Some(PackId::from_bytes(id.try_into().ok()?)))
            .collect())
    }
}

/// Returns how often packs were taken out of use, as of this transaction.
pub(super) fn freed(conn: &Connection) -> Result<Freed, RefsError> {
    let mut query = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let value: Option<Vec<u8>> = query.query_row([FREED], |row| row.get(0)).optional()?;
    let Some(value) = value else {
        return Ok(Freed(0));
    };
    let damaged = |_| RefsError::Damaged("the row freed of the table meta is no number".into());
    Ok(Freed(u64::from_le_bytes(
        value.try_into().map_err(damaged)?,
    )))
}

fn put_freed(tx: &Transaction, freed: Freed) -> Result<(), RefsError> {
    let value = freed.0.to_le_bytes();
    tx.execute("REPLACE INTO meta VALUES(?1, ?2)", params![FREED, value])?;
    Ok(())
}

/// Counts that packs may have gone without [`Refs::freed`] having counted them, also after the
/// counter was lost.
pub(super) fn begin_anew(tx: &Transaction) -> Result<(), RefsError> {
    let next = match freed(tx) {
        Ok(Freed(known)) => known.wrapping_add(1),
        // A value that no process has seen.
        Err(RefsError::Damaged(_)) => u64::from_le_bytes(std::array::from_fn({
            let random = random_bytes();
            move |n| random[n]
        })),
        Err(e) => return Err(e),
    };
    put_freed(tx, Freed(next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::error::Error;

    #[test]
    fn a_count_that_is_no_number_is_damage_until_it_begins_anew() -> Result<(), Box<dyn Error>> {
        let temp = tempfile::tempdir()?;
        let refs = Refs::create(&temp.path().join("refs.db"))?;
        assert_eq!(refs.freed()?, Freed(0));
        let mut seen = Vec::new();
        for damaged in [&b""[..], b"1234567", b"123456789"] {
            refs.conn()
                .execute("REPLACE INTO meta VALUES('freed', ?1)", [damaged])?;
            let refused = refs.freed().expect_err("it is damaged");
            assert!(refused.is_damage(), "{refused}");
            let lock = refs.lock_database()?;
            refs.write(&lock, |tx| begin_anew(tx).map(Some))?;
            seen.push(refs.freed()?);
            refs.write(&lock, |tx| begin_anew(tx).map(Some))?;
            seen.push(refs.freed()?);
        }
        for (n, freed) in seen.iter().enumerate() {
            assert!(!seen[..n].contains(freed), "{seen:?}");
        }
        Ok(())
    }

    #[test]
    fn a_malformed_row_of_packs_that_leave_names_no_pack() -> Result<(), Box<dyn Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let refs = Refs::create(&path)?;
        assert_eq!(refs.leaving()?, []);
        let other = Connection::open(&path)?;
        for id in [&[7; 16][..], &[7; 15], &[], &[7; 32]] {
            other.execute("INSERT INTO leaving VALUES(?1)", [id])?;
        }
        assert_eq!(refs.leaving()?, [PackId::from_bytes([7; 16])]);
        Ok(())
    }
}

//! Taking packs out of use (docs/format/layout.md, "Removing packs").
//!
//! The row `freed` of the table `meta` counts how often that happened. The table `leaving` names packs
//! that are out of use and whose files may still be there.

use super::catalogue::unmerge;
use super::sql::rows;
use super::{DatabaseLock, Refs, RefsError, log_position, newest, schema};
use crate::store::{IndexId, LogPack, PackId, PackRow, random_bytes};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// The key of the counter.
const FREED: &str = "freed";

/// How often packs were taken out of use. While two values are equal, none was in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeCount(u64);

/// The newest operation that a job has taken into account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenOperation {
    /// Its number; 0 if there is none.
    pub seq: u64,
    /// Its id.
    pub id: [u8; 16],
}

/// The result of `Refs::condemn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CondemnResult {
    /// The packs are out of use, and these merged indexes as well: they have no segment left.
    Done(Vec<IndexId>),
    /// There is another newest operation than the one that was seen. It may need the packs.
    Newer,
    /// The log pack has an operation that the database lacks: a command was killed between its
    /// record and its commit. The database must catch up first.
    Behind,
    /// A pack has grown or is not listed any more.
    Grown,
    /// These merged indexes name one copy of an object in such a pack and may hide another one. They
    /// have to go out of use together with the packs, and the caller has not said that they may.
    Hiding(Vec<IndexId>),
}

impl Refs {
    /// Returns the newest operation.
    ///
    /// A job that frees space asks before it loads the catalogue, so that what it loads has
    /// everything that this operation and earlier ones need.
    pub fn seen(&self) -> Result<SeenOperation, RefsError> {
        seen(&self.conn())
    }

    /// Takes packs out of use: later jobs that rely on them are refused. The caller holds the locks
    /// of their files and then removes these.
    ///
    /// Changes nothing unless `seen` is the newest operation, the database is level with the log
    /// and each pack ends where its row says. So a command that has marked what the operations up to
    /// `seen` need knows everything that is needed.
    pub(crate) fn condemn(
        &self,
        lock: &DatabaseLock,
        log: &LogPack,
        packs: &[PackRow],
        seen: SeenOperation,
        dissolved: &[IndexId],
    ) -> Result<CondemnResult, RefsError> {
        let mut why_not = CondemnResult::Grown;
        let done = self.write(lock, |tx| {
            if let Some(why) = check(tx, log, packs, seen, &self.path)? {
                why_not = why;
                return Ok(None);
            }
            let indexes = Over::of(tx, packs)?;
            let refused = indexes.iter().filter(|over| over.hides());
            let refused = refused.map(|over| over.index);
            let refused: Vec<IndexId> = refused.filter(|id| !dissolved.contains(id)).collect();
            if !refused.is_empty() {
                why_not = CondemnResult::Hiding(refused);
                return Ok(None);
            }
            condemn(tx, packs, &indexes).map(Some)
        })?;
        Ok(done.map_or(why_not, CondemnResult::Done))
    }

    /// Forgets packs that are out of use and whose files are durably gone, or that are in use after
    /// all.
    pub(crate) fn forget_leaving(
        &self,
        lock: &DatabaseLock,
        packs: &[PackId],
    ) -> Result<(), RefsError> {
        self.change_under(lock, |tx| {
            let mut query = tx.prepare_cached("DELETE FROM leaving WHERE id = ?1")?;
            for id in packs {
                query.execute([id])?;
            }
            drop(query);
            tx.execute("DELETE FROM leaving WHERE length(id) != 16", [])?;
            Ok(())
        })
    }

    /// Returns whether a pack is out of use. Then no job may take it into use again.
    pub fn is_leaving(&self, pack: PackId) -> Result<bool, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        if !schema::has_version_2(&conn)? {
            return Ok(false);
        }
        let mut query = conn.prepare_cached("SELECT 1 FROM leaving WHERE id = ?1")?;
        Ok(query.exists([pack])?)
    }

    /// Returns the merged indexes that replace tables of a pack.
    pub fn indexes_over(&self, pack: PackId) -> Result<Vec<IndexId>, RefsError> {
        indexes_over(&self.conn(), pack)
    }

    /// Returns how often packs were taken out of use.
    ///
    /// A job asks before it loads the tables that it relies on: a value that is too old is always
    /// safe.
    pub fn freed(&self) -> Result<FreeCount, RefsError> {
        freed(&self.conn())
    }

    /// Returns the packs that are out of use and whose files may still be there. No job may take
    /// them into use again.
    pub fn leaving(&self) -> Result<Vec<PackId>, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        if !schema::has_version_2(&conn)? {
            return Ok(Vec::new());
        }
        let ids = rows(&conn, "SELECT id FROM leaving", [], |row| row.get(0))?;
        // A malformed id names no pack.
        let packs = ids.into_iter().filter_map(|id: Vec<u8>| id.try_into().ok());
        Ok(packs.map(PackId::from_bytes).collect())
    }
}

/// Returns how often packs were taken out of use, as of this transaction.
pub(super) fn freed(conn: &Connection) -> Result<FreeCount, RefsError> {
    let mut query = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let value: Option<Vec<u8>> = query.query_row([FREED], |row| row.get(0)).optional()?;
    let Some(value) = value else {
        return Ok(FreeCount(0));
    };
    let damaged = |_| RefsError::Damaged("the row freed of the table meta is not a number".into());
    Ok(FreeCount(u64::from_le_bytes(
        value.try_into().map_err(damaged)?,
    )))
}

pub(super) fn seen(conn: &Connection) -> Result<SeenOperation, RefsError> {
    let newest = newest(conn)?.map(|operation| SeenOperation {
        seq: operation.seq,
        id: operation.id,
    });
    Ok(newest.unwrap_or_default())
}

/// Returns why packs may not go.
fn check(
    tx: &Transaction,
    log: &LogPack,
    packs: &[PackRow],
    expected: SeenOperation,
    db: &Path,
) -> Result<Option<CondemnResult>, RefsError> {
    match log_position::check(tx, log, db) {
        Err(RefsError::OtherLog(_)) => return Ok(Some(CondemnResult::Behind)),
        checked => checked?,
    }
    if seen(tx)? != expected {
        return Ok(Some(CondemnResult::Newer));
    }
    let mut query = tx.prepare_cached("SELECT 1 FROM packs WHERE id = ?1 AND len = ?2")?;
    for pack in packs {
        if !query.exists(params![pack.id, pack.len as i64])? {
            return Ok(Some(CondemnResult::Grown));
        }
    }
    Ok(None)
}

/// A merged index over packs that are to go. The row of an index has the number of its entries that
/// count.
struct Over {
    index: IndexId,
    /// Its entries that count.
    entries: u64,
    /// The entries of its segments' own tables.
    listed: u64,
    /// Those of them in packs that go.
    going: u64,
}

impl Over {
    fn of(tx: &Transaction, packs: &[PackRow]) -> Result<Vec<Over>, RefsError> {
        let mut indexes = BTreeSet::new();
        for pack in packs {
            indexes.extend(indexes_over(tx, pack.id)?);
        }
        let going: HashSet<PackId> = packs.iter().map(|pack| pack.id).collect();
        let mut entries = tx.prepare_cached("SELECT entries FROM indexes WHERE id = ?1")?;
        let segments = "SELECT pack, entries FROM segments WHERE merged = ?1";
        let mut out = Vec::new();
        for index in indexes {
            let mut over = Over {
                index,
                entries: entries
                    .query_row([index], |row| row.get::<_, u32>(0))
                    .optional()?
                    .map_or(0, u64::from),
                listed: 0,
                going: 0,
            };
            let segment = |row: &Row| Ok((row.get(0)?, row.get::<_, u32>(1)?));
            for (pack, entries) in rows(tx, segments, [index], segment)? {
                over.listed += u64::from(entries);
                if going.contains(&pack) {
                    over.going += u64::from(entries);
                }
            }
            out.push(over);
        }
        Ok(out)
    }

    fn is_empty_now(&self) -> bool {
        self.going == self.listed
    }

    /// Returns whether the index hides copies that may be needed without the packs that go. It has
    /// one entry for each object, and the segments one for each copy.
    fn hides(&self) -> bool {
        self.entries != self.listed && !self.is_empty_now()
    }
}

/// Takes packs out of use. Returns the merged indexes that go out of use with them. Entries of these
/// packs in other merged indexes do not count from now on.
fn condemn(tx: &Transaction, packs: &[PackRow], over: &[Over]) -> Result<Vec<IndexId>, RefsError> {
    for pack in packs {
        tx.execute("DELETE FROM segments WHERE pack = ?1", [pack.id])?;
        tx.execute("DELETE FROM packs WHERE id = ?1", [pack.id])?;
    }
    let ids: Vec<PackId> = packs.iter().map(|pack| pack.id).collect();
    put_leaving(tx, &ids)?;
    let mut gone = Vec::new();
    for over in over {
        if over.hides() || over.is_empty_now() {
            unmerge(tx, over.index)?;
            gone.push(over.index);
        } else {
            let left = (over.entries - over.going) as i64;
            let query = "UPDATE indexes SET entries = ?2 WHERE id = ?1";
            tx.execute(query, params![over.index, left])?;
        }
    }
    let FreeCount(before) = freed(tx)?;
    put_freed(tx, FreeCount(before.wrapping_add(1)))?;
    Ok(gone)
}

fn indexes_over(conn: &Connection, pack: PackId) -> Result<Vec<IndexId>, RefsError> {
    let query = "SELECT DISTINCT merged FROM segments WHERE pack = ?1 AND merged IS NOT NULL";
    rows(conn, query, [pack], |row| row.get(0))
}

fn put_leaving(tx: &Transaction, packs: &[PackId]) -> Result<(), RefsError> {
    let mut query = tx.prepare_cached("INSERT OR IGNORE INTO leaving VALUES(?1)")?;
    for id in packs {
        query.execute([id])?;
    }
    Ok(())
}

/// Fails if packs were taken out of use since a job looked at what it is about to name.
pub(super) fn check_since(tx: &Transaction, since: Option<FreeCount>) -> Result<(), RefsError> {
    match since {
        Some(since) if freed(tx)? != since => Err(RefsError::MayBeGone),
        _ => Ok(()),
    }
}

fn put_freed(tx: &Transaction, freed: FreeCount) -> Result<(), RefsError> {
    let value = freed.0.to_le_bytes();
    tx.execute("REPLACE INTO meta VALUES(?1, ?2)", params![FREED, value])?;
    Ok(())
}

/// Counts that packs may have gone without [`Refs::freed`] having counted them, also after the
/// counter was lost. From now on `leaving` are the packs that are out of use and still there.
pub(super) fn begin_anew(tx: &Transaction, leaving: &[PackId]) -> Result<(), RefsError> {
    tx.execute("DELETE FROM leaving", [])?;
    put_leaving(tx, leaving)?;
    let next = match freed(tx) {
        Ok(FreeCount(known)) => known.wrapping_add(1),
        // A value that no process has seen.
        Err(RefsError::Damaged(_)) => u64::from_le_bytes(std::array::from_fn({
            let random = random_bytes();
            move |n| random[n]
        })),
        Err(e) => return Err(e),
    };
    put_freed(tx, FreeCount(next))
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
        assert_eq!(refs.freed()?, FreeCount(0));
        let mut seen = Vec::new();
        for damaged in [&b""[..], b"1234567", b"123456789"] {
            refs.conn()
                .execute("REPLACE INTO meta VALUES('freed', ?1)", [damaged])?;
            let refused = refs.freed().expect_err("it is damaged");
            assert!(refused.is_damage(), "{refused}");
            let lock = refs.lock_database()?;
            refs.write(&lock, |tx| begin_anew(tx, &[]).map(Some))?;
            seen.push(refs.freed()?);
            refs.write(&lock, |tx| begin_anew(tx, &[]).map(Some))?;
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

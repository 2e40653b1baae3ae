//! Compares how far the database and the log pack are.
//!
//! The row `log` of the table `meta` is the length of the log pack after the last operation that
//! the database knows. `repo::base::level` examines what comes after it.

use super::catalogue::{
    INDEXES, PACKS, index_row, pack_row, put_segment, put_segments, segment_row,
};
use super::sql::rows;
use super::{DatabaseLock, Operation, Refs, RefsError, newest, pack_removal, put_operation, set};
use crate::store::{Catalogue, IndexId, IndexRow, LogPack, PackId, PackRow, SegmentRow};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::collections::BTreeMap;
use std::path::Path;

/// The key of this row.
const LOG: &str = "log";

/// How far the database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Length of the log pack after the last change; `None` in a database of an earlier dmv.
    pub log_end: Option<u64>,
    /// The newest operation.
    pub last: Option<Operation>,
}

impl Refs {
    /// Returns how far the database is.
    pub fn log_position(&self) -> Result<LogPosition, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        Ok(LogPosition {
            log_end: log_end(&conn)?,
            last: newest(&conn)?,
        })
    }

    /// Returns whether the database has the operation, by number and id.
    pub fn knows(&self, operation: &Operation) -> Result<bool, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached("SELECT record FROM ops WHERE seq = ?1")?;
        let seq = i64::try_from(operation.seq).unwrap_or(i64::MAX);
        let record: Option<Vec<u8>> = query.query_row([seq], |row| row.get(0)).optional()?;
        let known = record.and_then(|record| Operation::decode(&record).ok());
        Ok(known.is_some_and(|known| known.id == operation.id))
    }

    /// Adds operations that the log pack has after the last known one, and segments that the packs
    /// have. `log_end` is the offset up to which the log pack was read.
    pub(crate) fn roll_forward(
        &self,
        lock: &DatabaseLock,
        segments: &[SegmentRow],
        operations: &[Operation],
        log_end: u64,
    ) -> Result<(), RefsError> {
        self.change_under(lock, |tx| {
            let at = operations.last().map(|operation| operation.time.seconds);
            put_segments(tx, segments, at)?;
            put_operations(tx, operations)?;
            put_log_end(tx, log_end)?;
            Ok(())
        })
    }

    /// Replaces the complete content with the state recovered from packs and log, in one
    /// transaction. Packs that were listed before may be gone, so it counts as
    /// [freed](Self::freed). `leaving` names the packs that are out of use and still there.
    pub(crate) fn rebuild(
        &self,
        lock: &DatabaseLock,
        catalogue: &Catalogue,
        leaving: &[PackId],
        operations: &[Operation],
        log_end: u64,
    ) -> Result<(), RefsError> {
        self.change_under(lock, |tx| {
            pack_removal::begin_anew(tx, leaving)?;
            for table in ["view", "ops", "packs", "segments", "indexes"] {
                tx.execute(&format!("DELETE FROM {table}"), [])?;
            }
            for pack in &catalogue.packs {
                tx.execute(
                    "INSERT INTO packs VALUES(?1, ?2, ?3, ?4)",
                    params![pack.id, pack.kind as u8, pack.len as i64, pack.poisoned],
                )?;
            }
            for segment in &catalogue.segments {
                put_segment(tx, segment, None)?;
            }
            put_operations(tx, operations)?;
            put_log_end(tx, log_end)?;
            Ok(())
        })
    }

    /// Returns every operation that can be read, in order, as far as the database is readable.
    pub(crate) fn readable_operations(&self) -> Vec<Operation> {
        let conn = self.conn();
        let Ok(mut query) = conn.prepare("SELECT record FROM ops ORDER BY seq") else {
            return Vec::new();
        };
        let Ok(rows) = query.query_map([], |row| row.get::<_, Vec<u8>>(0)) else {
            return Vec::new();
        };
        rows.map_while(Result::ok)
            .filter_map(|record| Operation::decode(&record).ok())
            .collect()
    }

    /// Returns the packs that must not be written to, as far as the database is readable.
    pub fn poisoned(&self) -> Vec<PackId> {
        let packs = self.catalogue().map(|known| known.packs);
        let packs = packs.unwrap_or_default().into_iter();
        packs.filter(|row| row.poisoned).map(|row| row.id).collect()
    }
}

/// The content of all tables, read as one state.
#[derive(Debug, Default)]
pub struct Rows {
    /// Keys and values.
    pub view: BTreeMap<String, Vec<u8>>,
    /// Encoded operations by number.
    pub operations: Vec<(u64, Vec<u8>)>,
    /// Packs.
    pub packs: Vec<PackRow>,
    /// All segments, including those that merged indexes replace.
    pub segments: Vec<SegmentRow>,
    /// Merged indexes.
    pub indexes: Vec<IndexRow>,
    /// The merged index of each segment that has one.
    pub merged: Vec<IndexId>,
}

impl Refs {
    /// Returns the content of all tables, as one state.
    pub fn rows(&self) -> Result<Rows, RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        let view = "SELECT key, value FROM view";
        let ops = "SELECT seq, record FROM ops ORDER BY seq";
        let segments = "SELECT pack, kind, start, end, entries FROM segments";
        let merged = "SELECT merged FROM segments WHERE merged IS NOT NULL";
        let pair = |row: &Row| Ok((row.get(0)?, row.get(1)?));
        let operation = |row: &Row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?));
        Ok(Rows {
            view: rows(&conn, view, [], pair)?.into_iter().collect(),
            operations: rows(&conn, ops, [], operation)?,
            packs: rows(&conn, PACKS, [], pack_row)?,
            segments: rows(&conn, segments, [], segment_row)?,
            indexes: rows(&conn, INDEXES, [], index_row)?,
            merged: rows(&conn, merged, [], |row| row.get(0))?,
        })
    }
}

fn put_operations(tx: &Transaction, operations: &[Operation]) -> Result<(), RefsError> {
    for operation in operations {
        for change in &operation.changes {
            set(tx, &change.key, change.new.as_deref())?;
        }
        put_operation(tx, operation)?;
    }
    Ok(())
}

fn log_end(conn: &Connection) -> Result<Option<u64>, RefsError> {
    let mut query = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let value: Option<Vec<u8>> = query.query_row([LOG], |row| row.get(0)).optional()?;
    // A malformed value counts as absent.
    Ok(value.and_then(|value| Some(u64::from_le_bytes(value.try_into().ok()?))))
}

pub(super) fn put_log_end(tx: &Transaction, end: u64) -> Result<(), RefsError> {
    let value = end.to_le_bytes();
    tx.execute("REPLACE INTO meta VALUES(?1, ?2)", params![LOG, value])?;
    Ok(())
}

/// Checks that the log pack ends where this database left it.
pub(super) fn check(tx: &Transaction, log: &LogPack, db: &Path) -> Result<(), RefsError> {
    if !log.is_in_place()? {
        // `recover` has written a new log pack. An operation appended to the old one would be in no
        // log.
        return Err(RefsError::Replaced(log.path().to_owned()));
    }
    let len = log.len()?;
    match log_end(tx)? {
        Some(end) if end == len => Ok(()),
        Some(end) if end > len => Err(RefsError::LogBehind(log.path().to_owned())),
        None if newest(tx)?.is_none() && log.is_empty()? => Ok(()),
        _ => Err(RefsError::OtherLog(db.to_owned())),
    }
}

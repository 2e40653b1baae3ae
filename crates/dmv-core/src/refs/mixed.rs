//! Detects a database that was put beside the write-ahead log of another time.
//!
//! SQLite takes pages from the log if it has them, and from the file otherwise. It cannot detect
//! that the file is older than the log. So each page is valid, and the tables contradict each
//! other.

use super::{Operation, Refs, RefsError, view_of};
use rusqlite::Connection;
use std::collections::BTreeMap;

impl Refs {
    /// Fails if the tables of the database contradict each other.
    ///
    /// It checks only if the write-ahead log was not empty when the database was opened. The log is
    /// empty while no process works.
    pub fn check_not_mixed(&self) -> Result<(), RefsError> {
        if !self.found_log {
            return Ok(());
        }
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        match is_whole(&conn)? && has_all_segments(&conn)? && fits_operations(&conn)? {
            true => Ok(()),
            false => Err(RefsError::mixed()),
        }
    }

    /// Returns whether [`check_not_mixed`](Self::check_not_mixed) checks anything.
    pub fn may_be_mixed(&self) -> bool {
        self.found_log
    }
}

/// Returns whether SQLite finds its own structures intact.
fn is_whole(conn: &Connection) -> Result<bool, RefsError> {
    let line: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(line == "ok")
}

/// Returns whether each pack ends where its last segment does.
fn has_all_segments(conn: &Connection) -> Result<bool, RefsError> {
    let mut query = conn.prepare(
        "SELECT 1 FROM segments LEFT JOIN packs ON packs.id = segments.pack
         GROUP BY segments.pack HAVING packs.len IS NOT max(segments.end)",
    )?;
    Ok(!query.exists([])?)
}

/// Returns whether the view is the result of the operations.
fn fits_operations(conn: &Connection) -> Result<bool, RefsError> {
    let mut query = conn.prepare("SELECT record FROM ops ORDER BY seq")?;
    let mut operations = Vec::new();
    for record in query.query_map([], |row| row.get::<_, Vec<u8>>(0))? {
        operations.push(Operation::decode(&record?)?);
    }
    let mut query = conn.prepare("SELECT key, value FROM view")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let view: BTreeMap<String, Vec<u8>> = rows.collect::<Result<_, _>>()?;
    let view = view.iter().map(|(key, value)| (&**key, &**value));
    Ok(view.eq(view_of(&operations)))
}

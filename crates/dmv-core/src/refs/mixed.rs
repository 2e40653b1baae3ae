//! A database that was put beside the write-ahead log of another time.
//!
//! SQLite takes pages from the log if it has them, and from the file if not. It cannot tell that the
//! file is older than the log. So each page makes sense, and the tables contradict each other.

use super::{Operation, Refs, RefsError, view_of};
use rusqlite::Connection;
use std::collections::BTreeMap;

impl Refs {
    /// Refuses a database whose tables contradict each other. Looks only where the write-ahead log
    /// held something when the database was opened: as long as nobody is at work it is empty.
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

    /// Whether [`check_not_mixed`](Self::check_not_mixed) looks.
    pub fn may_be_mixed(&self) -> bool {
        self.found_log
    }
}

/// Whether SQLite finds its own structures in order.
fn is_whole(conn: &Connection) -> Result<bool, RefsError> {
    let line: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(line == "ok")
}

/// Whether each pack ends where its last segment does.
fn has_all_segments(conn: &Connection) -> Result<bool, RefsError> {
    let mut query = conn.prepare(
        "SELECT 1 FROM segments LEFT JOIN packs ON packs.id = segments.pack
         GROUP BY segments.pack HAVING packs.len IS NOT max(segments.end)",
    )?;
    Ok(!query.exists([])?)
}

/// Whether the view is what the operations make it.
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

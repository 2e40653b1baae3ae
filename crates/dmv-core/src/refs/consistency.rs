//! A database that was put beside the write-ahead log of another time.
//!
//! SQLite takes pages from the log if it has them, and from the file if not. It cannot tell that the
//! file is older than the log. So each page makes sense, and the tables contradict each other.

use super::{Operation, Refs, RefsError, view_of};
use crate::hash::check;
use crate::platform::{OwnAccess, open_own, read_exact_at, stat_at_unfollowed, write_all_at};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of the write-ahead log's header. It has random numbers that change whenever the log begins
/// again.
const LOG_HEADER_BYTES: usize = 32;
/// Bytes of a note: seven numbers about the file, the log's header, the check of both.
const NOTE_BYTES: usize = 7 * 8 + LOG_HEADER_BYTES + 8;

impl Refs {
    /// Whether the database may lie beside the write-ahead log of another time. The log is empty while
    /// no command runs. Otherwise its last writer has noted which file it belongs to.
    pub(crate) fn may_be_inconsistent(&self) -> bool {
        self.may_be_inconsistent
    }

    /// Refuses a database whose tables contradict each other. Reads all of it.
    pub fn check_tables(&self) -> Result<(), RefsError> {
        let conn = self.conn();
        let _read = conn.unchecked_transaction()?;
        if is_whole(&conn)? && has_all_segments(&conn)? && fits_operations(&conn)? {
            Ok(())
        } else {
            Err(RefsError::inconsistent())
        }
    }

    /// Notes that the database and its write-ahead log belong together as they are now.
    pub(crate) fn note_fit(&self) {
        // Without the note the next command checks.
        let _ = note(&self.path);
    }
}

/// Whether the write-ahead log of the database at `path` is not empty, and no note says that they
/// belong together.
pub(super) fn is_doubtful(path: &Path) -> bool {
    let log = stat_at_unfollowed(&path.with_extension("db-wal"));
    if !log.is_ok_and(|log| log.size > 0) {
        return false;
    }
    let is_noted = || -> io::Result<bool> {
        let mut noted = [0; NOTE_BYTES];
        let file = open_own(&note_of(path), OwnAccess::Read)?;
        read_exact_at(&file, &mut noted, 0)?;
        Ok(state(path)?.is_some_and(|now| now == noted))
    };
    !is_noted().unwrap_or(false)
}

fn note_of(path: &Path) -> PathBuf {
    path.with_extension("fits")
}

fn note(path: &Path) -> io::Result<()> {
    let Some(now) = state(path)? else {
        return Ok(());
    };
    let file = open_own(&note_of(path), OwnAccess::Create)?;
    write_all_at(&file, &now, 0)
}

/// What changes when the file is replaced or written to, or when the log begins again; `None` without
/// a log.
fn state(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; LOG_HEADER_BYTES];
    let log = open_own(&path.with_extension("db-wal"), OwnAccess::Read);
    match log.and_then(|log| read_exact_at(&log, &mut header, 0)) {
        Err(e) if [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof].contains(&e.kind()) => {
            return Ok(None);
        }
        done => done?,
    }
    let stat = stat_at_unfollowed(path)?;
    let times = [stat.mtime, stat.ctime];
    let times = times.map(|time| [time.seconds.cast_unsigned(), time.nanos.into()]);
    let mut out = Vec::with_capacity(NOTE_BYTES);
    let numbers = [stat.dev, stat.ino, stat.size];
    for number in numbers.into_iter().chain(times.into_iter().flatten()) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&header);
    let sum = check(&[&out]);
    out.extend_from_slice(&sum);
    Ok(Some(out))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{PackId, PackKind, SegmentRow};

    #[test]
    fn what_was_noted_is_not_checked_again() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let writer = Refs::create(&path)?;
        let segment = |n: u8| SegmentRow {
            pack: PackId::from_bytes([n; 16]),
            kind: PackKind::Data,
            start: 64,
            end: 128,
            entries: 1,
        };
        writer.add_segments(&[segment(1)], &[], None)?;
        let log = path.with_extension("db-wal");
        assert!(std::fs::metadata(&log)?.len() > 0);
        // A process that wrote to the log has noted it, also where it only continued.
        assert!(!Refs::open(&path)?.may_be_inconsistent());
        writer.add_segments(&[segment(2)], &[], None)?;
        assert!(!Refs::open(&path)?.may_be_inconsistent());
        // Without the note it is checked, until a process notes it.
        std::fs::remove_file(note_of(&path))?;
        let refs = Refs::open(&path)?;
        assert!(refs.may_be_inconsistent());
        refs.check_tables()?;
        refs.note_fit();
        assert!(!Refs::open(&path)?.may_be_inconsistent());
        // A file of other times, and a note that was cut short.
        let file = std::fs::File::options().write(true).open(&path)?;
        file.set_modified(std::time::UNIX_EPOCH)?;
        assert!(Refs::open(&path)?.may_be_inconsistent());
        refs.note_fit();
        assert!(!Refs::open(&path)?.may_be_inconsistent());
        std::fs::write(note_of(&path), "")?;
        assert!(Refs::open(&path)?.may_be_inconsistent());
        // With an empty log there is nothing to be in doubt of.
        let lock = writer.lock_database()?;
        drop(refs);
        writer.write_back(&lock);
        assert_eq!(std::fs::metadata(&log)?.len(), 0);
        assert!(!Refs::open(&path)?.may_be_inconsistent());
        Ok(())
    }
}

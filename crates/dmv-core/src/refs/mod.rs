//! The small mutable state: the view, the operation log, the catalogue of packs.
//!
//! [`Refs::publish`] is the one commit point of a repository (docs/format/layout.md, "Order of
//! writes"). Everything here can be rebuilt from packs. This room knows keys and values, not what
//! a branch means.

mod name;
mod operation;
mod schema;

pub use name::{RefNameError, check_ref_name};
pub use operation::{Change, Effect, Made, Operation, Timestamp, newest_chain};

use crate::object::codec::DecodeError;
use crate::store::{
    Catalogue, FileId, IndexRow, Merged, PackKind, PackRow, SegmentRow, StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What can go wrong with refs.
#[derive(Debug, thiserror::Error)]
pub enum RefsError {
    /// SQLite reports trouble.
    #[error("refs database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database's content makes no sense.
    #[error("refs database is damaged: {0}")]
    Damaged(String),
    /// A database of a later version.
    #[error("refs database has version {0}; this dmv knows 1")]
    TooNew(i32),
    /// An operation of a later version.
    #[error("the operation log has an operation of a version that this dmv does not know")]
    NewerOperation,
    /// A SQLite library that may corrupt the database.
    #[error("SQLite {0} has a known corruption bug; 3.51.3 or later is needed")]
    OldSqlite(String),
    /// A key did not have the value the job started from.
    #[error("{key} was changed by another command meanwhile")]
    Moved {
        /// The key.
        key: String,
    },
    /// A pack that the job relies on is gone.
    #[error("pack {0} was removed meanwhile; run the command again")]
    PackGone(FileId),
    /// The repository cannot be written to.
    #[error("cannot write to {}", .0.display())]
    ReadOnly(PathBuf),
    /// The disk is full, or fails.
    #[error("cannot write to {}: {source}", path.display())]
    Disk {
        /// The database.
        path: PathBuf,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The operation log could not be written.
    #[error(transparent)]
    Log(#[from] StoreError),
}

impl RefsError {
    /// Whether opening failed because the file system does not let us write.
    fn is_write_trouble(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DiskFull, FileLockingProtocolFailed, PermissionDenied, ReadOnly,
            SystemIoFailure,
        };
        let e = match self {
            RefsError::Sqlite(e) => e,
            other => return matches!(other, RefsError::ReadOnly(_)),
        };
        let write = [
            CannotOpen,
            DiskFull,
            FileLockingProtocolFailed,
            PermissionDenied,
            ReadOnly,
            SystemIoFailure,
        ];
        e.sqlite_error_code()
            .is_some_and(|code| write.contains(&code))
    }

    /// Whether another process kept the database locked for too long.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        let RefsError::Sqlite(e) = self else {
            return false;
        };
        e.sqlite_error_code()
            .is_some_and(|c| c == DatabaseBusy || c == DatabaseLocked)
    }

    /// Whether the database is there and makes no sense.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            RefsError::Sqlite(e) => e
                .sqlite_error_code()
                .is_some_and(|c| c == DatabaseCorrupt || c == NotADatabase),
            RefsError::Damaged(_) => true,
            _ => false,
        }
    }

    /// Whether there is no room for what was to be written.
    pub fn is_disk_full(&self) -> bool {
        let full =
            |e: &rusqlite::Error| e.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        matches!(self, RefsError::Disk { source, .. } if full(source))
    }

    /// Whether the system does not let this user at the database.
    pub fn is_refused(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, PermissionDenied};
        let RefsError::Sqlite(e) = self else {
            return false;
        };
        e.sqlite_error_code()
            .is_some_and(|c| c == PermissionDenied || c == CannotOpen)
    }
}

impl From<DecodeError> for RefsError {
    fn from(e: DecodeError) -> RefsError {
        if e.is_too_new() {
            return RefsError::NewerOperation;
        }
        RefsError::Damaged(format!("an operation does not decode: {e}"))
    }
}

/// A change of the view to be made.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// When.
    pub time: Timestamp,
    /// Who.
    pub who: String,
    /// The command line.
    pub command: String,
    /// The operation it takes back, 0 if none.
    pub undoes: u64,
    /// Where it is made, and what it did to files.
    pub made: Made,
    /// The changes; each old value must be what the view holds.
    pub changes: Vec<Change>,
}

/// The open refs database.
pub struct Refs {
    path: PathBuf,
    conn: Mutex<Connection>,
    read_only: bool,
    /// The database's data version when its catalogue was last known to be read.
    seen: AtomicI64,
}

impl Refs {
    /// Makes the database of a new repository.
    pub fn create(path: &Path) -> Result<Refs, RefsError> {
        let conn = schema::create(path)?;
        Ok(Refs {
            path: path.to_owned(),
            seen: AtomicI64::new(schema::data_version(&conn)?),
            conn: Mutex::new(conn),
            read_only: false,
        })
    }

    /// Opens the database, read-only where the disk is.
    pub fn open(path: &Path) -> Result<Refs, RefsError> {
        let (conn, read_only) = schema::open(path)?;
        Ok(Refs {
            path: path.to_owned(),
            seen: AtomicI64::new(schema::data_version(&conn)?),
            conn: Mutex::new(conn),
            read_only,
        })
    }

    /// Opens the database of a repository that somebody else may be writing to, without writing
    /// anything beside it.
    pub fn open_to_read(path: &Path) -> Result<Refs, RefsError> {
        let conn = schema::open_to_read(path)?;
        Ok(Refs {
            path: path.to_owned(),
            seen: AtomicI64::new(schema::data_version(&conn)?),
            conn: Mutex::new(conn),
            read_only: true,
        })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing can be changed here.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Names the database where the disk is the trouble; SQLite does not.
    fn naming_disk<T>(&self, done: Result<T, RefsError>) -> Result<T, RefsError> {
        use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
        done.map_err(|e| match e {
            RefsError::Sqlite(source)
                if matches!(source.sqlite_error_code(), Some(DiskFull | SystemIoFailure)) =>
            {
                let path = self.path.clone();
                RefsError::Disk { path, source }
            }
            other => other,
        })
    }

    fn conn(&self) -> MutexGuard<'_, Connection> {
        self.conn
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached("SELECT value FROM view WHERE key = ?1")?;
        Ok(query.query_row([key], |row| row.get(0)).optional()?)
    }

    /// All keys that begin with `prefix`, with their values, in order.
    pub fn with_prefix(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, RefsError> {
        let conn = self.conn();
        // A key is below "prefix + the greatest character" exactly when it begins with the prefix.
        let mut query = conn.prepare_cached(
            "SELECT key, value FROM view WHERE key >= ?1 AND key < ?2 ORDER BY key",
        )?;
        let end = format!("{prefix}\u{10ffff}");
        let rows = query.query_map([prefix, &end], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Live packs, and the tables in use.
    pub fn catalogue(&self) -> Result<Catalogue, RefsError> {
        self.catalogue_without(&[])
    }

    /// The same, with the segments' own tables in place of some merged index files.
    pub fn catalogue_without(&self, indexes: &[FileId]) -> Result<Catalogue, RefsError> {
        let conn = self.conn();
        // One state of all three tables.
        let _read = conn.unchecked_transaction()?;
        let mut query = conn.prepare_cached("SELECT id, kind, len, poisoned FROM packs")?;
        let packs = query.query_map([], pack_row)?.collect::<Result<_, _>>()?;
        let mut query = conn.prepare_cached(
            "SELECT pack, kind, start, end, entries FROM segments WHERE merged IS ?1",
        )?;
        let mut segments: Vec<SegmentRow> = query
            .query_map([None::<[u8; 16]>], segment_row)?
            .collect::<Result<_, _>>()?;
        for id in indexes {
            for row in query.query_map([id.0], segment_row)? {
                segments.push(row?);
            }
        }
        let mut query = conn.prepare_cached("SELECT id, entries FROM indexes")?;
        let mut in_use: Vec<IndexRow> =
            query.query_map([], index_row)?.collect::<Result<_, _>>()?;
        in_use.retain(|row| !indexes.contains(&row.id));
        Ok(Catalogue {
            packs,
            segments,
            indexes: in_use,
        })
    }

    /// The segments that merged index files stand for.
    pub fn merged_segments(&self) -> Result<Vec<SegmentRow>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached(
            "SELECT pack, kind, start, end, entries FROM segments WHERE merged IS NOT NULL",
        )?;
        Ok(query
            .query_map([], segment_row)?
            .collect::<Result<_, _>>()?)
    }

    /// The segments that one merged index file stands for.
    pub fn segments_merged_in(&self, index: FileId) -> Result<Vec<SegmentRow>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached(
            "SELECT pack, kind, start, end, entries FROM segments WHERE merged = ?1",
        )?;
        Ok(query
            .query_map([index.0], segment_row)?
            .collect::<Result<_, _>>()?)
    }

    /// The segments of a pack.
    pub fn segments_of(&self, pack: FileId) -> Result<Vec<SegmentRow>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached(
            "SELECT pack, kind, start, end, entries FROM segments WHERE pack = ?1",
        )?;
        Ok(query
            .query_map([pack.0], segment_row)?
            .collect::<Result<_, _>>()?)
    }

    /// The catalogue, if another connection has changed the database since this was last asked, or
    /// since it was opened.
    pub fn newer_catalogue(&self) -> Result<Option<Catalogue>, RefsError> {
        let version = schema::data_version(&self.conn())?;
        if self.seen.swap(version, Ordering::Relaxed) == version {
            return Ok(None);
        }
        self.catalogue().map(Some)
    }

    /// A number that changes with each transaction of another connection.
    pub fn version(&self) -> Result<i64, RefsError> {
        schema::data_version(&self.conn())
    }

    /// Forgets merged index files: their segments' own tables are in use again.
    pub fn forget_indexes(&self, indexes: &[FileId]) -> Result<(), RefsError> {
        let mut conn = self.conn();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in indexes {
            unmerge(&tx, *id)?;
        }
        Ok(tx.commit()?)
    }

    /// The current row of one pack.
    pub fn pack(&self, id: FileId) -> Result<Option<PackRow>, RefsError> {
        let conn = self.conn();
        let mut query =
            conn.prepare_cached("SELECT id, kind, len, poisoned FROM packs WHERE id = ?1")?;
        Ok(query.query_row([id.0], pack_row).optional()?)
    }

    /// The commit point: makes `segments` and the view's changes visible together, or neither.
    ///
    /// `append_log` writes the operation's bytes durably; it runs after every check and just before
    /// the database commits. [`RefsError::Moved`] names the first key that is not as expected.
    pub fn publish(
        &self,
        operation: NewOperation,
        segments: &[SegmentRow],
        relied: &[FileId],
        append_log: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<Operation, RefsError> {
        self.naming_disk(self.publish_now(operation, segments, relied, append_log))
    }

    fn publish_now(
        &self,
        operation: NewOperation,
        segments: &[SegmentRow],
        relied: &[FileId],
        append_log: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<Operation, RefsError> {
        if self.read_only {
            return Err(RefsError::ReadOnly(self.path.clone()));
        }
        let mut conn = self.conn();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        check_packs(&tx, relied)?;
        put_segments(&tx, segments)?;
        let operation = record(&tx, operation, append_log)?;
        tx.commit()?;
        Ok(operation)
    }

    /// Makes `segments` visible without an operation: objects that nothing names.
    pub fn add_segments(
        &self,
        segments: &[SegmentRow],
        relied: &[FileId],
    ) -> Result<(), RefsError> {
        self.naming_disk(self.add_segments_now(segments, relied))
    }

    fn add_segments_now(
        &self,
        segments: &[SegmentRow],
        relied: &[FileId],
    ) -> Result<(), RefsError> {
        if self.read_only {
            return Err(RefsError::ReadOnly(self.path.clone()));
        }
        let mut conn = self.conn();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        check_packs(&tx, relied)?;
        put_segments(&tx, segments)?;
        Ok(tx.commit()?)
    }

    /// The number of the newest operation; 0 without one.
    pub fn last_operation(&self) -> Result<u64, RefsError> {
        last_operation(&self.conn())
    }

    /// Takes packs out of the catalogue. Jobs that rely on them are refused from then on.
    ///
    /// Returns the merged index files that are no longer in use. `None`, changing nothing: an
    /// operation came after number `last`, or a pack is longer than it was.
    pub fn remove_packs(
        &self,
        packs: &[PackRow],
        last: u64,
    ) -> Result<Option<Vec<FileId>>, RefsError> {
        self.naming_disk(self.remove_packs_now(packs, last))
    }

    fn remove_packs_now(
        &self,
        packs: &[PackRow],
        last: u64,
    ) -> Result<Option<Vec<FileId>>, RefsError> {
        if self.read_only {
            return Err(RefsError::ReadOnly(self.path.clone()));
        }
        let mut conn = self.conn();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if last_operation(&tx)? != last {
            return Ok(None);
        }
        let mut unmerged = Vec::new();
        for pack in packs {
            let mut query = tx.prepare_cached("SELECT 1 FROM packs WHERE id = ?1 AND len = ?2")?;
            if !query.exists(params![pack.id.0, pack.len as i64])? {
                return Ok(None);
            }
            let mut query = tx.prepare_cached(
                "SELECT DISTINCT merged FROM segments WHERE pack = ?1 AND merged IS NOT NULL",
            )?;
            for index in query.query_map([pack.id.0], |row| file_id(row, 0))? {
                unmerged.push(index?);
            }
        }
        unmerged.sort_unstable();
        unmerged.dedup();
        for index in &unmerged {
            unmerge(&tx, *index)?;
        }
        for pack in packs {
            tx.execute("DELETE FROM segments WHERE pack = ?1", [pack.id.0])?;
            tx.execute("DELETE FROM packs WHERE id = ?1", [pack.id.0])?;
        }
        tx.commit()?;
        Ok(Some(unmerged))
    }

    /// Notes that a pack must not be written to again.
    pub fn poison(&self, pack: FileId) -> Result<(), RefsError> {
        self.conn()
            .execute("UPDATE packs SET poisoned = 1 WHERE id = ?1", [pack.0])?;
        Ok(())
    }

    /// Puts a merged index file in the place of what it covers.
    ///
    /// Returns `false`, changing nothing, when someone else has merged some of it meanwhile.
    pub fn register_merged(&self, merged: &Merged) -> Result<bool, RefsError> {
        let mut conn = self.conn();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for segment in &merged.segments {
            let changed = tx.execute(
                "UPDATE segments SET merged = ?3 WHERE pack = ?1 AND end = ?2 AND merged IS NULL",
                params![segment.pack.0, segment.end as i64, merged.id.0],
            )?;
            if changed != 1 {
                return Ok(false);
            }
        }
        for index in &merged.indexes {
            tx.execute(
                "UPDATE segments SET merged = ?2 WHERE merged = ?1",
                params![index.0, merged.id.0],
            )?;
            if tx.execute("DELETE FROM indexes WHERE id = ?1", [index.0])? != 1 {
                return Ok(false);
            }
        }
        tx.execute(
            "INSERT INTO indexes VALUES(?1, ?2)",
            params![merged.id.0, merged.entries],
        )?;
        tx.commit()?;
        Ok(true)
    }

    /// The newest `limit` operations, newest first.
    pub fn operations(&self, limit: usize) -> Result<Vec<Operation>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached("SELECT record FROM ops ORDER BY seq DESC LIMIT ?1")?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map([limit], |row| row.get::<_, Vec<u8>>(0))?;
        rows.map(|row| Ok(Operation::decode(&row?)?)).collect()
    }

    /// Up to `limit` operations before number `seq`, from the last without it; newest first.
    pub fn operations_before(
        &self,
        seq: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Operation>, RefsError> {
        let conn = self.conn();
        let mut query = conn
            .prepare_cached("SELECT record FROM ops WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2")?;
        let seq = seq.map_or(i64::MAX, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = query.query_map([seq, limit], |row| row.get::<_, Vec<u8>>(0))?;
        rows.map(|row| Ok(Operation::decode(&row?)?)).collect()
    }

    /// Fills an empty database with what was recovered from the packs.
    pub fn restore(
        &self,
        catalogue: &Catalogue,
        operations: &[Operation],
    ) -> Result<(), RefsError> {
        let mut conn = self.conn();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for pack in &catalogue.packs {
            tx.execute(
                "INSERT INTO packs VALUES(?1, ?2, ?3, ?4)",
                params![pack.id.0, pack.kind as u8, pack.len as i64, pack.poisoned],
            )?;
        }
        for segment in &catalogue.segments {
            put_segment(&tx, segment)?;
        }
        for operation in operations {
            for change in &operation.changes {
                set(&tx, &change.key, change.new.as_deref())?;
            }
            put_operation(&tx, operation)?;
        }
        Ok(tx.commit()?)
    }

    /// SQLite's own check of the file; empty when all is well.
    pub fn integrity(&self) -> Result<Vec<String>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare("PRAGMA integrity_check(20)")?;
        let rows = query.query_map([], |row| row.get::<_, String>(0))?;
        let lines: Vec<String> = rows.collect::<Result<_, _>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }
}

fn last_operation(conn: &Connection) -> Result<u64, RefsError> {
    let last: Option<i64> = conn.query_row("SELECT max(seq) FROM ops", [], |row| row.get(0))?;
    Ok(last.map_or(0, i64::unsigned_abs))
}

/// Puts the tables of a merged index's segments back into use.
fn unmerge(tx: &Transaction, index: FileId) -> Result<(), RefsError> {
    tx.execute(
        "UPDATE segments SET merged = NULL WHERE merged = ?1",
        [index.0],
    )?;
    tx.execute("DELETE FROM indexes WHERE id = ?1", [index.0])?;
    Ok(())
}

fn check_packs(tx: &Transaction, relied: &[FileId]) -> Result<(), RefsError> {
    let mut query = tx.prepare_cached("SELECT 1 FROM packs WHERE id = ?1")?;
    for id in relied {
        if !query.exists([id.0])? {
            return Err(RefsError::PackGone(*id));
        }
    }
    Ok(())
}

fn put_segments(tx: &Transaction, segments: &[SegmentRow]) -> Result<(), RefsError> {
    for segment in segments {
        tx.execute(
            "INSERT INTO packs VALUES(?1, ?2, ?3, 0)
             ON CONFLICT(id) DO UPDATE SET len = max(len, excluded.len)",
            params![segment.pack.0, segment.kind as u8, segment.end as i64],
        )?;
        put_segment(tx, segment)?;
    }
    Ok(())
}

fn put_segment(tx: &Transaction, segment: &SegmentRow) -> Result<(), RefsError> {
    tx.execute(
        "INSERT INTO segments(pack, end, start, kind, entries) VALUES(?1, ?2, ?3, ?4, ?5)",
        params![
            segment.pack.0,
            segment.end as i64,
            segment.start as i64,
            segment.kind as u8,
            segment.entries
        ],
    )?;
    Ok(())
}

fn record(
    tx: &Transaction,
    new: NewOperation,
    append_log: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<Operation, RefsError> {
    let mut changes = new.changes;
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    {
        let mut query = tx.prepare_cached("SELECT value FROM view WHERE key = ?1")?;
        for change in &changes {
            let now: Option<Vec<u8>> = query
                .query_row([&change.key], |row| row.get(0))
                .optional()?;
            if now != change.old {
                return Err(RefsError::Moved {
                    key: change.key.clone(),
                });
            }
        }
    }
    let last: Option<Vec<u8>> = tx
        .query_row(
            "SELECT record FROM ops ORDER BY seq DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()?;
    let last = last.map(|record| Operation::decode(&record)).transpose()?;
    let operation = Operation {
        seq: last.as_ref().map_or(1, |op| op.seq + 1),
        id: FileId::random().0,
        previous: last.map_or([0; 16], |op| op.id),
        time: new.time,
        who: operation::clip(&new.who),
        command: operation::clip(&new.command),
        undoes: new.undoes,
        made: Some(new.made),
        changes,
    };
    for change in &operation.changes {
        set(tx, &change.key, change.new.as_deref())?;
    }
    put_operation(tx, &operation)?;
    append_log(&operation.encode())?;
    Ok(operation)
}

fn put_operation(tx: &Transaction, operation: &Operation) -> Result<(), RefsError> {
    let seq = operation.seq as i64;
    tx.execute(
        "INSERT INTO ops VALUES(?1, ?2)",
        params![seq, operation.encode()],
    )?;
    Ok(())
}

fn set(tx: &Transaction, key: &str, value: Option<&[u8]>) -> Result<(), RefsError> {
    match value {
        Some(value) => tx.execute("REPLACE INTO view VALUES(?1, ?2)", params![key, value])?,
        None => tx.execute("DELETE FROM view WHERE key = ?1", [key])?,
    };
    Ok(())
}

fn file_id(row: &Row, column: usize) -> rusqlite::Result<FileId> {
    row.get(column).map(FileId)
}

fn pack_kind(row: &Row, column: usize) -> rusqlite::Result<PackKind> {
    let n: u8 = row.get(column)?;
    PackKind::from_number(n).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, n.into()))
}

fn index_row(row: &Row) -> rusqlite::Result<IndexRow> {
    Ok(IndexRow {
        id: file_id(row, 0)?,
        entries: row.get(1)?,
    })
}

/// An offset or length: SQLite's integers are signed, ours are not.
fn offset(row: &Row, column: usize) -> rusqlite::Result<u64> {
    let n: i64 = row.get(column)?;
    u64::try_from(n).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, n))
}

fn pack_row(row: &Row) -> rusqlite::Result<PackRow> {
    let (id, kind) = (file_id(row, 0)?, pack_kind(row, 1)?);
    Ok(PackRow {
        id,
        kind,
        len: offset(row, 2)?,
        poisoned: row.get(3)?,
    })
}

fn segment_row(row: &Row) -> rusqlite::Result<SegmentRow> {
    Ok(SegmentRow {
        pack: file_id(row, 0)?,
        kind: pack_kind(row, 1)?,
        start: offset(row, 2)?,
        end: offset(row, 3)?,
        entries: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_the_database_s_path() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let refs = Refs::create(&path)?;
        refs.conn().pragma_update(None, "max_page_count", 1)?;
        let pack = FileId::random();
        let segments: Vec<SegmentRow> = (0..2000)
            .map(|n| SegmentRow {
                pack,
                kind: PackKind::Data,
                start: n,
                end: n + 1,
                entries: 1,
            })
            .collect();
        let full = refs.add_segments(&segments, &[]).expect_err("no room");
        assert!(full.is_disk_full(), "{full}");
        let told = format!("cannot write to {}: ", path.display());
        assert!(full.to_string().starts_with(&told), "{full}");
        assert!(refs.catalogue()?.segments.is_empty());
        Ok(())
    }
}

//! The small mutable state: the view, the operation log, and the catalogue of packs.
//!
//! `Refs::publish` is the only commit point of a repository (docs/format/layout.md, "Order of
//! writes"). Everything in the database can be rebuilt from the packs. The room knows keys and
//! values, not what a branch means. `repo` uses it.

mod catalogue;
mod catalogue_source;
mod census;
mod consistency;
mod database_lock;
mod error;
mod log_position;
mod name;
mod named_places;
mod operation;
mod pack_removal;
mod schema;
mod shared;
mod sql;
#[doc(hidden)]
pub mod testing;

pub(crate) use census::Census;
pub use database_lock::DatabaseLock;
pub use error::RefsError;
pub use log_position::{LogPosition, Rows};
pub use name::{FETCH_HEAD, HEAD, RefNameError, check_new_ref_name, check_ref_name};
pub use named_places::NamedPlace;
pub(crate) use operation::view_of;
pub use operation::{Change, Effect, Operation, Origin, Timestamp, newest_chain};
pub use pack_removal::{CondemnResult, FreeCount, SeenOperation};
pub(crate) use shared::CatalogueRows;

use crate::locks;
use crate::platform::Inode;
use crate::store::{LogPack, PackId, SegmentRow, StoreError};
use catalogue::{put_moved, put_segments};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use schema::DatabaseAccess;
use sql::rows;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A change of the view that is about to be made.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// The time of the change.
    pub time: Timestamp,
    /// The user who makes it.
    pub who: String,
    /// The command line.
    pub command: String,
    /// Number of the operation that it undoes; 0 if none.
    pub undoes: u64,
    /// Where it is made, and what it does to files.
    pub origin: Origin,
    /// The changes. Each old value must be the view's present value.
    pub changes: Vec<Change>,
    /// If the changes name objects: how often packs were freed before the job looked whether these are
    /// complete.
    pub since: Option<FreeCount>,
}

/// The open refs database.
pub struct Refs {
    path: PathBuf,
    conn: Mutex<Connection>,
    reached: DatabaseAccess,
    /// The open file: device and inode.
    file: Option<Inode>,
    /// The database's data version at the last time its catalogue was known to be read.
    seen: AtomicI64,
    /// Whether the write-ahead log must be written back.
    wrote: AtomicBool,
    /// Whether the write-ahead log may not belong to this database file.
    may_be_inconsistent: bool,
}

impl Refs {
    /// Creates the database of a new repository.
    pub(crate) fn create(path: &Path) -> Result<Refs, RefsError> {
        let conn = schema::create(path)?;
        Refs::over(
            path,
            conn,
            DatabaseAccess::Whole,
            database_lock::file_at(path),
        )
    }

    /// Opens the database; on a read-only disk for reading only. If another process keeps it
    /// locked, opens a copy of it for reading.
    pub fn open(path: &Path) -> Result<Refs, RefsError> {
        schema::check_files(path)?;
        loop {
            let before = database_lock::file_at(path);
            let may_be_inconsistent = consistency::is_doubtful(path);
            let (conn, reached) = schema::open(path)?;
            // `recover` may have replaced the database after it was opened and before its
            // write-ahead log was.
            if database_lock::file_at(path) == before {
                let mut refs = Refs::over(path, conn, reached, before)?;
                refs.may_be_inconsistent = may_be_inconsistent;
                return Ok(refs);
            }
        }
    }

    fn over(
        path: &Path,
        conn: Connection,
        reached: DatabaseAccess,
        file: Option<Inode>,
    ) -> Result<Refs, RefsError> {
        Ok(Refs {
            path: path.to_owned(),
            seen: AtomicI64::new(schema::data_version(&conn)?),
            conn: Mutex::new(conn),
            wrote: AtomicBool::new(false),
            may_be_inconsistent: false,
            reached,
            file,
        })
    }

    /// Opens for reading a database that other processes may be writing to. Writes nothing beside it.
    ///
    /// This process must not open the same database for writing meanwhile: SQLite keeps one handle of
    /// the shared memory per process, and if that handle only reads, every write fails with
    /// `SQLITE_READONLY`.
    pub(crate) fn open_to_read(path: &Path) -> Result<Refs, RefsError> {
        schema::check_files(path)?;
        let file = database_lock::file_at(path);
        let conn = schema::open_to_read(path)?;
        Refs::over(path, conn, DatabaseAccess::ReadOnly, file)
    }

    /// Returns the path of the database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether no change is possible here.
    pub fn is_read_only(&self) -> bool {
        matches!(self.reached, DatabaseAccess::ReadOnly)
    }

    /// Returns whether this is a copy of an earlier state, because another process keeps the
    /// database locked.
    pub fn is_copy(&self) -> bool {
        matches!(self.reached, DatabaseAccess::Copy(_))
    }

    /// Adds the database's path to errors of the disk, which SQLite does not name.
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

    /// Locks the database for a change. Waits for other processes.
    pub fn lock_database(&self) -> Result<DatabaseLock, RefsError> {
        self.check_writable()?;
        let lock = DatabaseLock::take(&self.path, locks::PATIENCE)?;
        self.check_in_place(lock)
    }

    /// Locks the database for a change. Returns `None` if another process holds the lock.
    pub fn try_lock_database(&self) -> Result<Option<DatabaseLock>, RefsError> {
        self.check_writable()?;
        let lock = DatabaseLock::try_take(&self.path)?;
        lock.map(|lock| self.check_in_place(lock)).transpose()
    }

    fn check_writable(&self) -> Result<(), RefsError> {
        match &self.reached {
            DatabaseAccess::Whole => Ok(()),
            DatabaseAccess::ReadOnly => Err(RefsError::ReadOnly(self.path.clone())),
            DatabaseAccess::Copy(holder) => Err(RefsError::Busy(*holder)),
        }
    }

    /// Fails if the open file is no longer the repository's database. A change published in it
    /// would be lost.
    fn check_in_place(&self, lock: DatabaseLock) -> Result<DatabaseLock, RefsError> {
        if database_lock::file_at(&self.path) == self.file {
            Ok(lock)
        } else {
            Err(RefsError::Replaced(self.path.clone()))
        }
    }

    /// Runs one transaction. If `change` returns `None`, it ends without a change. The first change
    /// of a database of an earlier version upgrades it.
    fn write<T>(
        &self,
        _: &DatabaseLock,
        change: impl FnOnce(&Transaction) -> Result<Option<T>, RefsError>,
    ) -> Result<Option<T>, RefsError> {
        let done = || {
            let mut conn = self.conn();
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            schema::upgrade(&tx)?;
            let done = change(&tx)?;
            if done.is_some() {
                self.wrote.store(true, Ordering::Relaxed);
                tx.commit()?;
                self.note_fit();
            }
            Ok(done)
        };
        self.naming_holder(self.naming_disk(done()))
    }

    /// Locks the database and runs one transaction.
    fn change(
        &self,
        change: impl FnOnce(&Transaction) -> Result<(), RefsError>,
    ) -> Result<(), RefsError> {
        let lock = self.lock_database()?;
        self.change_under(&lock, change)
    }

    /// Runs one transaction.
    fn change_under(
        &self,
        lock: &DatabaseLock,
        change: impl FnOnce(&Transaction) -> Result<(), RefsError>,
    ) -> Result<(), RefsError> {
        self.write(lock, |tx| change(tx).map(Some)).map(drop)
    }

    /// Writes the write-ahead log back, as far as no process reads from it.
    pub(crate) fn write_back(&self, _: &DatabaseLock) {
        schema::write_back(&self.conn());
        // The file has changed, and a reader may keep the log from being emptied.
        self.note_fit();
    }

    /// Closes a database that no other process uses, after everything is in its one file. After an
    /// error the file alone is not complete: SQLite's write-ahead log holds the rest.
    pub(crate) fn close_complete(self) -> Result<(), RefsError> {
        self.naming_holder(self.naming_disk(schema::write_back_all(&self.conn())))?;
        self.wrote.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Adds the process that holds SQLite's own locks to the error.
    fn naming_holder<T>(&self, done: Result<T, RefsError>) -> Result<T, RefsError> {
        done.map_err(|e| match e {
            RefsError::Sqlite(_) if e.is_busy() => RefsError::Busy(schema::holder(&self.path)),
            other => other,
        })
    }

    fn conn(&self) -> MutexGuard<'_, Connection> {
        self.conn
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, RefsError> {
        let conn = self.conn();
        let mut query = conn.prepare_cached("SELECT value FROM view WHERE key = ?1")?;
        Ok(query.query_row([key], |row| row.get(0)).optional()?)
    }

    /// Returns all keys that begin with `prefix`, with their values, in order.
    pub fn with_prefix(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, RefsError> {
        // A key is less than "prefix + the greatest character" exactly if it begins with the
        // prefix.
        let query = "SELECT key, value FROM view WHERE key >= ?1 AND key < ?2 ORDER BY key";
        let end = format!("{prefix}\u{10ffff}");
        let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        rows(&self.conn(), query, [prefix, &end], pair)
    }

    /// Returns the keys with a value.
    pub(crate) fn keys_with(&self, value: &[u8]) -> Result<Vec<String>, RefsError> {
        let query = "SELECT key FROM view WHERE length(value) = length(?1) AND value = ?1";
        rows(&self.conn(), query, [value], |row| row.get(0))
    }

    /// Returns a number that changes with each transaction of another connection.
    pub fn version(&self) -> Result<i64, RefsError> {
        schema::data_version(&self.conn())
    }

    /// Returns a number that grows with each change by this connection.
    pub(crate) fn own_changes(&self) -> u64 {
        self.conn().total_changes()
    }

    /// Makes `segments` and the changes of the view visible together, or neither. This is the
    /// commit point.
    ///
    /// `named` gives the places of the objects that the changes name. Each must be in a listed
    /// segment or in one of `segments`. After all checks and just before the database commits, the
    /// operation is durably appended to `log`.
    ///
    /// Fails with [`RefsError::PackGone`] or [`RefsError::MayBeGone`] if objects may be gone that the
    /// job counts on: it has to look again.
    ///
    /// Fails with [`RefsError::Moved`] for the first key without the expected value. Fails with
    /// [`RefsError::OtherLog`] or [`RefsError::LogBehind`] if the log does not end where the
    /// database left it.
    pub(crate) fn publish(
        &self,
        operation: NewOperation,
        segments: &[SegmentRow],
        relied: &[PackId],
        named: &[NamedPlace],
        log: &LogPack,
    ) -> Result<Operation, RefsError> {
        let lock = self.lock_database()?;
        let mut appended_at = None;
        let done = self.write(&lock, |tx| {
            log_position::check(tx, log, &self.path)?;
            check_packs(tx, relied)?;
            pack_removal::check_since(tx, operation.since)?;
            put_segments(tx, segments, Some(operation.time.seconds))?;
            named_places::check_named(tx, named)?;
            let operation = record(tx, operation)?;
            appended_at = Some(log.len()?);
            let end = log.append(&operation.encode())?;
            log_position::put_log_end(tx, end)?;
            Ok(Some(operation))
        });
        match (done, appended_at) {
            (Err(e), Some(at)) => Err(self.uncounted(&lock, e, log, at)),
            (done, _) => done.map(|done| done.expect("it returns the operation")),
        }
    }

    /// Ensures that an operation does not count later that was appended at `at` and failed with
    /// `e`. Returns the error for the caller.
    fn uncounted(&self, lock: &DatabaseLock, e: RefsError, log: &LogPack, at: u64) -> RefsError {
        let noted = self.write(lock, |tx| {
            log_position::put_log_end(tx, log.len()?)?;
            Ok(Some(()))
        });
        let Err(second) = noted else {
            return e;
        };
        let is_whole = || Ok::<_, StoreError>(!log.operations_within(at, log.len()?)?.is_empty());
        if is_whole().is_ok_and(|is_whole| !is_whole) {
            return e;
        }
        // If its pages had no room, neither transaction can reappear later. After a failed sync,
        // for example, it may, and then the log must have its operation.
        let is_away = e.is_disk_full() && second.is_disk_full() && log.take_back(at).is_ok();
        if is_away {
            e
        } else {
            RefsError::MayCount(Box::new(e))
        }
    }

    /// Makes `segments` visible without an operation. Nothing names their objects.
    ///
    /// `at` is the present time in seconds since 1970, or `None` if it is unknown.
    pub(crate) fn add_segments(
        &self,
        segments: &[SegmentRow],
        relied: &[PackId],
        at: Option<i64>,
    ) -> Result<(), RefsError> {
        self.change(|tx| {
            check_packs(tx, relied)?;
            put_segments(tx, segments, at)?;
            Ok(())
        })
    }

    /// Adds the segments of new packs to which nothing will be appended, each with the time in seconds
    /// since 1970 at which its objects were stored. Fails if a pack of `relied` is gone.
    pub(crate) fn add_moved(
        &self,
        segments: &[(SegmentRow, i64)],
        relied: &[PackId],
    ) -> Result<(), RefsError> {
        self.change(|tx| {
            check_packs(tx, relied)?;
            put_moved(tx, segments)?;
            Ok(())
        })
    }

    /// Returns the number of the newest operation; 0 if there is none.
    pub fn last_operation(&self) -> Result<u64, RefsError> {
        last_operation(&self.conn())
    }

    /// Returns the newest `limit` operations, newest first.
    pub fn operations(&self, limit: usize) -> Result<Vec<Operation>, RefsError> {
        self.operations_before(None, limit)
    }

    /// Returns up to `limit` operations before number `seq`, newest first; without `seq`, the
    /// newest ones.
    pub fn operations_before(
        &self,
        seq: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Operation>, RefsError> {
        let query = "SELECT record FROM ops WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2";
        let seq = seq.map_or(i64::MAX, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let records = rows(&self.conn(), query, [seq, limit], |row| row.get(0))?;
        let records = records.iter();
        let operations = records.map(|record: &Vec<u8>| Ok(Operation::decode(record)?));
        operations.collect()
    }

    /// Runs SQLite's own check of the file. Returns the faults; none if all is well.
    pub(crate) fn integrity(&self) -> Result<Vec<String>, RefsError> {
        let query = "PRAGMA integrity_check(20)";
        let mut lines: Vec<String> = rows(&self.conn(), query, [], |row| row.get(0))?;
        lines.retain(|line| line != "ok");
        Ok(lines)
    }
}

impl Drop for Refs {
    /// Writes the write-ahead log back, so that the database file alone is complete. SQLite itself
    /// would do so under a lock that excludes readers.
    fn drop(&mut self) {
        if !self.wrote.load(Ordering::Relaxed) {
            return;
        }
        // The process that holds the lock now does it afterwards.
        if let Ok(Some(lock)) = self.try_lock_database() {
            self.write_back(&lock);
        }
    }
}

fn last_operation(conn: &Connection) -> Result<u64, RefsError> {
    let last: Option<i64> = conn.query_row("SELECT max(seq) FROM ops", [], |row| row.get(0))?;
    Ok(last.map_or(0, i64::unsigned_abs))
}

/// Returns the newest operation.
fn newest(conn: &Connection) -> Result<Option<Operation>, RefsError> {
    let last: Option<Vec<u8>> = conn
        .query_row(
            "SELECT record FROM ops ORDER BY seq DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()?;
    Ok(last.map(|record| Operation::decode(&record)).transpose()?)
}

fn check_packs(tx: &Transaction, relied: &[PackId]) -> Result<(), RefsError> {
    let mut query = tx.prepare_cached("SELECT 1 FROM packs WHERE id = ?1")?;
    for id in relied {
        if !query.exists([id])? {
            return Err(RefsError::PackGone(*id));
        }
    }
    Ok(())
}

fn record(tx: &Transaction, new: NewOperation) -> Result<Operation, RefsError> {
    let operation = Operation::after(newest(tx)?.as_ref(), new);
    operation.check_limits()?;
    {
        let mut query = tx.prepare_cached("SELECT value FROM view WHERE key = ?1")?;
        for change in &operation.changes {
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
    for change in &operation.changes {
        set(tx, &change.key, change.new.as_deref())?;
    }
    put_operation(tx, &operation)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{PackKind, RepositoryId};
    use crate::vfs::OsVfs;

    #[test]
    fn a_closed_database_is_complete_without_its_log() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let refs = Refs::create(&path)?;
        refs.add_segments(&[], &[], None)?;
        // A program that was being started has inherited the lock for a moment.
        let _held = DatabaseLock::take(&path, locks::PATIENCE)?;
        refs.close_complete()?;
        let alone = temp.path().join("alone.db");
        std::fs::copy(&path, &alone)?;
        Refs::open(&alone)?;
        Ok(())
    }

    #[test]
    fn a_database_with_a_reader_does_not_count_as_complete()
    -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let refs = Refs::create(&path)?;
        let other = Refs::open(&path)?;
        let (conn, reading) = (
            other.conn(),
            "BEGIN; SELECT * FROM meta; SELECT * FROM view;",
        );
        conn.execute_batch(reading)?;
        refs.conn().busy_timeout(std::time::Duration::ZERO)?;
        refs.add_segments(&[], &[], None)?;
        assert!(matches!(refs.close_complete(), Err(RefsError::Busy(_))));
        Ok(())
    }

    #[test]
    fn a_change_of_a_value_that_has_moved_is_refused_and_recorded_nowhere()
    -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let log = LogPack::create(&OsVfs, temp.path(), RepositoryId::random())?;
        let refs = Refs::create(&temp.path().join("refs.db"))?;
        let publish = |old: Option<&[u8]>, new: &[u8]| {
            let operation = NewOperation {
                time: Timestamp {
                    seconds: 0,
                    nanos: 0,
                    tz_minutes: 0,
                },
                who: "ada".to_owned(),
                command: "dmv branch b".to_owned(),
                undoes: 0,
                origin: Origin {
                    worktree: String::new(),
                    effect: Effect::Kept,
                },
                changes: vec![Change {
                    key: "budget".to_owned(),
                    old: old.map(<[u8]>::to_vec),
                    new: Some(new.to_vec()),
                }],
                since: None,
            };
            refs.publish(operation, &[], &[], &[], &log)
        };
        publish(None, b"1")?;
        let end = log.len()?;
        // Another command has set the value since these looked at it.
        for old in [None, Some(&b"2"[..])] {
            assert!(matches!(publish(old, b"3"), Err(RefsError::Moved { .. })));
        }
        // Nobody could read the record of such a value again.
        let too_large = vec![b'1'; (128 << 10) + 1];
        let refused = publish(Some(b"1"), &too_large);
        assert!(matches!(refused, Err(RefsError::TooLarge { .. })));
        assert_eq!(refs.get("budget")?.as_deref(), Some(&b"1"[..]));
        assert_eq!(
            (refs.operations_before(None, 9)?.len(), log.len()?),
            (1, end)
        );
        publish(Some(b"1"), b"3")?;
        assert_eq!(refs.get("budget")?.as_deref(), Some(&b"3"[..]));
        publish(Some(b"3"), &too_large[1..])?;
        assert_eq!(log.operations_within(end, log.len()?)?.len(), 2);
        Ok(())
    }

    #[test]
    fn a_full_disk_is_told_with_the_database_s_path() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let refs = Refs::create(&path)?;
        refs.conn().pragma_update(None, "max_page_count", 1)?;
        let pack = PackId::random();
        let segments: Vec<SegmentRow> = (0..2000)
            .map(|n| SegmentRow {
                pack,
                kind: PackKind::Data,
                start: n,
                end: n + 1,
                entries: 1,
            })
            .collect();
        let full = refs
            .add_segments(&segments, &[], None)
            .expect_err("no room");
        assert!(full.is_disk_full(), "{full}");
        let told = format!("cannot write to {}: ", path.display());
        assert!(full.to_string().starts_with(&told), "{full}");
        assert!(refs.catalogue()?.segments.is_empty());
        Ok(())
    }
}

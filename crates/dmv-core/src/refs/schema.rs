//! The tables of `refs.db`, the settings of every connection, and the ways to open the database:
//! for reading and writing, for reading beside writers, as a copy, or where nothing can be written.

mod copy;

use super::RefsError;
use crate::locks::{self, Holder};
use crate::path::PathError;
use crate::platform::{
    FULL_SYNC, FileTime, LOCKLESS_SQLITE, OddKind, OwnAccess, bytes_of, is_network_disk,
    is_read_only_disk, may_read, may_write, open_own, stat_at_unfollowed,
};
use crate::threads;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// "DMVr": distinguishes the file from other programs' databases.
const APPLICATION_ID: i32 = 0x444d_5672;
const USER_VERSION: i32 = 3;
/// The first SQLite version without the WAL-reset corruption of 3.7.0 to 3.51.2.
const MIN_SQLITE: i32 = 3_051_003;
/// How long opening a database waits for a process that is recovering its write-ahead log, which
/// takes milliseconds. After that, a copy is read.
const OPENING: Duration = Duration::from_secs(3);
/// How often this wait asks whether the other process is stopped.
const TRY: Duration = Duration::from_millis(100);
/// The tables of version 1.
const SCHEMA: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE view(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE ops(seq INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE packs(id BLOB PRIMARY KEY, kind INTEGER NOT NULL, len INTEGER NOT NULL,
  poisoned INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE segments(pack BLOB NOT NULL, end INTEGER NOT NULL, start INTEGER NOT NULL,
  kind INTEGER NOT NULL, entries INTEGER NOT NULL, merged BLOB,
  PRIMARY KEY(pack, end)) STRICT, WITHOUT ROWID;
CREATE INDEX unmerged ON segments(merged) WHERE merged IS NULL;
CREATE TABLE indexes(id BLOB PRIMARY KEY, entries INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";
/// What version 2 adds.
const VERSION_2: &str = "
ALTER TABLE segments ADD COLUMN at INTEGER;
CREATE TABLE leaving(id BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
";
/// What version 3 changes: in a table without row ids, a search for one key reads the whole values of others, and lists
/// of claims are long.
const VERSION_3: &str = "
CREATE TABLE values_by_key(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
INSERT INTO values_by_key SELECT key, value FROM view;
DROP TABLE view;
ALTER TABLE values_by_key RENAME TO view;
";

/// Creates the database. The file must not exist.
pub(super) fn create(path: &Path) -> Result<Connection, RefsError> {
    // SQLite gives its other files the permissions of this one.
    open_own(path, OwnAccess::CreateNew)
        .map_err(|e| RefsError::File(PathError::new("create", path, e)))?;
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, "")?;
    configure(&conn, path, false)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", USER_VERSION)?;
    conn.execute_batch(SCHEMA)?;
    conn.execute_batch(VERSION_2)?;
    conn.execute_batch(VERSION_3)?;
    conn.busy_timeout(locks::PATIENCE)?;
    Ok(conn)
}

/// Opens SQLite's own files, none of them through a symlink.
///
/// SQLite opens files by their names, so they are checked here first. `parameters` belong to the URI.
fn connect(path: &Path, flags: OpenFlags, parameters: &str) -> Result<Connection, RefsError> {
    check_files(path)?;
    // `NOFOLLOW` refuses symlinks also in the directories above, where the user may have some.
    let real = real_path(path).map_err(|e| RefsError::File(PathError::new("open", path, e)))?;
    let uri = format!("file:{}{parameters}", uri_path(&real));
    let flags = flags
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Ok(Connection::open_with_flags(uri, flags)?)
}

fn real_path(path: &Path) -> io::Result<PathBuf> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(std::fs::canonicalize(dir)?.join(name))
}

/// Fails if one of the database's files is not a regular file, or if this user may not read what the
/// database consists of. SQLite would wait for a named pipe, and does not name the file.
pub(super) fn check_files(path: &Path) -> Result<(), RefsError> {
    for (end, has_data) in [
        ("db", true),
        ("db-wal", true),
        ("db-journal", true),
        ("db-shm", false),
    ] {
        let file = path.with_extension(end);
        let checked = match stat_at_unfollowed(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(stat) => match OddKind::of_file(stat.kind) {
                Some(odd) => Err(odd.into()),
                None if has_data && !may_read(&file) => Err(io::ErrorKind::PermissionDenied.into()),
                None => Ok(()),
            },
        };
        checked.map_err(|e| RefsError::File(PathError::new("open", file, e)))?;
    }
    Ok(())
}

/// Makes the present version of an earlier database, as a part of the transaction that is the first to change it.
/// Reading needs no upgrade.
pub(super) fn upgrade(tx: &Transaction) -> Result<(), RefsError> {
    let before = version(tx)?;
    if before == USER_VERSION {
        return Ok(());
    }
    // Another process may have upgraded it since it was opened here.
    check_version(before)?;
    if before < 2 {
        tx.execute_batch(VERSION_2)?;
    }
    tx.execute_batch(VERSION_3)?;
    Ok(tx.pragma_update(None, "user_version", USER_VERSION)?)
}

fn check_version(version: i32) -> Result<(), RefsError> {
    match version {
        1..=USER_VERSION => Ok(()),
        other => Err(RefsError::TooNew(other)),
    }
}

/// Returns whether the database has the tables and columns of version 2.
pub(super) fn has_version_2(conn: &Connection) -> Result<bool, RefsError> {
    Ok(version(conn)? >= 2)
}

fn version(conn: &Connection) -> Result<i32, RefsError> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// How the database can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatabaseAccess {
    /// For reading and writing.
    Whole,
    /// For reading only: the disk or the permissions do not allow writing.
    ReadOnly,
    /// A copy is open, for reading. This process keeps the database itself locked.
    Copy(Option<Holder>),
}

/// Opens the database; for reading only if it cannot be written to.
pub(super) fn open(path: &Path) -> Result<(Connection, DatabaseAccess), RefsError> {
    let error = match open_in_time(path) {
        Ok(conn) => return Ok((conn, DatabaseAccess::Whole)),
        Err(e) if e.is_busy() => {
            let holder = holder(path);
            let copy = copy::open(path).map_err(|_| RefsError::Busy(holder))?;
            return Ok((copy, DatabaseAccess::Copy(holder)));
        }
        Err(e) if !e.is_write_trouble() => return Err(e),
        Err(e) => e,
    };
    // A user who may only read the database can meet a writer. On a full or read-only disk there is
    // none.
    if is_closed_to_us(path)
        && let Ok(conn) = open_to_read(path)
    {
        return Ok((conn, DatabaseAccess::ReadOnly));
    }
    // The shared-memory file has no room or permission. If no write-ahead log is pending, the main
    // file alone is complete and can be read as it is.
    match open_reading(path) {
        Ok(conn) => Ok((conn, DatabaseAccess::ReadOnly)),
        // The first error shows the cause.
        Err(e) if e.is_write_trouble() => Err(error),
        Err(e) => Err(e),
    }
}

/// Opens a database that others may write to. Writes nothing itself.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, RefsError> {
    for tried in 0..COPY_TRIES {
        // If its log and shared memory are missing, SQLite would create them where it can.
        if is_in_use(path) {
            match open_shared(path) {
                Err(e) if e.is_write_trouble() => {}
                done => return done,
            }
        }
        match copy(path)? {
            Copy::Made(conn) => return Ok(conn),
            // The last process to close it removes the shared memory first, and then the log.
            Copy::HasLog if tried >= LOG_TRIES => break,
            Copy::Changed | Copy::HasLog => std::thread::sleep(COPY_PAUSE),
            Copy::Unfit => break,
        }
    }
    open_reading(path)
}

/// Returns whether a process has it open.
fn is_in_use(path: &Path) -> bool {
    let mut beside = ["db-wal", "db-shm"].into_iter();
    beside.all(|extension| path.with_extension(extension).exists())
}

/// Opens it as one of several processes. This needs the shared memory that the others have made,
/// which is missing while no process works.
fn open_shared(path: &Path) -> Result<Connection, RefsError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, "?readonly_shm=1")?;
    configure(&conn, path, true)?;
    probe(&conn)?;
    Ok(conn)
}

/// Largest database in bytes that is copied.
const MAX_COPY_BYTES: u64 = 64 << 20;
/// How often copying is tried, because others may write meanwhile.
const COPY_TRIES: u32 = 20;
const COPY_PAUSE: Duration = Duration::from_millis(25);
/// After this number of tries, an existing log was left by a killed command.
const LOG_TRIES: u32 = 6;

enum Copy {
    /// A copy in memory.
    Made(Connection),
    /// Another process has written meanwhile.
    Changed,
    /// A pending log is beside the database.
    HasLog,
    /// The database is too large, or cannot be examined.
    Unfit,
}

/// Copies a database that no process has open. Reading the file itself without locks could show
/// half of another process's write.
fn copy(path: &Path) -> Result<Copy, RefsError> {
    let Some(before) = State::of(path) else {
        // It is missing or may not be examined. Opening it shows which.
        return Ok(Copy::Unfit);
    };
    if before.has_log {
        return Ok(Copy::HasLog);
    }
    if before.len > MAX_COPY_BYTES {
        return Ok(Copy::Unfit);
    }
    let mut bytes = Vec::new();
    let read = open_own(path, OwnAccess::Read)
        .and_then(|file| file.take(MAX_COPY_BYTES + 1).read_to_end(&mut bytes));
    if read.is_err() || State::of(path).as_ref() != Some(&before) {
        return Ok(Copy::Changed);
    }
    // A database in memory has no write-ahead log, so set the versions for writing and reading
    // (SQLite's file format, bytes 18 and 19).
    if let Some(versions) = bytes.get_mut(18..20) {
        versions.fill(1);
    }
    let mut conn = Connection::open_in_memory()?;
    conn.deserialize_read_exact("main", &bytes[..], bytes.len(), true)?;
    configure(&conn, path, true)?;
    probe(&conn)?;
    Ok(Copy::Made(conn))
}

/// The attributes that change when a process writes to a database.
#[derive(PartialEq, Eq)]
struct State {
    len: u64,
    times: [FileTime; 2],
    ino: u64,
    /// Whether a process has it open: then there is shared memory beside it.
    in_use: bool,
    /// Whether a journal or log beside it is not empty.
    has_log: bool,
}

impl State {
    fn of(path: &Path) -> Option<State> {
        let beside = |extension: &str| stat_at_unfollowed(&path.with_extension(extension));
        let has_log = ["db-wal", "db-journal"]
            .iter()
            .any(|extension| beside(extension).is_ok_and(|stat| stat.size > 0));
        let in_use = beside("db-shm").is_ok();
        let stat = stat_at_unfollowed(path).ok()?;
        Some(State {
            len: stat.size,
            times: [stat.mtime, stat.ctime],
            ino: stat.ino,
            in_use,
            has_log,
        })
    }
}

/// Returns whether this user may not write to the database or create files beside it.
fn is_closed_to_us(path: &Path) -> bool {
    let may_change = may_write(path) && path.parent().is_some_and(may_write);
    !may_change && !is_read_only_disk(path)
}

/// Opens the database in a thread of its own. If another process has locked what SQLite needs
/// first, SQLite tries for ten seconds, whatever its settings.
fn open_in_time(path: &Path) -> Result<Connection, RefsError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let own = path.to_owned();
    let open = move || {
        // The other thread may have stopped waiting. Then the database is closed.
        let _ = sender.send(open_writable(&own));
    };
    if threads::start(open).is_err() {
        return open_writable(path);
    }
    // Count the tries, not the time: a process that was stopped meanwhile has not waited.
    let mut waited = Duration::ZERO;
    loop {
        match receiver.recv_timeout(TRY) {
            Ok(done) => return done,
            Err(_) => {
                waited += TRY;
                let holder = holder(path);
                let is_stopped = holder.is_some_and(|holder| holder.is_stopped);
                if is_stopped || waited >= OPENING {
                    return Err(RefsError::Busy(holder));
                }
            }
        }
    }
}

fn open_writable(path: &Path) -> Result<Connection, RefsError> {
    // SQLite itself would try for ten seconds to get the shared memory, or open for reading
    // although writing was requested.
    if is_read_only_disk(path) || is_closed_to_us(path) {
        return Err(RefsError::ReadOnly(path.to_owned()));
    }
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, "")?;
    configure(&conn, path, false)?;
    probe(&conn)?;
    conn.busy_timeout(locks::PATIENCE)?;
    Ok(conn)
}

/// Returns the process that holds one of SQLite's locks on the database; `None` if it is this one.
/// SQLite also reports a lock as taken when the system has none left.
pub(super) fn holder(path: &Path) -> Option<Holder> {
    let files = ["db-shm", "db"].map(|end| path.with_extension(end));
    let holder = locks::holder_of(&[&files[0], &files[1]]);
    holder.filter(|holder| holder.pid != std::process::id())
}

/// Writes the write-ahead log back and empties it, as far as no process reads from it.
pub(super) fn write_back(conn: &Connection) {
    // A later command does the rest.
    let _ = conn.busy_timeout(Duration::ZERO);
    let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

/// Writes all of the write-ahead log back. Fails if another process uses it.
pub(super) fn write_back_all(conn: &Connection) -> Result<(), RefsError> {
    // The first column tells whether a reader or writer was in the way
    // (https://sqlite.org/pragma.html#pragma_wal_checkpoint).
    if conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))? {
        Err(RefsError::Busy(None))
    } else {
        Ok(())
    }
}

/// Opens the database in a place that cannot be written to.
fn open_reading(path: &Path) -> Result<Connection, RefsError> {
    let wal = path.with_extension("db-wal");
    let waits = stat_at_unfollowed(&wal).is_ok_and(|stat| stat.size > 0);
    // The write-ahead log was left by a killed command. Locks need a writable file, so reading it uses
    // none. `locking_mode` exclusive puts the index of the log into memory. No process can write
    // meanwhile.
    let how = if waits {
        format!("?vfs={LOCKLESS_SQLITE}")
    } else {
        "?immutable=1".to_owned()
    };
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, &how)?;
    if waits {
        conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    configure(&conn, path, true)?;
    probe(&conn)?;
    Ok(conn)
}

fn uri_path(path: &Path) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let encode = |&b: &u8| {
        if plain(b) {
            char::from(b).to_string()
        } else {
            format!("%{b:02x}")
        }
    };
    bytes_of(path).iter().map(encode).collect()
}

fn configure(conn: &Connection, path: &Path, immutable: bool) -> Result<(), RefsError> {
    if rusqlite::version_number() < MIN_SQLITE {
        return Err(RefsError::OldSqlite(rusqlite::version().to_owned()));
    }
    conn.busy_timeout(if immutable { locks::PATIENCE } else { OPENING })?;
    // SQLite would do that under a lock that excludes readers, even when a reader ends.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.set_prepared_statement_cache_capacity(32);
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    if !immutable {
        let dir = path.parent().unwrap_or(path);
        // SQLite's write-ahead log needs shared memory, which network file systems lack. The
        // rollback journal is slower but safe there.
        let mode = if is_network_disk(dir) {
            "DELETE"
        } else {
            "WAL"
        };
        conn.pragma_update(None, "journal_mode", mode)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        if FULL_SYNC {
            conn.pragma_update(None, "fullfsync", true)?;
            conn.pragma_update(None, "checkpoint_fullfsync", true)?;
        }
    }
    Ok(())
}

/// Returns a number that changes when another connection changes the database.
pub(super) fn data_version(conn: &Connection) -> Result<i64, RefsError> {
    let mut query = conn.prepare_cached("PRAGMA data_version")?;
    Ok(query.query_row([], |row| row.get(0))?)
}

/// Reads something, so that errors of the file appear now, and checks that the database is DMV's.
fn probe(conn: &Connection) -> Result<(), RefsError> {
    let id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id != APPLICATION_ID {
        return Err(RefsError::Damaged("it is not a refs database".into()));
    }
    check_version(version(conn)?)?;
    conn.query_row(
        "SELECT count(*) FROM (SELECT 1 FROM view LIMIT 1)",
        [],
        |_| Ok(()),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;

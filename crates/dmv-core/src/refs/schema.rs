//! The tables of `refs.db` and the settings of every connection.

mod copy;

use super::RefsError;
use crate::locks::{self, Holder};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// "DMVr": tells the file apart from other programs' databases.
const APPLICATION_ID: i32 = 0x444d_5672;
const USER_VERSION: i32 = 1;
/// The first SQLite without the WAL-reset corruption of 3.7.0 to 3.51.2.
const MIN_SQLITE: i32 = 3_051_003;
/// How long whoever opens a database waits for one who puts its write-ahead log in order, which takes
/// milliseconds. After that a copy is read.
const OPENING: Duration = Duration::from_secs(3);
/// After that, and from then on as often, it is asked whether the other one is stopped.
const TRY: Duration = Duration::from_millis(100);
/// File systems on which SQLite's shared memory does not work, by statfs magic:
/// NFS, SMB1, CIFS, SMB2, AFS, 9P, Ceph.
const NETWORK_FS: [u64; 7] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x0102_1997,
    0x00c3_6400,
];

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

/// Makes the database; the file must not exist.
pub(super) fn create(path: &Path) -> Result<Connection, RefsError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    configure(&conn, path, false)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", USER_VERSION)?;
    conn.execute_batch(SCHEMA)?;
    conn.busy_timeout(locks::PATIENCE)?;
    Ok(conn)
}

/// How far the database can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// Read and written.
    Whole,
    /// The disk or the permissions let nobody write.
    ReadOnly,
    /// What is open is a copy, to be read: this process keeps the database itself locked.
    Copy(Option<Holder>),
}

/// Opens the database; where it cannot be written to, for reading only.
pub(super) fn open(path: &Path) -> Result<(Connection, Reached), RefsError> {
    let error = match open_in_time(path) {
        Ok(conn) => return Ok((conn, Reached::Whole)),
        Err(e) if e.is_busy() => {
            let holder = holder(path);
            let copy = copy::open(path).map_err(|_| RefsError::Busy(holder))?;
            return Ok((copy, Reached::Copy(holder)));
        }
        Err(e) if !e.is_write_trouble() => return Err(e),
        Err(e) => e,
    };
    // Who may read it only may meet a writer, unlike who has a full or read-only disk.
    if is_closed_to_us(path)
        && let Ok(conn) = open_to_read(path)
    {
        return Ok((conn, Reached::ReadOnly));
    }
    // No room or permission for the shared-memory file. If no write-ahead log waits to be read, the
    // main file alone is the whole truth and can be read as it is.
    match open_reading(path) {
        Ok(conn) => Ok((conn, Reached::ReadOnly)),
        // The first error tells what is wrong.
        Err(e) if e.is_write_trouble() => Err(error),
        Err(e) => Err(e),
    }
}

/// Opens a database that others may write to, and writes nothing itself.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, RefsError> {
    for tried in 0..COPY_TRIES {
        // Without its log and shared memory SQLite would make them where it can.
        if is_in_use(path) {
            match open_shared(path) {
                Err(e) if e.is_write_trouble() => {}
                done => return done,
            }
        }
        match copy(path)? {
            Copy::Made(conn) => return Ok(conn),
            // Whoever closes it last removes the shared memory first, and then the log.
            Copy::HasLog if tried >= LOG_TRIES => break,
            Copy::Changed | Copy::HasLog => std::thread::sleep(COPY_PAUSE),
            Copy::Unfit => break,
        }
    }
    open_reading(path)
}

/// Whether somebody has it open.
fn is_in_use(path: &Path) -> bool {
    let mut beside = ["db-wal", "db-shm"].into_iter();
    beside.all(|extension| path.with_extension(extension).exists())
}

/// Opens it as one of several processes. That needs the shared memory that the others have made;
/// nobody has while none is at work.
fn open_shared(path: &Path) -> Result<Connection, RefsError> {
    let uri = format!("file:{}?readonly_shm=1", uri_path(path));
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = Connection::open_with_flags(uri, flags)?;
    configure(&conn, path, true)?;
    probe(&conn)?;
    Ok(conn)
}

/// Largest database that is copied.
const MAX_COPY_BYTES: u64 = 64 << 20;
/// Copies that are tried: somebody may write meanwhile.
const COPY_TRIES: u32 = 20;
const COPY_PAUSE: Duration = Duration::from_millis(25);
/// After so many of them a log that lies there was left by a killed command.
const LOG_TRIES: u32 = 6;

enum Copy {
    /// A copy in memory.
    Made(Connection),
    /// Somebody has written meanwhile.
    Changed,
    /// A log waits beside it.
    HasLog,
    /// It is too large, or cannot be looked at.
    Unfit,
}

/// Copies a database that nobody has open. To read the file itself without locks would be to see half
/// of what somebody writes.
fn copy(path: &Path) -> Result<Copy, RefsError> {
    let Some(before) = State::of(path) else {
        // It is not there, or may not be looked at: opening it says which.
        return Ok(Copy::Unfit);
    };
    if before.has_log {
        return Ok(Copy::HasLog);
    }
    if before.len > MAX_COPY_BYTES {
        return Ok(Copy::Unfit);
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_COPY_BYTES + 1).read_to_end(&mut bytes));
    if read.is_err() || State::of(path).as_ref() != Some(&before) {
        return Ok(Copy::Changed);
    }
    // In memory there is no write-ahead log: the versions that say how it is written and read
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

/// What changes when somebody writes to a database.
#[derive(PartialEq, Eq)]
struct State {
    len: u64,
    times: [i64; 4],
    inode: u64,
    /// Whether a process has it open, which keeps shared memory beside it.
    in_use: bool,
    /// Whether a journal or log beside it holds something.
    has_log: bool,
}

impl State {
    fn of(path: &Path) -> Option<State> {
        use std::os::unix::fs::MetadataExt;
        let beside = |extension: &str| std::fs::metadata(path.with_extension(extension));
        let has_log = ["db-wal", "db-journal"]
            .iter()
            .any(|extension| beside(extension).is_ok_and(|m| m.len() > 0));
        let in_use = beside("db-shm").is_ok();
        let m = std::fs::metadata(path).ok()?;
        Some(State {
            len: m.len(),
            times: [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()],
            inode: m.ino(),
            in_use,
            has_log,
        })
    }
}

/// Whether this user may not write to the database or make files beside it.
fn is_closed_to_us(path: &Path) -> bool {
    let may_write = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let may_change = may_write(path) && path.parent().is_some_and(may_write);
    !may_change && !on_read_only(path)
}

/// Opens the database in a thread of its own: where somebody has locked what SQLite needs first, it
/// tries for ten seconds, whatever it is told.
fn open_in_time(path: &Path) -> Result<Connection, RefsError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let own = path.to_owned();
    let open = move || {
        // Nobody may be waiting any more; the database is closed then.
        let _ = sender.send(open_writable(&own));
    };
    if std::thread::Builder::new().spawn(open).is_err() {
        return open_writable(path);
    }
    // Tries are counted, not time: a process that was stopped meanwhile has not waited.
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
    // SQLite itself would try for ten seconds to come by the shared memory, or open for reading what
    // was to be written.
    if on_read_only(path) || is_closed_to_us(path) {
        return Err(RefsError::ReadOnly(path.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let conn = Connection::open_with_flags(path, flags)?;
    configure(&conn, path, false)?;
    probe(&conn)?;
    conn.busy_timeout(locks::PATIENCE)?;
    Ok(conn)
}

/// Who has one of SQLite's locks on the database.
pub(super) fn holder(path: &Path) -> Option<Holder> {
    let files = ["db-shm", "db"].map(|end| path.with_extension(end));
    locks::holder_of(&[&files[0], &files[1]])
}

/// Writes the write-ahead log back and empties it, as far as nobody reads from it.
pub(super) fn write_back(conn: &Connection) {
    // What is not done now, a later command does.
    let _ = conn.busy_timeout(Duration::ZERO);
    let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

/// Opens the database where nothing can be written.
fn open_reading(path: &Path) -> Result<Connection, RefsError> {
    let wal = path.with_extension("db-wal");
    let waits = std::fs::metadata(&wal).is_ok_and(|m| m.len() > 0);
    let how = if waits { WITH_LOG } else { "immutable=1" };
    let uri = format!("file:{}?{how}", uri_path(path));
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = Connection::open_with_flags(uri, flags)?;
    if waits {
        conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    configure(&conn, path, true)?;
    probe(&conn)?;
    Ok(conn)
}

/// How a database is read whose write-ahead log was left by a killed command: without locks, which
/// need a file that can be written to, and with `locking_mode` exclusive, so that the index of the
/// log is made in memory. Nobody writes meanwhile, for nobody can.
const WITH_LOG: &str = "vfs=unix-none";

fn uri_path(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let encode = |&b: &u8| {
        if plain(b) {
            char::from(b).to_string()
        } else {
            format!("%{b:02x}")
        }
    };
    path.as_os_str().as_bytes().iter().map(encode).collect()
}

fn configure(conn: &Connection, path: &Path, immutable: bool) -> Result<(), RefsError> {
    if rusqlite::version_number() < MIN_SQLITE {
        return Err(RefsError::OldSqlite(rusqlite::version().to_owned()));
    }
    conn.busy_timeout(if immutable { locks::PATIENCE } else { OPENING })?;
    // SQLite would do that behind a lock that keeps readers out, even when a reader ends.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.set_prepared_statement_cache_capacity(32);
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    if !immutable {
        let dir = path.parent().unwrap_or(path);
        // SQLite's write-ahead log needs shared memory, which network file systems do not give; the
        // rollback journal is slower but safe there.
        let mode = if on_network(dir) { "DELETE" } else { "WAL" };
        conn.pragma_update(None, "journal_mode", mode)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
    }
    Ok(())
}

fn on_read_only(db: &Path) -> bool {
    let disk = rustix::fs::statvfs(db);
    disk.is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn on_network(dir: &Path) -> bool {
    let Ok(dir) = std::fs::File::open(dir) else {
        return false;
    };
    rustix::fs::fstatfs(&dir).is_ok_and(|s| NETWORK_FS.contains(&(s.f_type as u64 & 0xffff_ffff)))
}

/// A number that changes when another connection changes the database.
pub(super) fn data_version(conn: &Connection) -> Result<i64, RefsError> {
    Ok(conn.pragma_query_value(None, "data_version", |row| row.get(0))?)
}

/// Reads something, so that trouble with the file shows now; checks whose database it is.
fn probe(conn: &Connection) -> Result<(), RefsError> {
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    if pragma("application_id")? != APPLICATION_ID {
        return Err(RefsError::Damaged("it is not a refs database".into()));
    }
    let version = pragma("user_version")?;
    if version != USER_VERSION {
        return Err(RefsError::TooNew(version));
    }
    conn.query_row(
        "SELECT count(*) FROM (SELECT 1 FROM view LIMIT 1)",
        [],
        |_| Ok(()),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_a_killed_command_left_is_read() -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let (live, left) = (temp.path().join("live.db"), temp.path().join("left.db"));
        let conn = create(&live)?;
        conn.execute("INSERT INTO view VALUES ('key', x'01')", [])?;
        // As after a kill: the log was not written back, its index is lost.
        std::fs::copy(&live, &left)?;
        std::fs::copy(live.with_extension("db-wal"), left.with_extension("db-wal"))?;
        assert!(std::fs::metadata(left.with_extension("db-wal"))?.len() > 0);
        let before = std::fs::read(&left)?;
        let read = open_reading(&left)?;
        let value: Vec<u8> = read.query_row("SELECT value FROM view", [], |row| row.get(0))?;
        assert_eq!(value, [1]);
        drop(read);
        assert_eq!(std::fs::read(&left)?, before);
        assert!(!left.with_extension("db-shm").exists());
        Ok(())
    }
}

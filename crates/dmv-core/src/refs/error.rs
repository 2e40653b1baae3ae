//! What can go wrong with refs, sorted by what the user can do about it.

use crate::hash::ObjectId;
use crate::locks::{self, Holder};
use crate::object::codec::DecodeError;
use crate::store::{FileId, StoreError};
use std::path::PathBuf;

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
    /// A change names an object that is in no pack that the database lists.
    #[error("{key} cannot be set to {}: this repository does not have it; nothing was changed", id.short(12))]
    NotStored {
        /// The key.
        key: String,
        /// What it was to name.
        id: ObjectId,
    },
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
    /// A change failed and could not be taken out of the operation log again.
    #[error("{0}; it is in the operation log all the same and may count later: 'dmv op log' tells")]
    MayCount(Box<RefsError>),
    /// Another process is changing the database, or has stopped while it did.
    #[error("another dmv command is changing this repository{}", locks::told(.0))]
    Busy(Option<Holder>),
    /// The lock file that says whose turn it is cannot be used.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The database that is open is no longer the repository's.
    #[error("{} was replaced or removed meanwhile, so nothing was changed; run the command again", .0.display())]
    Replaced(PathBuf),
    /// The operation log goes on behind what the database knows, and not from its last operation.
    #[error(
        "{} does not fit the operation log: one of them is older than the other; nothing was changed",
        .0.display()
    )]
    OtherLog(PathBuf),
    /// The operation log ends before what the database knows.
    #[error("the operation log {} is missing or older than the database; nothing was changed", .0.display())]
    LogBehind(PathBuf),
    /// The operation log could not be written.
    #[error(transparent)]
    Log(#[from] StoreError),
}

impl RefsError {
    /// Tables that contradict each other.
    pub fn mixed() -> RefsError {
        let why = "its tables contradict each other, as if an older refs.db lay beside a newer refs.db-wal";
        RefsError::Damaged(why.to_owned())
    }

    /// Whether opening failed because the file system does not let us write.
    pub(super) fn is_write_trouble(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure,
        };
        let e = match self {
            RefsError::Sqlite(e) => e,
            other => return matches!(other, RefsError::ReadOnly(_)),
        };
        let write = [
            CannotOpen,
            DiskFull,
            PermissionDenied,
            ReadOnly,
            SystemIoFailure,
        ];
        e.sqlite_error_code()
            .is_some_and(|code| write.contains(&code))
    }

    /// Whether another process kept the database locked for too long.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
        let e = match self {
            RefsError::Sqlite(e) => e,
            other => return matches!(other, RefsError::Busy(_)),
        };
        let busy = [DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed];
        e.sqlite_error_code().is_some_and(|c| busy.contains(&c))
    }

    /// Whether the database is there and makes no sense.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            RefsError::Sqlite(e) => e
                .sqlite_error_code()
                .is_some_and(|c| c == DatabaseCorrupt || c == NotADatabase),
            RefsError::Damaged(_) | RefsError::OtherLog(_) | RefsError::LogBehind(_) => true,
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

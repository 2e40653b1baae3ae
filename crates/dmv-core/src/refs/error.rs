//! The errors of refs, sorted by what the user can do about them.

use crate::hash::ObjectId;
use crate::locks::{self, Holder};
use crate::object::codec::DecodeError;
use crate::path::PathError;
use crate::store::{PackId, StoreError};
use std::path::PathBuf;

/// An error of refs.
#[derive(Debug, thiserror::Error)]
pub enum RefsError {
    /// SQLite reported an error.
    #[error("the database refs.db failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The content of the database is not valid.
    #[error("the database refs.db is damaged: {0}")]
    Damaged(String),
    /// The database has a later version than this program knows.
    #[error("the database refs.db has version {0}; this dmv reads versions 1 and 2")]
    TooNew(i32),
    /// An operation has a later version than this program knows.
    #[error("a newer dmv has changed this repository; this version cannot read its operation log")]
    NewerOperation,
    /// The SQLite library may corrupt the database.
    #[error("SQLite {0} has a known bug that damages databases; dmv needs 3.51.3 or later")]
    OldSqlite(String),
    /// A key did not have the value that the job started from.
    #[error("another command changed {key} in the meantime")]
    Moved {
        /// The key.
        key: String,
    },
    /// A pack that the job relies on was removed.
    #[error("another command removed pack {0} in the meantime; run this command again")]
    PackGone(PackId),
    /// Packs were removed since the job looked at the objects that it is about to name.
    #[error("another command freed objects that this one needs; run this command again")]
    MayBeGone,
    /// A change names an object that is in no pack of the database's list.
    #[error("{key} cannot be set to {}: this repository does not have that commit; nothing was changed", id.short(12))]
    NotStored {
        /// The key.
        key: String,
        /// The object that the key was to name.
        id: ObjectId,
    },
    /// A value that the job would set is larger than what any program reads.
    #[error("{key} cannot be set: {what} is too large; nothing was changed")]
    TooLarge {
        /// The beginning of the key.
        key: String,
        /// What is too large.
        what: &'static str,
    },
    /// The repository cannot be written to.
    #[error("cannot write to {}", .0.display())]
    ReadOnly(PathBuf),
    /// The disk is full or fails.
    #[error("cannot write to {}: {source}", path.display())]
    Disk {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A change failed and could not be removed from the operation log again.
    #[error(
        "{0}; the operation is in the operation log and may still take effect: see 'dmv op log'"
    )]
    MayCount(Box<RefsError>),
    /// Another process is changing the database, or was stopped while it did.
    #[error("another dmv command is changing this repository{}", locks::told(.0))]
    Busy(Option<Holder>),
    /// A file of the database cannot be used.
    #[error(transparent)]
    File(PathError),
    /// The lock file of the database cannot be used.
    #[error(transparent)]
    Lock(PathError),
    /// The open database is no longer that of the repository.
    #[error("{} was replaced or removed in the meantime; nothing was changed; run the command again", .0.display())]
    Replaced(PathBuf),
    /// The operation log has operations after the last one that the database knows, and they do not
    /// continue from it.
    #[error(
        "{} does not fit the operation log: one of them is older than the other; nothing was changed",
        .0.display()
    )]
    OtherLog(PathBuf),
    /// The operation log ends before the last operation that the database knows.
    #[error("the operation log {} is missing or older than the database; nothing was changed", .0.display())]
    LogBehind(PathBuf),
    /// The operation log could not be written.
    #[error(transparent)]
    Log(#[from] StoreError),
}

impl RefsError {
    /// Returns the error for tables that contradict each other.
    pub fn inconsistent() -> RefsError {
        let why = "its tables contradict each other, as if an older refs.db lay beside a newer refs.db-wal";
        RefsError::Damaged(why.to_owned())
    }

    /// Returns whether opening failed because the file system does not allow writing.
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

    /// Returns whether another process kept the database locked for too long.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
        let e = match self {
            RefsError::Sqlite(e) => e,
            other => return matches!(other, RefsError::Busy(_)),
        };
        let busy = [DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed];
        e.sqlite_error_code().is_some_and(|c| busy.contains(&c))
    }

    /// Returns whether the database exists but is not valid.
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

    /// Returns whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        let full =
            |e: &rusqlite::Error| e.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        matches!(self, RefsError::Disk { source, .. } if full(source))
    }

    /// Returns whether the system denies this user access to the database.
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

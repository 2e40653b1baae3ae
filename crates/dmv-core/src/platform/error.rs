//! The system's errors, and what they mean to a caller.

use super::system;
use std::io;

/// The number of an error of the system. Unlike [`io::Error`] it can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", io::Error::from(*self))]
pub struct SystemError(i32);

impl SystemError {
    /// No entry has a name.
    pub(crate) const ABSENT: SystemError = SystemError(system::ABSENT);
    /// A name leads elsewhere, or a file is of a kind that the operation does not take.
    pub(crate) const INVALID: SystemError = SystemError(system::INVALID);
    /// A name is longer than any file system allows.
    pub(crate) const NAME_TOO_LONG: SystemError = SystemError(system::NAME_TOO_LONG);
    /// There is more than the caller takes.
    pub(crate) const TOO_BIG: SystemError = SystemError(system::TOO_BIG);

    /// Returns the error with this number.
    #[inline]
    pub(crate) fn from_code(code: i32) -> SystemError {
        SystemError(code)
    }

    /// Returns the error of the system in an error of the standard library. One that is not the system's is
    /// [`INVALID`](Self::INVALID).
    pub(crate) fn of(e: &io::Error) -> SystemError {
        e.raw_os_error().map_or(SystemError::INVALID, SystemError)
    }

    /// Returns its number, for [`io::Error::from_raw_os_error`].
    #[inline]
    pub fn code(self) -> i32 {
        self.0
    }

    /// Returns what it means.
    #[inline]
    pub fn cause(self) -> Cause {
        system::cause(self.0)
    }
}

impl From<SystemError> for io::Error {
    fn from(e: SystemError) -> io::Error {
        io::Error::from_raw_os_error(e.0)
    }
}

/// What an error of the system means, where a caller acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No entry has this name.
    Absent,
    /// A part of the path is not a directory.
    NotDirectory,
    /// A part of the path is a symlink, or there are too many of them.
    Symlink,
    /// This user may not do it.
    Denied,
    /// The name or path is longer than the system allows.
    NameTooLong,
    /// An entry has this name already.
    Exists,
    /// The two names are on different file systems.
    OtherFileSystem,
    /// The system or the file system does not have this operation, or not with these arguments.
    Unsupported,
    /// This process or the system has too many open files.
    TooManyFiles,
    /// The system has no memory left.
    NoMemory,
    /// The medium failed.
    BadMedium,
    /// Anything else.
    Other,
}

/// Returns what an error means. Errors that are not the system's are [`Cause::Other`].
pub(crate) fn cause_of(e: &io::Error) -> Cause {
    e.raw_os_error().map_or(Cause::Other, system::cause)
}

//! Error numbers.

use crate::platform::{Cause, SystemError};
use rustix::io::Errno;

pub const ABSENT: i32 = Errno::NOENT.raw_os_error();
pub const INVALID: i32 = Errno::INVAL.raw_os_error();
pub const NAME_TOO_LONG: i32 = Errno::NAMETOOLONG.raw_os_error();
pub const TOO_BIG: i32 = Errno::TOOBIG.raw_os_error();

impl From<Errno> for SystemError {
    #[inline]
    fn from(e: Errno) -> SystemError {
        SystemError::from_code(e.raw_os_error())
    }
}

pub fn cause(code: i32) -> Cause {
    match Errno::from_raw_os_error(code) {
        Errno::NOENT => Cause::Absent,
        Errno::NOTDIR => Cause::NotDirectory,
        Errno::LOOP => Cause::Symlink,
        Errno::ACCESS => Cause::Denied,
        Errno::NAMETOOLONG => Cause::NameTooLong,
        Errno::EXIST => Cause::Exists,
        Errno::XDEV => Cause::OtherFileSystem,
        // File systems refuse a flag that they do not know with `EINVAL`.
        Errno::NOSYS | Errno::INVAL => Cause::Unsupported,
        Errno::MFILE | Errno::NFILE => Cause::TooManyFiles,
        Errno::NOMEM => Cause::NoMemory,
        Errno::IO => Cause::BadMedium,
        _ => Cause::Other,
    }
}

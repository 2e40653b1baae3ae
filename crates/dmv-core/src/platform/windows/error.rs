//! Error numbers.

use crate::platform::Cause;
use windows_sys::Win32::Foundation as win;

pub const ABSENT: i32 = win::ERROR_FILE_NOT_FOUND as i32;
pub const INVALID: i32 = win::ERROR_INVALID_PARAMETER as i32;
pub const NAME_TOO_LONG: i32 = win::ERROR_FILENAME_EXCED_RANGE as i32;
pub const TOO_BIG: i32 = win::ERROR_BAD_LENGTH as i32;

pub fn cause(code: i32) -> Cause {
    match code as u32 {
        win::ERROR_FILE_NOT_FOUND | win::ERROR_PATH_NOT_FOUND | win::ERROR_DELETE_PENDING => {
            Cause::Absent
        }
        win::ERROR_DIRECTORY => Cause::NotDirectory,
        win::ERROR_STOPPED_ON_SYMLINK => Cause::Symlink,
        win::ERROR_ACCESS_DENIED | win::ERROR_PRIVILEGE_NOT_HELD => Cause::Denied,
        win::ERROR_FILENAME_EXCED_RANGE => Cause::NameTooLong,
        win::ERROR_FILE_EXISTS | win::ERROR_ALREADY_EXISTS => Cause::Exists,
        win::ERROR_NOT_SAME_DEVICE => Cause::OtherFileSystem,
        // File systems refuse a class of information that they do not know with these.
        win::ERROR_INVALID_FUNCTION
        | win::ERROR_NOT_SUPPORTED
        | win::ERROR_INVALID_PARAMETER
        | win::ERROR_CALL_NOT_IMPLEMENTED => Cause::Unsupported,
        win::ERROR_TOO_MANY_OPEN_FILES => Cause::TooManyFiles,
        win::ERROR_NOT_ENOUGH_MEMORY | win::ERROR_OUTOFMEMORY | win::ERROR_COMMITMENT_LIMIT => {
            Cause::NoMemory
        }
        win::ERROR_CRC | win::ERROR_IO_DEVICE => Cause::BadMedium,
        _ => Cause::Other,
    }
}

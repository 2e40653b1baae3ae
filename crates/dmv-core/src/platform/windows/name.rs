//! Names are UTF-16. Their bytes are those of the standard library: UTF-8, where the name is valid text.

use crate::platform::SystemError;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use windows_sys::Win32::Foundation::{
    ERROR_FILE_NOT_FOUND, ERROR_FILENAME_EXCED_RANGE, ERROR_INVALID_NAME,
};

/// A name that no file can have: the zero is refused by every operation.
const NO_NAME: &str = "\0";
/// How long a name may be, in units of 16 bits.
const MAX_UNITS: usize = 255;

/// How long a path may be without a prefix, with room for a name.
const MAX_PLAIN_BYTES: usize = 240;

/// Windows takes upper for lower case, and a short name for a long one.
pub const NAMES_MAY_MEET: bool = true;

#[inline]
pub fn bytes_of(name: &OsStr) -> &[u8] {
    name.as_encoded_bytes()
}

pub fn argument_bytes(path: &OsStr) -> Cow<'_, [u8]> {
    with_slashes(path.as_encoded_bytes())
}

pub fn with_slashes(path: &[u8]) -> Cow<'_, [u8]> {
    if path.contains(&b'\\') {
        let slashes = |b: &u8| if *b == b'\\' { b'/' } else { *b };
        Cow::Owned(path.iter().map(slashes).collect())
    } else {
        Cow::Borrowed(path)
    }
}

/// Leaves the prefix out that only long paths need.
pub fn as_written(path: PathBuf) -> PathBuf {
    let text = path.to_str().filter(|text| text.len() < MAX_PLAIN_BYTES);
    match text.and_then(|text| text.strip_prefix(r"\\?\")) {
        Some(plain) if plain.as_bytes().get(1) == Some(&b':') => PathBuf::from(plain),
        _ => path,
    }
}

#[inline]
pub fn name_of(bytes: &[u8]) -> &OsStr {
    OsStr::new(std::str::from_utf8(bytes).unwrap_or(NO_NAME))
}

pub fn string_of(bytes: Vec<u8>) -> OsString {
    String::from_utf8(bytes).map_or_else(|_| NO_NAME.into(), OsString::from)
}

/// Returns the name of an entry that may exist. One that Windows cannot have does not exist.
pub fn wide(name: &[u8]) -> Result<Vec<u16>, SystemError> {
    new_wide(name).map_err(|_| SystemError::from_code(ERROR_FILE_NOT_FOUND as i32))
}

/// Returns the name of an entry that is to be created. Fails if programs could not use such a file: Windows itself
/// would create it, and then take the name for another one, a device, or a stream of a file.
pub fn new_wide(name: &[u8]) -> Result<Vec<u16>, SystemError> {
    let refused = SystemError::from_code(ERROR_INVALID_NAME as i32);
    let text = std::str::from_utf8(name).map_err(|_| refused)?;
    let is_bad = |c: char| c < ' ' || "\\/:*?\"<>|".contains(c);
    if text.is_empty() || text.ends_with(['.', ' ']) || text.contains(is_bad) || is_device(text) {
        return Err(refused);
    }
    let units: Vec<u16> = text.encode_utf16().collect();
    if units.len() > MAX_UNITS {
        return Err(SystemError::from_code(ERROR_FILENAME_EXCED_RANGE as i32));
    }
    Ok(units)
}

/// Returns whether a name is that of a device, with any ending.
fn is_device(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default();
    let stem = stem.trim_end_matches(' ').to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" => true,
        other => {
            let number = other
                .strip_prefix("com")
                .or_else(|| other.strip_prefix("lpt"));
            let mut rest = number.unwrap_or_default().chars();
            let is_number = |c: char| c.is_ascii_digit() || "\u{b9}\u{b2}\u{b3}".contains(c);
            rest.next().is_some_and(is_number) && rest.next().is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_programs_could_not_use_is_none() {
        for bad in [
            &b""[..],
            b"a\\b",
            b"a/b",
            b"a:b",
            b"a*b",
            b"a?b",
            b"a\"b",
            b"a<b",
            b"a>b",
            b"a|b",
            b"a\nb",
            b"a.",
            b"a ",
            b"con",
            b"NUL.txt",
            b"aux ",
            b"com1",
            b"LPT9.tar.gz",
            b"conin$",
            "com\u{b9}".as_bytes(),
            b"\xff",
            b"\xed\xa0\x80",
        ] {
            assert!(new_wide(bad).is_err(), "{bad:?}");
            assert!(wide(bad).is_err(), "{bad:?}");
        }
        for good in [
            "a",
            ".a",
            "con1",
            "com",
            "com10",
            "console",
            "a.b. c",
            "\u{fc}",
            "\u{1f600}",
            "a'b",
        ] {
            assert_eq!(
                new_wide(good.as_bytes()).ok(),
                Some(good.encode_utf16().collect()),
                "{good}"
            );
        }
        let written = |path: &str| as_written(PathBuf::from(path)).into_os_string();
        assert_eq!(written(r"\\?\C:\a\b"), r"C:\a\b");
        for kept in [r"\\?\UNC\host\a", r"\\host\a", r"C:\a"] {
            assert_eq!(written(kept), kept);
        }
        let long = [r"\\?\C:\", &"n".repeat(300)].concat();
        assert_eq!(written(&long), *long);
        assert!(new_wide(&[b'n'; 255]).is_ok() && new_wide(&[b'n'; 256]).is_err());
        assert_eq!(&*argument_bytes(OsStr::new("a\\b/c")), b"a/b/c");
    }
}

//! Names are bytes already.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// macOS takes upper for lower case, and even where it does not, one Unicode form for the other.
pub const NAMES_MAY_MEET: bool = cfg!(target_vendor = "apple");

#[inline]
pub fn bytes_of(name: &OsStr) -> &[u8] {
    name.as_bytes()
}

pub fn argument_bytes(path: &OsStr) -> Cow<'_, [u8]> {
    Cow::Borrowed(path.as_bytes())
}

pub fn with_slashes(path: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(path)
}

pub fn as_written(path: PathBuf) -> PathBuf {
    path
}

#[inline]
pub fn name_of(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[inline]
pub fn string_of(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

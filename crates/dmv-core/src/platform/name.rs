//! Names of files as bytes.

use super::system;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Whether the system's usual file systems find a file under other spellings of its name, too.
pub(crate) const NAMES_MAY_MEET: bool = system::NAMES_MAY_MEET;

/// Returns the bytes of a name or path, as DMV stores them.
#[inline]
pub fn bytes_of(name: &(impl AsRef<OsStr> + ?Sized)) -> &[u8] {
    system::bytes_of(name.as_ref())
}

/// Returns the bytes of a path that the user has typed, as the path of a commit: with slashes, where the
/// system separates names by another character.
pub fn argument_bytes(path: &(impl AsRef<OsStr> + ?Sized)) -> Cow<'_, [u8]> {
    system::argument_bytes(path.as_ref())
}

/// Returns a path on disk with slashes, where the system separates names by another character.
pub(crate) fn with_slashes(path: &[u8]) -> Cow<'_, [u8]> {
    system::with_slashes(path)
}

/// Returns the whole path of an entry that exists, without links on the way and as people write it.
pub fn whole_path(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path).map(system::as_written)
}

/// Returns the name or path with these bytes. If the system has no such name, returns one that no file can
/// have, so that each operation on it fails.
#[inline]
pub fn name_of(bytes: &[u8]) -> &OsStr {
    system::name_of(bytes)
}

/// Like [`name_of`], for bytes that the caller owns.
#[inline]
pub fn string_of(bytes: Vec<u8>) -> OsString {
    system::string_of(bytes)
}

//! File systems, and what this user may do with paths on them.

use super::system;
use std::fs::File;
use std::io;
use std::path::Path;

/// The name of SQLite's file layer for this system that takes no locks.
pub(crate) const LOCKLESS_SQLITE: &str = system::LOCKLESS_SQLITE;

/// Returns whether the directory is on a network file system, where processes on different machines
/// share no memory.
pub(crate) fn is_network_disk(dir: &Path) -> bool {
    system::is_network_disk(dir)
}

/// Returns whether the file system of `path` is mounted for reading only.
pub fn is_read_only_disk(path: &Path) -> bool {
    system::is_read_only_disk(path)
}

/// Returns whether this user may read the file at `path`.
pub(crate) fn may_read(path: &Path) -> bool {
    system::may_read(path)
}

/// Returns how many bytes this user may still write to the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    system::free_bytes(path)
}

/// Returns whether this user may write to the file, or create files in the directory, at `path`.
pub(crate) fn may_write(path: &Path) -> bool {
    system::may_write(path)
}

/// Checks whether this user may write to the file, or create files in the directory, at `path`. The error is
/// that of the system.
pub fn check_access(path: &Path) -> io::Result<()> {
    system::check_access(path)
}

/// Returns whether the file system of `path` takes another file of this size.
pub fn has_room(path: &Path, bytes: u64) -> io::Result<bool> {
    system::has_room(path, bytes)
}

/// Returns whether an open file belongs to this user, also if that is the administrator.
pub fn is_of_this_user(file: &File) -> io::Result<bool> {
    system::is_of_this_user(file)
}

/// Returns whether the entry at `path` belongs to this user, without following a symlink. To the
/// administrator, every entry does.
pub fn is_own(path: &Path) -> io::Result<bool> {
    system::is_own(path)
}

/// Returns whether only this user may write to the entry at `path`, besides the administrator: it
/// belongs to this user, and its permissions let no group and no other user write.
pub(crate) fn is_written_by_this_user_only(path: &Path) -> io::Result<bool> {
    system::is_written_by_this_user_only(path)
}

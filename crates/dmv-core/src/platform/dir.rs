//! Directories by their handles.

use super::{FileKind, FileStat, FileUser, SystemError, system};
use std::fs::File;
use std::path::Path;

type Result<T> = std::result::Result<T, SystemError>;

/// An open directory. It stays the same directory if another process moves it.
///
/// The operations do not check names: a name with a separator, or `..`, may lead out of the directory.
/// Use them through [`SafeDir`](crate::fsutil::SafeDir).
#[derive(Debug)]
pub struct Dir(system::Dir);

impl Dir {
    /// Opens the directory at `path`. Follows symlinks.
    pub fn open(path: &Path) -> Result<Dir> {
        system::Dir::open(path).map(Dir)
    }

    /// Opens the same directory again, with a position of its own in the list of names.
    pub fn reopen(&self) -> Result<Dir> {
        self.0.reopen().map(Dir)
    }

    /// Opens the directory at `rel`, one or more names joined by `/`. Fails if one of them is a
    /// symlink.
    #[inline]
    pub fn open_dir(&self, rel: &[u8]) -> Result<Dir> {
        self.0.open_dir(rel).map(Dir)
    }

    /// Calls `each` with each name in the directory, its kind, and its stat if the system lists that, too. Without `.`
    /// and `..`. Ends at the first error.
    ///
    /// A listed stat may be older than what [`stat_of`](Self::stat_of) returns, and always counts one name.
    #[inline]
    pub(crate) fn each_entry(
        &self,
        each: impl FnMut(&[u8], FileKind, Option<FileStat>) -> Result<()>,
    ) -> Result<()> {
        self.0.each_entry(each)
    }

    /// Returns the stat of the directory itself.
    #[inline]
    pub fn stat(&self) -> Result<FileStat> {
        self.0.stat()
    }

    /// Returns the stat of the entry `name`, without following a symlink.
    #[inline]
    pub(crate) fn stat_of(&self, name: &[u8]) -> Result<FileStat> {
        self.0.stat_of(name)
    }

    /// Returns the stat of a file that was opened or created in this directory.
    #[inline]
    pub(crate) fn stat_open(&self, file: &File) -> Result<FileStat> {
        self.0.stat_open(file)
    }

    /// Opens the entry `name` for reading, and returns it with its stat. Fails for a symlink. Does
    /// not wait at a named pipe.
    #[inline]
    pub(crate) fn open_file(&self, name: &[u8]) -> Result<(File, FileStat)> {
        self.0.open_file(name)
    }

    /// Creates the file `name`, which must not exist, for writing. It is executable, within the
    /// umask, if `exec` is set.
    #[inline]
    pub(crate) fn create_file(&self, name: &[u8], exec: bool) -> Result<File> {
        self.0.create_file(name, exec)
    }

    /// Creates a file in the same way, of which every write goes to the file's end.
    pub(crate) fn create_growing(&self, name: &[u8], exec: bool) -> Result<File> {
        self.0.create_growing(name, exec)
    }

    /// Creates the directory `name`, which must not exist. If `private`, only its owner can use it.
    pub fn create_dir(&self, name: &[u8], private: bool) -> Result<()> {
        self.0.create_dir(name, private)
    }

    /// Returns the target of the symlink `name`.
    pub fn read_link(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.0.read_link(name)
    }

    /// Creates the symlink `name`, which must not exist, to `target`.
    pub(crate) fn create_symlink(&self, target: &[u8], name: &[u8]) -> Result<()> {
        self.0.create_symlink(target, name)
    }

    /// Gives the file `from` the second name `to`, which must not exist.
    pub fn hard_link(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.0.hard_link(from, to)
    }

    /// Renames the entry `from` to `to`, and replaces an entry that has this name.
    #[inline]
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.0.rename(from, to)
    }

    /// Moves the entry `from` to `dir` as `to`, and replaces an entry that has this name.
    #[inline]
    pub(crate) fn rename_to(&self, from: &[u8], dir: &Dir, to: &[u8]) -> Result<()> {
        self.0.rename_to(from, &dir.0, to)
    }

    /// Moves the entry `from` to `dir` as `to`, which must not exist, in one step.
    #[inline]
    pub(crate) fn rename_new(&self, from: &[u8], dir: &Dir, to: &[u8]) -> Result<()> {
        self.0.rename_new(from, &dir.0, to)
    }

    /// Exchanges the names of the entries `a` and `b` in one step.
    #[inline]
    pub fn exchange(&self, a: &[u8], b: &[u8]) -> Result<()> {
        self.0.exchange(a, b)
    }

    /// Removes the entry `name`, which is not a directory.
    #[inline]
    pub fn remove_file(&self, name: &[u8]) -> Result<()> {
        self.0.remove_file(name)
    }

    /// Removes the empty directory `name`.
    pub fn remove_dir(&self, name: &[u8]) -> Result<()> {
        self.0.remove_dir(name)
    }

    /// Returns the other programs that have the entry `name` open, if an operation on it may have failed with `why`
    /// because of them, and if the system tells it.
    pub(crate) fn users_of(&self, name: &[u8], why: SystemError) -> Vec<FileUser> {
        self.0.users_of(name, why)
    }

    /// Makes the content of the file `name` durable, once [`sync_settled`](Self::sync_settled) has been called. An
    /// entry of another kind needs no sync.
    pub(crate) fn sync_file(&self, name: &[u8]) -> Result<()> {
        self.0.sync_file(name)
    }

    /// Makes durable what was synced in this way, on the same file system.
    pub(crate) fn sync_settled(&self) -> Result<()> {
        self.0.sync_settled()
    }

    /// Makes everything durable that was written so far to the file system of the directory.
    /// Fails as unsupported where no user may do that.
    pub(crate) fn sync_filesystem(&self) -> Result<()> {
        self.0.sync_filesystem()
    }

    /// Returns whether the file system is known to change a directory's mtime at every change of a
    /// name in it.
    pub(crate) fn tells_name_changes(&self) -> bool {
        self.0.tells_name_changes()
    }
}

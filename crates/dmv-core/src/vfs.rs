//! The file operations that packs, indexes and other durable files need, as a trait.
//!
//! There are two implementations: [`OsVfs`] here, and the crash simulator of the test kit, which
//! loses or reorders data that was not synced. SQLite has its own file layer, and worktree files go
//! through `fsutil`. The module knows nothing of packs. `store` and `repo` use it; `worktree` uses
//! only [`start_writeback`].

pub use crate::platform::{Sharing, start_writeback};

use crate::platform::{self, OwnAccess, create_own_dirs, open_own};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Open an existing file for reading.
    Read,
    /// Open an existing file for reading and appending.
    Append,
    /// Create a file, which must not exist, for reading and appending.
    CreateNew,
}

/// Operations on directories and names.
pub trait Vfs: Send + Sync {
    /// Opens a file. Fails if it is not a regular file.
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    /// Returns the names in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory of a repository, and its missing parents.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file and replaces the file at `to`, if there is one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the file `from` available at `to` as well, without copying its bytes. Fails where that is
    /// impossible, or if there is a file at `to`.
    fn share(&self, _from: &Path, _to: &Path) -> io::Result<Sharing> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Creates a file without a name beside those of `dir`, for bytes that no other process needs. Also
    /// returns how many bytes have room there. Fails where that is impossible.
    fn unnamed(&self, _dir: &Path) -> io::Result<(Arc<dyn VfsFile>, u64)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Operations on one open file.
pub trait VfsFile: Send + Sync {
    /// Reads from `offset` until `buf` is full. Returns fewer bytes only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Returns the file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file to its first `len` bytes.
    fn cut(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the file's bytes and length durable before it returns.
    fn sync(&self) -> io::Result<()>;
    /// Makes the file's bytes and length durable, at the latest when any file is synced after that.
    fn settle(&self) -> io::Result<()> {
        self.sync()
    }
    /// Hints that the system should start to write `len` bytes from `offset` to the medium.
    fn start_writeback(&self, offset: u64, len: u64);
    /// Tries to take the file's exclusive lock. Returns `false` if another handle holds it. Closing
    /// this handle releases it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Returns the offset at or after `at` from which the file may have other bytes than zeros.
    ///
    /// File layers that do not know always return `at`.
    fn skip_hole(&self, at: u64) -> u64 {
        at
    }
    /// Returns whether `path` still leads to this file.
    ///
    /// File layers in which no file is replaced always answer yes.
    fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }
    /// Returns the system's file, with which other files can share blocks.
    ///
    /// File layers without such files have none.
    fn system(&self) -> Option<&File> {
        None
    }
    /// Returns whether the file has another name besides the one that it was opened by, so that other
    /// repositories may use it.
    ///
    /// File layers without such names always answer no.
    fn has_other_names(&self) -> io::Result<bool> {
        Ok(false)
    }
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

impl Vfs for OsVfs {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let access = match how {
            OpenMode::Read => OwnAccess::Read,
            OpenMode::Append => OwnAccess::Write,
            OpenMode::CreateNew => OwnAccess::CreateNew,
        };
        Ok(Arc::new(OsFile(open_own(path, access)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            // DMV writes no names that are not UTF-8.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        create_own_dirs(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        platform::sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        platform::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<Sharing> {
        platform::share_file(from, to)
    }

    fn unnamed(&self, dir: &Path) -> io::Result<(Arc<dyn VfsFile>, u64)> {
        let file = platform::unnamed_file(dir)?;
        Ok((Arc::new(OsFile(file)), platform::free_bytes(dir)?))
    }
}

/// The operating system's files, for reading only: for a repository of another user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadingVfs;

impl ReadingVfs {
    fn refused<T>() -> io::Result<T> {
        let why = "the repository belongs to another user";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

impl Vfs for ReadingVfs {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        match how {
            OpenMode::Read => OsVfs.open(path, how),
            OpenMode::Append | OpenMode::CreateNew => ReadingVfs::refused(),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsVfs.list(dir)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        ReadingVfs::refused()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        ReadingVfs::refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        ReadingVfs::refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        ReadingVfs::refused()
    }
}

struct OsFile(File);

impl VfsFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match platform::read_at(&self.0, &mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        platform::write_all_at(&self.0, data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        platform::sync(&self.0)
    }

    fn settle(&self) -> io::Result<()> {
        platform::settle(&self.0)
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        start_writeback(&self.0, offset, len);
    }

    fn try_lock(&self) -> io::Result<bool> {
        match platform::try_lock(&self.0) {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn skip_hole(&self, at: u64) -> u64 {
        platform::skip_hole(&self.0, at)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let named = match platform::stat_at_unfollowed(path) {
            Ok(named) => named,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        Ok(platform::stat_of(&self.0)?.inode() == named.inode())
    }

    fn system(&self) -> Option<&File> {
        Some(&self.0)
    }

    fn has_other_names(&self) -> io::Result<bool> {
        Ok(platform::stat_of(&self.0)?.nlink > 1)
    }
}

/// Reads a complete small file. Fails if it has more than `limit` bytes.
pub(crate) fn read_small(vfs: &dyn Vfs, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let file = vfs.open(path, OpenMode::Read)?;
    let len = usize::try_from(file.len()?).unwrap_or(limit);
    let mut buf = vec![0; len.min(limit) + 1];
    let n = file.read_at(&mut buf, 0)?;
    if n > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "file is larger than it may be",
        ));
    }
    buf.truncate(n);
    Ok(buf)
}

/// Replaces a small file durably: temporary file, sync, rename, directory sync.
///
/// A crash leaves either the old file or the new one.
pub fn write_durably(vfs: &dyn Vfs, path: &Path, data: &[u8]) -> io::Result<()> {
    let temp = path.with_extension(format!("tmp{}", std::process::id()));
    write_durably_by(vfs, path, &temp, data)
}

/// Like [`write_durably`], with a given path `temp` for the temporary file, in the same directory.
pub(crate) fn write_durably_by(
    vfs: &dyn Vfs,
    path: &Path,
    temp: &Path,
    data: &[u8],
) -> io::Result<()> {
    let dir = path
        .parent()
        .expect("a file inside a repository has a parent");
    let _ = vfs.remove(temp);
    let file = vfs.open(temp, OpenMode::CreateNew)?;
    let write = || {
        file.write_at(data, 0)?;
        file.sync()?;
        vfs.rename(temp, path)
    };
    if let Err(e) = write() {
        let _ = vfs.remove(temp);
        return Err(e);
    }
    vfs.sync_dir(dir)
}

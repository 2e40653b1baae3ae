//! Directories by file descriptors.

use super::own_calls;
use super::stat::from_stat;
use crate::platform::{FileKind, FileStat, FileUser, SystemError};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

const OPEN_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

type Result<T> = std::result::Result<T, SystemError>;

#[derive(Debug)]
pub struct Dir(OwnedFd);

impl Dir {
    pub fn open(path: &Path) -> Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub fn reopen(&self) -> Result<Dir> {
        let fd = rustix::fs::openat(&self.0, c".", OPEN_DIR, Mode::empty())?;
        Ok(Dir(fd))
    }

    pub fn open_dir(&self, rel: &[u8]) -> Result<Dir> {
        if !rel.contains(&b'/') {
            let fd = rustix::fs::openat(&self.0, rel, OPEN_DIR, Mode::empty())?;
            return Ok(Dir(fd));
        }
        if let Some(opened) = own_calls::open_beneath(&self.0, rel, OPEN_DIR) {
            return opened.map(Dir);
        }
        // Component by component.
        let mut names = rel.split(|b| *b == b'/');
        let first = names.next().expect("split yields at least one part");
        let mut fd = rustix::fs::openat(&self.0, first, OPEN_DIR, Mode::empty())?;
        for name in names {
            fd = rustix::fs::openat(&fd, name, OPEN_DIR, Mode::empty())?;
        }
        Ok(Dir(fd))
    }

    /// A stat is a call of its own here.
    pub fn each_entry(
        &self,
        mut each: impl FnMut(&[u8], FileKind, Option<FileStat>) -> Result<()>,
    ) -> Result<()> {
        own_calls::each_entry(&self.0, |name, kind| match name {
            b"." | b".." => Ok(()),
            name => each(name, kind, None),
        })
    }

    pub fn stat(&self) -> Result<FileStat> {
        Ok(from_stat(&rustix::fs::fstat(&self.0)?))
    }

    #[inline]
    pub fn stat_open(&self, file: &File) -> Result<FileStat> {
        Ok(from_stat(&rustix::fs::fstat(file)?))
    }

    #[inline]
    pub fn stat_of(&self, name: &[u8]) -> Result<FileStat> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(from_stat(&stat))
    }

    pub fn open_file(&self, name: &[u8]) -> Result<(File, FileStat)> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        let stat = from_stat(&rustix::fs::fstat(&fd)?);
        Ok((File::from(fd), stat))
    }

    pub fn create_file(&self, name: &[u8], exec: bool) -> Result<File> {
        self.create(name, exec, OFlags::empty())
    }

    pub fn create_growing(&self, name: &[u8], exec: bool) -> Result<File> {
        self.create(name, exec, OFlags::APPEND)
    }

    fn create(&self, name: &[u8], exec: bool, how: OFlags) -> Result<File> {
        let flags = how
            | OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if exec { 0o777 } else { 0o666 });
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, mode)?))
    }

    pub fn create_dir(&self, name: &[u8], private: bool) -> Result<()> {
        let mode = Mode::from_raw_mode(if private { 0o700 } else { 0o777 });
        Ok(rustix::fs::mkdirat(&self.0, name, mode)?)
    }

    pub fn read_link(&self, name: &[u8]) -> Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    pub fn create_symlink(&self, target: &[u8], name: &[u8]) -> Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    pub fn hard_link(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(&self.0, from, &self.0, to, flags)?)
    }

    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    pub fn rename_to(&self, from: &[u8], dir: &Dir, to: &[u8]) -> Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &dir.0, to)?)
    }

    pub fn rename_new(&self, from: &[u8], dir: &Dir, to: &[u8]) -> Result<()> {
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(&self.0, from, &dir.0, to, flags)?)
    }

    pub fn exchange(&self, a: &[u8], b: &[u8]) -> Result<()> {
        let flags = RenameFlags::EXCHANGE;
        Ok(rustix::fs::renameat_with(&self.0, a, &self.0, b, flags)?)
    }

    pub fn remove_file(&self, name: &[u8]) -> Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub fn remove_dir(&self, name: &[u8]) -> Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// An open file stops nobody here.
    pub fn users_of(&self, _: &[u8], _: SystemError) -> Vec<FileUser> {
        Vec::new()
    }

    pub fn sync_file(&self, name: &[u8]) -> Result<()> {
        // A symlink cannot be opened and needs no sync of its own.
        match self.open_file(name) {
            Ok((file, stat)) if stat.kind == FileKind::File => {
                own_calls::settle(&file).map_err(|e| SystemError::of(&e))
            }
            _ => Ok(()),
        }
    }

    pub fn sync_filesystem(&self) -> Result<()> {
        own_calls::sync_filesystem(&self.0)
    }

    pub fn sync_settled(&self) -> Result<()> {
        own_calls::sync_settled(&self.0)
    }

    pub fn tells_name_changes(&self) -> bool {
        super::disk::magic(&self.0).is_some_and(|magic| TELLING.contains(&magic))
    }
}

/// Magic numbers of file systems on which every change of a name changes the directory's mtime:
/// ext2/3/4, XFS, Btrfs, F2FS, ZFS, tmpfs.
const TELLING: [u64; 6] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0x0102_1994,
];

//! What a stat tells.

use super::system;

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileKind {
    /// A regular file.
    File = 1,
    /// A symbolic link.
    Symlink = 2,
    /// A directory.
    Dir = 3,
    /// A named pipe.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A block or character device.
    Device = 6,
    /// Not reported by the file system; a stat shows the kind.
    Unknown = 7,
}

/// Whether files have a permission to be executed. Where they have none, that of a commit's files stays as it is.
pub(crate) const HAS_EXECUTABLE_BIT: bool = system::HAS_EXECUTABLE_BIT;

/// Whether listings of directories tell stats. They do not show changes through another name of a file.
pub(crate) const LISTS_STATS: bool = system::LISTS_STATS;

/// A point in time on the clock of some file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds in that second, below 10^9.
    pub nanos: u32,
}

/// The parts of an entry's stat that DMV uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What the entry is.
    pub kind: FileKind,
    /// Whether its owner may execute it.
    pub exec: bool,
    /// Its permissions: the lowest twelve bits of its mode.
    pub mode: u32,
    /// Number of names (hard links) that the file has.
    pub nlink: u32,
    /// Size in bytes.
    pub size: u64,
    /// Whether it takes fewer blocks than its size needs: it may have holes, or be compressed.
    pub sparse: bool,
    /// Time of the last change of its content.
    pub mtime: FileTime,
    /// Time of the last change of its content or attributes. No program can set it.
    pub ctime: FileTime,
    /// Inode number.
    pub ino: u64,
    /// Device number of its file system.
    pub dev: u64,
}

impl FileStat {
    /// Returns which file this is the stat of.
    pub fn inode(&self) -> Inode {
        Inode {
            dev: self.dev,
            ino: self.ino,
        }
    }
}

/// Which file it is, among all files that exist at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Device number of its file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

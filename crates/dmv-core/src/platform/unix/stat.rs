//! Stats, from the system's calls and from the standard library.

use crate::platform::{FileKind, FileStat, FileTime};
use rustix::fs::FileType;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

pub const HAS_EXECUTABLE_BIT: bool = true;
pub const LISTS_STATS: bool = false;

impl From<FileType> for FileKind {
    fn from(ty: FileType) -> FileKind {
        match ty {
            FileType::RegularFile => FileKind::File,
            FileType::Symlink => FileKind::Symlink,
            FileType::Directory => FileKind::Dir,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
            FileType::Unknown => FileKind::Unknown,
        }
    }
}

/// File systems keep smaller files beside their names, without blocks.
const SPARSE_FROM_BYTES: u64 = 16 << 10;

fn is_sparse(size: u64, blocks: u64) -> bool {
    size >= SPARSE_FROM_BYTES && blocks.saturating_mul(512) < size
}

// The widths of the fields differ between machines, so some casts have no effect on some of them.
#[allow(clippy::unnecessary_cast)]
#[inline]
pub fn from_stat(stat: &rustix::fs::Stat) -> FileStat {
    FileStat {
        kind: FileType::from_raw_mode(stat.st_mode).into(),
        exec: stat.st_mode & 0o100 != 0,
        mode: stat.st_mode as u32 & 0o7777,
        nlink: stat.st_nlink as u32,
        size: stat.st_size as u64,
        sparse: is_sparse(stat.st_size as u64, stat.st_blocks as u64),
        mtime: FileTime {
            seconds: stat.st_mtime as i64,
            nanos: stat.st_mtime_nsec as u32,
        },
        ctime: FileTime {
            seconds: stat.st_ctime as i64,
            nanos: stat.st_ctime_nsec as u32,
        },
        ino: stat.st_ino as u64,
        dev: stat.st_dev as u64,
    }
}

pub fn from_metadata(meta: &Metadata) -> FileStat {
    FileStat {
        kind: FileType::from_raw_mode(meta.mode() as _).into(),
        exec: meta.mode() & 0o100 != 0,
        mode: meta.mode() & 0o7777,
        nlink: meta.nlink() as u32,
        size: meta.size(),
        sparse: is_sparse(meta.size(), meta.blocks()),
        mtime: FileTime {
            seconds: meta.mtime(),
            nanos: meta.mtime_nsec() as u32,
        },
        ctime: FileTime {
            seconds: meta.ctime(),
            nanos: meta.ctime_nsec() as u32,
        },
        ino: meta.ino(),
        dev: meta.dev(),
    }
}

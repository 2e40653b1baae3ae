//! What macOS has, where Linux has other calls. It is compiled, but nobody has run it yet.

use crate::platform::{FileKind, SystemError};
use rustix::fs::{CWD, CloneFlags, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A sync gives the bytes to the drive, which keeps them in its cache. Only another call empties that, in 5 to 20 ms.
pub const FULL_SYNC: bool = true;
/// The error for an attribute that a file does not have.
pub const NO_SUCH_ATTRIBUTE: Errno = Errno::NOATTR;
/// Attributes that the system itself makes and removes: where a file came from, which programs may open it.
const SYSTEMS_OWN: &[u8] = b"com.apple.";

type Result<T> = std::result::Result<T, SystemError>;

pub fn open_beneath(_: &OwnedFd, _: &[u8], _: OFlags) -> Option<Result<OwnedFd>> {
    None
}

pub fn each_entry(
    dir: &OwnedFd,
    mut each: impl FnMut(&[u8], FileKind) -> Result<()>,
) -> Result<()> {
    // It opens the directory again, so it begins at the first name.
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        each(entry.file_name().to_bytes(), entry.file_type().into())?;
    }
    Ok(())
}

/// There is no such call for one file system: each file is synced on its own.
pub fn sync_filesystem(_: &OwnedFd) -> Result<()> {
    Err(Errno::NOSYS.into())
}

/// The standard library's syncs empty the drive's cache.
pub fn settle(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fsync(file)?)
}

pub fn sync_settled(dir: &OwnedFd) -> Result<()> {
    Ok(rustix::fs::fcntl_fullfsync(dir)?)
}

pub fn is_network_disk(dir: &Path) -> bool {
    const LOCAL: u32 = 0x1000;
    rustix::fs::statfs(dir).is_ok_and(|disk| disk.f_flags & LOCAL == 0)
}

pub fn user_name(name: &[u8]) -> Option<&[u8]> {
    (!name.starts_with(SYSTEMS_OWN)).then_some(name)
}

pub fn system_name(name: &[u8]) -> Vec<u8> {
    name.to_vec()
}

pub fn unnamed_file(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A clone is always a new file: see [`share_blocks`].
pub fn clone_blocks(_: &File, _: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn share_blocks(from: &File, to: &Path) -> io::Result<()> {
    rustix::fs::fclonefileat(from, CWD, to, CloneFlags::NOOWNERCOPY)?;
    File::open(to)?.sync_all()
}

pub fn copy_range(_: &File, _: u64, _: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn shared_bytes(_: &File, _: u64) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn start_writeback(_: &File, _: u64, _: u64) {}

pub fn widen_pipe(_: impl AsFd, _: usize) {}

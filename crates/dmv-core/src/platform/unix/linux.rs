//! What Linux has and other Unixes have not.

use super::disk::magic;
use crate::platform::{FileKind, OwnAccess, SystemError, open_own};
use fiemap::{Fiemap, FiemapExtentFlags};
use rustix::fs::{Advice, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Every sync is one of the medium.
pub const FULL_SYNC: bool = false;
/// NFS, SMB1, CIFS, SMB2, AFS, 9P, Ceph.
const NETWORK: [u64; 7] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x0102_1997,
    0x00c3_6400,
];
/// The namespace of extended attributes, with what separates it from the name. No other one is ever read or written.
const USER: &[u8] = b"user.";
/// The error for an attribute that a file does not have.
pub const NO_SUCH_ATTRIBUTE: Errno = Errno::NODATA;
/// Number of the file system in memory.
const TMPFS: u64 = 0x0102_1994;
/// Size of the buffer that directory entries are read into.
const LIST_BUFFER_BYTES: usize = 64 << 10;
/// How often a lookup that met a rename is tried again.
const RETRIES: usize = 32;

type Result<T> = std::result::Result<T, SystemError>;

/// Opens the directory at several names in one call. `None` if the call does not exist here, or the path is too long
/// for it.
pub fn open_beneath(dir: &OwnedFd, rel: &[u8], flags: OFlags) -> Option<Result<OwnedFd>> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RETRIES {
        match rustix::fs::openat2(dir, rel, flags, Mode::empty(), beneath) {
            // A rename took place during the lookup, so the kernel cannot guarantee the path.
            Err(Errno::AGAIN) => continue,
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::NAMETOOLONG) => break,
            other => return Some(other.map_err(SystemError::from)),
        }
    }
    None
}

/// Calls `each` with the names in a directory, also `.` and `..`.
pub fn each_entry(
    dir: &OwnedFd,
    mut each: impl FnMut(&[u8], FileKind) -> Result<()>,
) -> Result<()> {
    rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(LIST_BUFFER_BYTES);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        each(entry.file_name().to_bytes(), entry.file_type().into())?;
    }
    Ok(())
}

pub fn sync_filesystem(dir: &OwnedFd) -> Result<()> {
    Ok(rustix::fs::syncfs(dir)?)
}

pub fn settle(file: &File) -> io::Result<()> {
    file.sync_data()
}

pub fn sync_settled(_: &OwnedFd) -> Result<()> {
    Ok(())
}

pub fn is_network_disk(dir: &Path) -> bool {
    File::open(dir)
        .ok()
        .and_then(magic)
        .is_some_and(|magic| NETWORK.contains(&magic))
}

/// Returns the name without its namespace, if it has that of users.
pub fn user_name(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(USER)
}

/// Returns the name that the system has for an attribute.
pub fn system_name(name: &[u8]) -> Vec<u8> {
    [USER, name].concat()
}

pub fn unnamed_file(dir: &Path) -> io::Result<File> {
    let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, how, Mode::RUSR | Mode::WUSR)?.into())
}

/// Makes `to`, which is empty, share all blocks of `from`.
pub fn clone_blocks(to: &File, from: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

/// Makes a file at `to`, where none is, that shares all blocks of `from`. If it fails, it leaves none.
pub fn share_blocks(from: &File, to: &Path) -> io::Result<()> {
    let target = open_own(to, OwnAccess::CreateNew)?;
    let shared = clone_blocks(&target, from).and_then(|()| target.sync_all());
    if shared.is_err() {
        std::fs::remove_file(to)?;
    }
    shared
}

pub fn copy_range(from: &File, mut at: u64, to: &File, mut to_at: u64, len: u64) -> io::Result<()> {
    let end = at + len;
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), left) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Counts the extents that the system calls shared.
pub fn shared_bytes(file: &File, size: u64) -> io::Result<u64> {
    let mut shared = 0;
    for extent in Fiemap::new(file) {
        let extent = match extent {
            // It knows no such question, and no shared blocks.
            Err(_) if magic(file) == Some(TMPFS) => return Ok(0),
            extent => extent?,
        };
        if extent.fe_flags.contains(FiemapExtentFlags::SHARED) {
            shared += bytes_within(extent.fe_logical, extent.fe_length, size);
        }
    }
    Ok(shared)
}

/// Returns how many bytes of an extent belong to a file of this size. Its last block may be longer than the file.
fn bytes_within(at: u64, len: u64, size: u64) -> u64 {
    at.saturating_add(len).min(size).saturating_sub(at)
}

pub fn start_writeback(file: &File, offset: u64, len: u64) {
    // `DONTNEED` makes Linux start to write the range's dirty pages; pages that are still dirty
    // stay cached. A failure only loses the early start.
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
}

pub fn widen_pipe(pipe: impl AsFd, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
}

#[cfg(test)]
mod tests {
    use super::bytes_within;

    #[test]
    fn only_bytes_of_the_file_count_as_shared() {
        for (at, len, size, expected) in [
            (0, 4096, 8192, 4096),
            (4096, 4096, 8192, 4096),
            (4096, 4096, 5000, 904),
            (8192, 4096, 8192, 0),
            (12288, 4096, 8192, 0),
            (0, 0, 8192, 0),
            (4096, u64::MAX, 8192, 4096),
            (u64::MAX, 1, u64::MAX, 0),
        ] {
            assert_eq!(bytes_within(at, len, size), expected, "{at} {len} {size}");
        }
    }
}

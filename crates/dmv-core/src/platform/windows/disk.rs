//! File systems, owners and rights on paths.

use super::calls;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Component, Path, Prefix};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_NO_RECALL, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, FILE_READ_DATA, FILE_WRITE_DATA, READ_CONTROL,
};
use windows_sys::Win32::System::SystemServices::FILE_READ_ONLY_VOLUME;
use windows_sys::Win32::System::WindowsProgramming::DRIVE_REMOTE;

pub const LOCKLESS_SQLITE: &str = "win32-none";

/// Opens whatever is at `path`, with these rights only.
pub fn open_anything(path: &Path, access: u32, flags: u32) -> io::Result<File> {
    OpenOptions::new()
        .access_mode(access)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_NO_RECALL | flags)
        .open(path)
}

pub fn is_network_disk(dir: &Path) -> bool {
    let Ok(dir) = std::fs::canonicalize(dir) else {
        return false;
    };
    match dir.components().next() {
        Some(Component::Prefix(prefix)) => match prefix.kind() {
            Prefix::UNC(..) | Prefix::VerbatimUNC(..) => true,
            Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
                let root = [u16::from(letter), u16::from(b':'), u16::from(b'\\'), 0];
                calls::drive_type(&root) == DRIVE_REMOTE
            }
            _ => false,
        },
        _ => false,
    }
}

pub fn is_read_only_disk(path: &Path) -> bool {
    let flags = open_anything(path, FILE_READ_ATTRIBUTES, 0)
        .and_then(|file| Ok(calls::volume_flags(&file)?));
    flags.is_ok_and(|flags| flags & FILE_READ_ONLY_VOLUME != 0)
}

pub fn may_read(path: &Path) -> bool {
    open_anything(path, FILE_READ_DATA, 0).is_ok()
}

pub fn free_bytes(path: &Path) -> io::Result<u64> {
    // The call takes directories only.
    let dir = if std::fs::metadata(path)?.is_dir() {
        path
    } else {
        path.parent().unwrap_or(path)
    };
    let wide: Vec<u16> = dir.as_os_str().encode_wide().chain([0]).collect();
    Ok(calls::free_bytes(&wide)?)
}

pub fn may_write(path: &Path) -> bool {
    check_access(path).is_ok()
}

/// The right to write data is also the right to create files in a directory.
pub fn check_access(path: &Path) -> io::Result<()> {
    open_anything(path, FILE_WRITE_DATA, 0).map(drop)
}

pub fn has_room(path: &Path, bytes: u64) -> io::Result<bool> {
    Ok(free_bytes(path)? >= bytes)
}

/// What the process has created is this user's, also if it belongs to the group of the administrators.
fn is_owned(file: &File) -> io::Result<bool> {
    let (owner, this) = (calls::owner(file)?, calls::this_user()?);
    Ok(owner == this.user || owner == this.owner)
}

pub fn is_of_this_user(file: &File) -> io::Result<bool> {
    let access = READ_CONTROL | FILE_READ_ATTRIBUTES;
    let file = calls::reopen(file, access, FILE_FLAG_BACKUP_SEMANTICS)?;
    is_owned(&File::from(file))
}

pub fn is_own(path: &Path) -> io::Result<bool> {
    let access = READ_CONTROL | FILE_READ_ATTRIBUTES;
    is_owned(&open_anything(path, access, FILE_FLAG_OPEN_REPARSE_POINT)?)
}

/// Access lists are not read, so nothing is known to be closed to others.
pub fn is_written_by_this_user_only(path: &Path) -> io::Result<bool> {
    std::fs::symlink_metadata(path).map(|_| false)
}

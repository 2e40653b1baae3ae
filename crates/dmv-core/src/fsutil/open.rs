//! Opens single files by path that another user may have replaced.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file. Follows no symlink in its place, and does not wait for a pipe.
pub fn open_unfollowed(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    how.custom_flags(flags.bits() as i32).open(path)
}

//! A directory that is a disk of its own: one that cannot be written to, or a small one.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// A mounted directory; ends when dropped.
pub struct Mount<'a>(&'a Path);

impl Mount<'_> {
    /// The directory cannot be written to. `None` where one may not mount.
    pub fn read_only(dir: &Path) -> Option<Mount<'_>> {
        let bound = Mount::made(dir, &["--bind".as_ref(), dir.as_os_str()])?;
        run(dir, &["-o".as_ref(), "remount,ro,bind".as_ref()]).then_some(bound)
    }

    /// The directory has room for this many bytes in memory. `None` where one may not mount.
    pub fn small(dir: &Path, bytes: u64) -> Option<Mount<'_>> {
        let size = format!("size={bytes}");
        Mount::made(dir, &["-t", "tmpfs", "-o", &size, "none"].map(OsStr::new))
    }

    fn made<'a>(dir: &'a Path, args: &[&OsStr]) -> Option<Mount<'a>> {
        run(dir, args).then_some(Mount(dir))
    }
}

fn run(dir: &Path, args: &[&OsStr]) -> bool {
    let done = Command::new("mount").args(args).arg(dir).output();
    let is_done = done.is_ok_and(|done| done.status.success());
    if !is_done {
        dmv_random::skip("mount is not there, or not allowed");
    }
    is_done
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        // A failure leaves a mount below a temporary directory, which is then reported.
        let _ = Command::new("umount").arg(self.0).status();
    }
}

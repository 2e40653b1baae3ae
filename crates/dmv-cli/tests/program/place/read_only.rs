//! A directory on a disk that is mounted read-only.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use super::Outcome;
use std::path::Path;
use std::process::Command;

/// A directory that is a disk of its own which cannot be written to; ends when dropped.
pub struct ReadOnly<'a>(&'a Path);

impl ReadOnly<'_> {
    /// `None` where one may not mount.
    pub fn mount(dir: &Path) -> Outcome<Option<ReadOnly<'_>>> {
        let dir_name = dir.as_os_str();
        let bound = match Command::new("mount")
            .arg("--bind")
            .args([dir_name; 2])
            .output()
        {
            Ok(done) if done.status.success() => ReadOnly(dir),
            _ => {
                dmv_random::skip("mount is not there, or not allowed");
                return Ok(None);
            }
        };
        let options = ["-o", "remount,ro,bind"];
        let done = Command::new("mount").args(options).arg(dir).status()?;
        if !done.success() {
            dmv_random::skip("a directory cannot be mounted read-only");
            return Ok(None);
        }
        Ok(Some(bound))
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        // A failure leaves a mount below a temporary directory, which is then reported.
        let _ = Command::new("umount").arg(self.0).status();
    }
}

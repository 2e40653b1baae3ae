//! Who uses a file. Windows does not tell who has a lock.

use super::calls;
use crate::platform::{FileUser, Holder};
use std::os::windows::io::OwnedHandle;
use std::path::Path;

pub fn holder_of(_: &[&Path]) -> Option<Holder> {
    None
}

/// Returns the other programs that have an open file open, too.
pub fn users_of(file: &OwnedHandle) -> Vec<FileUser> {
    let pids = calls::processes_using(file).unwrap_or_default();
    let others = pids.into_iter().filter(|pid| *pid != std::process::id());
    let user = |pid| FileUser {
        pid,
        name: calls::program_of(pid)
            .ok()
            .and_then(|path| path.rsplit('\\').next().map(str::to_owned)),
    };
    others.map(user).collect()
}

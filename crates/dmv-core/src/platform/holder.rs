//! Processes that hold locks.

use super::system;
use std::path::Path;

/// The process that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Whether the process is stopped (Ctrl-Z, SIGSTOP).
    pub is_stopped: bool,
}

/// Returns the process that holds a lock on one of `files`.
///
/// An exclusive lock is preferred to a shared one, and another process to this one. Returns `None`
/// if the system does not show it.
pub(crate) fn holder_of(files: &[&Path]) -> Option<Holder> {
    system::holder_of(files)
}

//! Processes that hold locks, and programs that have files open.

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

/// A program that has a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUser {
    /// Its process id.
    pub pid: u32,
    /// The name of its file, if the system tells it to this user.
    pub name: Option<String>,
}

/// Returns the process that holds a lock on one of `files`.
///
/// An exclusive lock is preferred to a shared one, and another process to this one. Returns `None`
/// if the system does not show it.
pub(crate) fn holder_of(files: &[&Path]) -> Option<Holder> {
    system::holder_of(files)
}

//! The files a user works with, compared with what is committed.
//!
//! [`scan`] walks the worktree and says which entries may differ from the base commit, helped by
//! [`statcache`], which remembers what the files looked like when they were equal to it, and by
//! [`ignore`], which says what the user does not want to hear of. [`checkout`] writes files.
//! Paths are bytes, components joined by `/`, relative to the worktree's root, whose own path is
//! empty.

pub mod cacheupdate;
pub mod checkout;
pub mod ignore;
pub mod ingest;
pub mod known;
pub mod scan;
pub mod select;
pub mod snapshot;
pub mod statcache;

use crate::fsutil::{FileKind, is_temp_name};
use crate::object::name::{NameError, check_name, is_control_name};

/// The order of directories: component by component, a directory before what is in it.
pub fn compare_dirs(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    // No name holds a NUL, so a separator that counts as one sorts before every other byte.
    let key = |b: &u8| if *b == b'/' { 0 } else { *b };
    a.iter().map(key).cmp(b.iter().map(key))
}

/// The path of `name` in `dir`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        b"" => name.to_vec(),
        _ => [dir, b"/", name].concat(),
    }
}

/// The directory and the last component of `path`; `None` for the root.
pub fn split_path(path: &[u8]) -> Option<(&[u8], &[u8])> {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => Some((&path[..at], &path[at + 1..])),
        None if path.is_empty() => None,
        None => Some((b"", path)),
    }
}

/// Why an entry was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It belongs to a version control system: `.dmv` or `.git`.
    Control,
    /// A temporary file of a command that was killed.
    Temporary,
    /// A name that no tree may hold.
    BadName(NameError),
    /// Neither a file nor a symlink nor a directory.
    Special(FileKind),
    /// Its stat failed with this error number.
    Unreadable(i32),
}

/// Why no tree may hold an entry of this name.
pub fn refused_name(name: &[u8]) -> Option<Skip> {
    match check_name(name) {
        Err(_) if is_control_name(name) => Some(Skip::Control),
        Err(why) => Some(Skip::BadName(why)),
        Ok(()) if is_temp_name(name) => Some(Skip::Temporary),
        Ok(()) => None,
    }
}

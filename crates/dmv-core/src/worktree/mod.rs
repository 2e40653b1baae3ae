//! The files that a user works with, compared with the base commit, read in and written out.
//!
//! [`scan`] walks the worktree and reports which entries may differ from the base. [`statcache`]
//! remembers the stats of files that were equal to the base (`quick` asks it alone), and [`ignore`] names the files that
//! the user does not want to see. [`snapshot`] and [`ingest`] read files into the store,
//! [`content`] reads streams, and [`checkout`] writes files. Paths are bytes: components joined by `/`, relative to the worktree's
//! root, whose own path is empty. The room knows nothing of refs or commands; `repo` decides and
//! calls it.

pub mod attributes;
pub mod base;
pub mod cacheupdate;
pub mod checkout;
pub mod claim_rules;
pub mod content;
pub(crate) mod entry_stats;
pub mod ignore;
pub mod ingest;
pub mod not_kept;
mod outlook;
pub mod properties;
pub(crate) mod quick;
pub mod scan;
pub mod select;
pub mod snapshot;
pub mod statcache;

use crate::fsutil::{FileKind, is_temp_name};
use crate::object::name::{NameError, check_name, is_control_name};

/// Compares directories component by component: a directory comes before its content.
pub(crate) fn compare_dirs(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    // No name contains NUL, so a separator that counts as NUL sorts before every other byte.
    let key = |b: &u8| if *b == b'/' { 0 } else { *b };
    a.iter().map(key).cmp(b.iter().map(key))
}

/// Returns the path of `name` in `dir`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        b"" => name.to_vec(),
        _ => [dir, b"/", name].concat(),
    }
}

/// Returns the directory and the last component of `path`; `None` for the root.
pub fn split_path(path: &[u8]) -> Option<(&[u8], &[u8])> {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => Some((&path[..at], &path[at + 1..])),
        None if path.is_empty() => None,
        None => Some((b"", path)),
    }
}

/// Why a scan skipped an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It belongs to a version control system: `.dmv` or `.git`.
    Control,
    /// It is a temporary file of a killed command.
    Temporary,
    /// No tree may contain its name.
    BadName(NameError),
    /// It is not a file, a symlink or a directory.
    Special(FileKind),
    /// Its stat failed with this error number.
    Unreadable(i32),
}

/// Returns why no tree may contain an entry of this name; `None` if one may.
pub(crate) fn refused_name(name: &[u8]) -> Option<Skip> {
    match check_name(name) {
        Err(_) if is_control_name(name) => Some(Skip::Control),
        Err(why) => Some(Skip::BadName(why)),
        Ok(()) if is_temp_name(name) => Some(Skip::Temporary),
        Ok(()) => None,
    }
}
